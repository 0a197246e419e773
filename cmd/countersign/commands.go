package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"countersign/client"
	"countersign/internal/api"
)

//lint:file-ignore SA5008 kong takes each of several tags named set: one sets one variable of the help.

// The commands for operations that people type. All others are reached by "countersign api".

// target is an embedded part of a command that says which end it addresses.
type target interface{ target() (connection, end) }

type atService struct{ connection }
type atGateway struct{ connection }
type atEither struct {
	connection
	endFlags
}

func (t atService) target() (connection, end) { return t.connection, serviceEnd }
func (t atGateway) target() (connection, end) { return t.connection, gatewayEnd }
func (t atEither) target() (connection, end)  { return t.connection, t.end() }

func (t atEither) api(std streams) (*client.Service, end, error) { return t.client(std, t.end()) }

// A command that only calls an operation is one of these types. Its tag op names the operation.
type (
	// listCmd lists. The tag columns defines the columns of the table.
	listCmd[T target] struct {
		At T `embed:""`
		listFlags
	}
	// listOfCmd lists what has a value of the parameter that the tag is names.
	listOfCmd[T target] struct {
		At   T      `embed:""`
		What string `arg:"" help:"${what}"`
		listFlags
	}
	// callCmd accepts what the operation accepts.
	callCmd[T target] struct {
		At T `embed:""`
		requestFlags
	}
	// oneCmd takes one item, by its id or by the member that the tag is names, and what else the operation accepts.
	oneCmd[T target] struct {
		At   T      `embed:""`
		What string `arg:"" help:"${what}"`
		requestFlags
	}
	// keepCmd is a oneCmd that keeps in files what is shown only once.
	keepCmd[T target] struct {
		oneCmd[T]
		Out string `help:"${out}" type:"path" placeholder:"PATH" env:"-"`
	}
	// plainCmd has no arguments. With the tag member it prints only this text of the answer.
	plainCmd[T target] struct {
		At T `embed:""`
	}
)

func (c *listCmd[T]) Run(ctx context.Context, k *kong.Context, std streams) error {
	return (&listOfCmd[T]{At: c.At, listFlags: c.listFlags}).Run(ctx, k, std)
}

func (c *listOfCmd[T]) Run(ctx context.Context, k *kong.Context, std streams) error {
	f, of := c.At.target()
	return f.list(ctx, std, of, k.Selected().Vars()["op"], tagOf(k, "columns"), c.listFlags, tagOf(k, "is"), c.What)
}

func (c *callCmd[T]) Run(ctx context.Context, k *kong.Context, std streams) error {
	return (&oneCmd[T]{At: c.At, requestFlags: c.requestFlags}).Run(ctx, k, std)
}

func (c *oneCmd[T]) Run(ctx context.Context, k *kong.Context, std streams) error {
	f, of := c.At.target()
	return f.print(ctx, std, of, k.Selected().Vars()["op"], c.requestFlags, tagOf(k, "is"), c.What)
}

func (c *keepCmd[T]) Run(ctx context.Context, k *kong.Context, std streams) error {
	return c.keep(ctx, std, k.Selected().Vars()["op"], tagOf(k, "is"))
}

func (c *keepCmd[T]) keep(ctx context.Context, std streams, operation, is string) error {
	files, err := prepare(c.Out, operation)
	if err != nil {
		return err
	}
	f, of := c.At.target()
	r, answer, err := f.call(ctx, std, of, operation, c.requestFlags, is, c.What)
	if err != nil {
		return err
	}
	return keep(std, files, r.body, answer)
}

func (c *plainCmd[T]) Run(ctx context.Context, k *kong.Context, std streams) error {
	f, of := c.At.target()
	_, answer, err := f.call(ctx, std, of, k.Selected().Vars()["op"], requestFlags{}, "", "")
	if err != nil {
		return err
	}
	member := tagOf(k, "member")
	if member == "" {
		return printJSON(std.out, answer, "  ")
	}
	var members map[string]any
	if err := json.Unmarshal(answer, &members); err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.out, strings.TrimSuffix(textOf(members, member), "\n"))
	return err
}

func tagOf(k *kong.Context, name string) string { return k.Selected().Tag.Get(name) }

type merchantsCmd struct {
	Add    keepCmd[atService] `cmd:"" help:"Make a merchant and its keys; what the merchant needs is printed once, or kept with --out." set:"op=createMerchant" is:"id" set:"what=Its id, for ever: 1 to 64 of a-z, 0-9, _ and -." set:"out=${handover}"`
	List   listCmd[atService] `cmd:"" help:"List merchants." set:"op=merchants" columns:"ID|NAME|STATE|FAILING SINCE=health.failingSince|WHY=health.lastFailure.reason|SCHEME|NOTIFY URL|PAUSED BECAUSE=pausedReason"`
	Show   oneCmd[atService]  `cmd:"" help:"Show one merchant." set:"op=merchant" set:"what=Id of the merchant."`
	Edit   oneCmd[atService]  `cmd:"" help:"Change settings of a merchant, such as concurrency=7; what is not given stays." set:"op=updateMerchant" set:"what=Id of the merchant."`
	Rotate merchantsRotateCmd `cmd:"" help:"Replace keys without a pause, step by step: both sets count for a time." set:"what=Id of the merchant." set:"out=With stage: ${handover}"`
}

type merchantsRotateCmd struct {
	Step string `arg:"" enum:"stage,activate,finish,cancel" help:"stage: give the merchant a second set, of key.bits=2048 and with makeApiKey=true and makeCallbackApiKey=true of new API keys; the present one still seals. activate: seal with it; the older keys count for overlap=168h. finish: end the older set. cancel: end the newer one."`
	keepCmd[atService]
}

func (c *merchantsRotateCmd) Run(ctx context.Context, std streams) error {
	return c.keep(ctx, std, c.Step+"Rotation", "")
}

type callbacksCmd struct {
	List   listCmd[atService] `cmd:"" help:"List callbacks, the newest first." set:"op=callbacks" columns:"ID|CREATED|MERCHANT|TYPE|STATE|ATTEMPTS=attempt|TRACKING ID|LAST REASON"`
	Resend oneCmd[atService]  `cmd:"" help:"Send a refused or exhausted callback again, a pending one now, and with accepted=true one that was accepted. api resendCallbacks takes many." set:"op=resendCallback" set:"what=Its id, as callbacks list trackingId=ID shows it."`
}

const withdrawalText = "Its id, or MERCHANT/CALLBACKID."

type withdrawalsCmd struct {
	Add     callCmd[atService] `cmd:"" help:"Ask merchants to confirm withdrawals, given as a JSON object or an array of them: a file, or - for standard input." set:"op=createWithdrawal"`
	List    listCmd[atService] `cmd:"" help:"List withdrawals, the newest first." set:"op=withdrawals" columns:"ID|CREATED|STATE|MERCHANT|CALLBACK ID=callBackId|USER=tenantUserId|AMOUNT=details.amount,ordered.amount|SYMBOL=details.symbol,ordered.symbol|REASON"`
	Show    oneCmd[atService]  `cmd:"" help:"Show one withdrawal." set:"op=withdrawal" set:"what=${withdrawal}"`
	Release keepCmd[atService] `cmd:"" help:"Take the one permit to execute a confirmed withdrawal. claim=CLAIM says which execution it is for: the same claim gets it again, another claim never." set:"op=releaseWithdrawal" set:"what=${withdrawal}" set:"out=Directory for note.txt, answer.json if the merchant signs, which permit verify checks, and permit.json, all of it; made if missing. Nothing in it is overwritten."`
}

type ordersCmd struct {
	Add  callCmd[atGateway] `cmd:"" help:"Order a withdrawal, given as a JSON object: a file, or - for standard input." set:"op=addOrder"`
	List listCmd[atGateway] `cmd:"" help:"List orders, the newest first." set:"op=orders" columns:"CALLBACK ID=callBackId|CREATED|STATE|USER=tenantUserId|AMOUNT|SYMBOL|CHAIN=chainName|ADDRESS|REASON"`
}

type depositsCmd struct {
	List listCmd[atGateway] `cmd:"" help:"List deposits, the newest first." set:"op=searchDeposits" columns:"SEQ|TAKEN|STATE|USER=tenantUserId|AMOUNT|SYMBOL|CHAIN=chainName|TRANSACTION=txId|TRACKING ID"`
	Show oneCmd[atGateway]  `cmd:"" help:"Show one deposit." set:"op=deposit" set:"what=Its number in the feed of deposits, as search shows it."`
}

const taskText = "Its id, such as deposit.17, or release.MERCHANT/CALLBACKID."

type tasksCmd struct {
	List    listCmd[atEither] `cmd:"" help:"List what waits for persons, the newest first; awaits=me: only what you may approve." set:"op=tasks" columns:"ID|OPENED|STATE|MERCHANT|WHAT=title|WHY|MISSING|NOBODY CAN=nobody"`
	Show    oneCmd[atEither]  `cmd:"" help:"Show one task: what would happen, who has said what, and who can say the rest." set:"op=task" set:"what=${task}"`
	Approve oneCmd[atEither]  `cmd:"" help:"Approve a task; reason='…' is kept for later readers. api approveTasks takes several." set:"op=approveTask" set:"what=${task}"`
	Decline oneCmd[atEither]  `cmd:"" help:"Decline a task; reason='…' is kept for later readers. api declineTasks takes several." set:"op=declineTask" set:"what=${task}"`
	Note    oneCmd[atEither]  `cmd:"" help:"Add a note, text='…', to a task for colleagues." set:"op=noteTask" set:"what=${task}"`
}

type alarmsCmd struct {
	List listCmd[atEither]  `cmd:"" help:"List alarms, the newest first; state=open: only those that nobody has acknowledged and that have not ended." set:"op=alarms" columns:"SEQ|LAST|MERCHANT|KIND|TIMES=number|ABOUT=subject|ACKNOWLEDGED=acked|BY=ackedName|ENDED|WHAT HELPS=text"`
	Test plainCmd[atEither] `cmd:"" help:"Post a message that is a test to --alarm-url, and show how that ended." set:"op=testAlarm"`
}

type providerCmd struct {
	Show plainCmd[atGateway] `cmd:"" help:"Print the settings that fit the provider, for gateway --config, and what would be refused with them." set:"op=learned" member:"settings"`
	Note plainCmd[atGateway] `cmd:"" help:"Print what the provider must change, because no setting helps." set:"op=learned" member:"note"`
}

type tokenCmd struct {
	New keepCmd[atEither] `cmd:"" help:"Make a token: role=ROLE, merchants=ID,… if it is for these alone, expires=90d if it ends. Its secret is shown once, or written to a file." set:"op=createToken" is:"name" set:"what=Name of the token's owner, for people." set:"out=New file for the secret, which is then not printed."`
}

// apiCmd calls any operation.
type apiCmd struct {
	atEither
	Operation string `arg:"" optional:"" help:"Name of the operation. Without it all are listed."`
	requestFlags
	Members bool `help:"Only list what the operation takes." env:"-"`
}

// Help is the long help of the subcommand.
func (apiCmd) Help() string {
	return "Parts of the path, parameters of the query and members of the body are name=value; a word alone is the next part of the path; " +
		"where the path has none, the file of the body. The body whole: -d. The answer is printed as JSON. " +
		"countersign api lists the operations of an end, countersign api OPERATION --members what one takes."
}

func (c *apiCmd) Run(ctx context.Context, std streams) error {
	of := c.end()
	if of == "" {
		of = onlyEndOf(c.Operation)
	}
	if c.Operation != "" && !c.Members {
		return c.print(ctx, std, of, c.Operation, c.requestFlags, "", "")
	}
	at, err := findPlace(std, of, c.Data)
	if err != nil {
		return err
	}
	var rows [][]string
	if c.Operation == "" {
		for _, o := range operations(at.end) {
			rows = append(rows, []string{o.ID, o.Method + " " + o.Path, o.Summary})
		}
		return writeTable(std.out, rows)
	}
	r, err := newRequest(nil, at.end, c.Operation)
	if err != nil {
		return err
	}
	for _, m := range r.members {
		if !m.object {
			rows = append(rows, []string{m.name, m.doc})
		}
	}
	return writeTable(std.out, rows)
}

// onlyEndOf returns the only end that has an operation, or "" if both or none have it.
func onlyEndOf(operation string) (of end) {
	for _, e := range []end{serviceEnd, gatewayEnd} {
		if slices.ContainsFunc(operations(e), func(o api.Operation) bool { return o.ID == operation }) {
			if of != "" {
				return ""
			}
			of = e
		}
	}
	return of
}
