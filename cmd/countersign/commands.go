package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"countersign/client"
)

// The commands that people type for operations of the APIs. All others are reached by "countersign api".

// target is an embedded part of a command that says which end it is for.
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

// A command that is an operation and no more is one of these types. Its tag op names the operation.
type (
	// listCmd lists; the tag columns has the columns of the table.
	listCmd[T target] struct {
		At T `embed:""`
		listFlags
	}
	// showCmd prints what has an id.
	showCmd[T target] struct {
		At T      `embed:""`
		ID string `arg:"" help:"${id}"`
	}
	// callCmd takes what the operation takes.
	callCmd[T target] struct {
		At T `embed:""`
		requestFlags
	}
	// plainCmd takes nothing. With the tag member it prints this text of the answer alone.
	plainCmd[T target] struct {
		At T `embed:""`
	}
)

func (c *listCmd[T]) Run(ctx context.Context, k *kong.Context, std streams) error {
	f, of := c.At.target()
	return f.list(ctx, std, of, tagOf(k, "op"), tagOf(k, "columns"), c.listFlags)
}

func (c *showCmd[T]) Run(ctx context.Context, k *kong.Context, std streams) error {
	f, of := c.At.target()
	return f.print(ctx, std, of, tagOf(k, "op"), requestFlags{}, "", c.ID)
}

func (c *callCmd[T]) Run(ctx context.Context, k *kong.Context, std streams) error {
	f, of := c.At.target()
	return f.print(ctx, std, of, tagOf(k, "op"), c.requestFlags)
}

func (c *plainCmd[T]) Run(ctx context.Context, k *kong.Context, std streams) error {
	f, of := c.At.target()
	_, answer, err := f.call(ctx, std, of, tagOf(k, "op"), requestFlags{})
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
	Add    merchantsAddCmd    `cmd:"" help:"Make a merchant and its keys; what the merchant needs is printed once."`
	List   listCmd[atService] `cmd:"" help:"List merchants." op:"merchants" columns:"ID|NAME|STATE|FAILING SINCE=health.failingSince|WHY=health.lastFailure.reason|SCHEME|NOTIFY URL|PAUSED BECAUSE=pausedReason"`
	Show   showCmd[atService] `cmd:"" help:"Show one merchant." op:"merchant" set:"id=Id of the merchant."`
	Health showCmd[atService] `cmd:"" help:"Say why a merchant fails, since when, and what it must mend." op:"merchantHealth" set:"id=Id of the merchant."`
	Edit   callCmd[atService] `cmd:"" help:"Change settings of a merchant, such as concurrency=7; what is not given stays." op:"updateMerchant"`
	Rotate merchantsRotateCmd `cmd:"" help:"Replace keys without a pause, step by step: both sets count for a time."`
}

type merchantFlags struct {
	Name           string `help:"Name for people." env:"-"`
	NotifyURL      string `name:"notify-url" help:"Where callbacks go of every type but 2." placeholder:"URL" env:"-"`
	WithdrawURL    string `name:"withdraw-url" help:"Where callbacks of type 2 go." placeholder:"URL" env:"-"`
	APIKey         string `name:"api-key" help:"The key that the merchant's responses carry; or @FILE." placeholder:"KEY" env:"-"`
	CallbackAPIKey string `name:"callback-api-key" help:"The value of X-API-KEY of requests; or @FILE." placeholder:"KEY" env:"-"`
	AnswerKey      string `help:"Public part of the key that signs the merchant's responses, as its gateway shows it; two with a comma while it is replaced. It turns the signed link on." placeholder:"KEY" env:"-"`
}

func (f merchantFlags) members() []string {
	return []string{"name", f.Name, "notifyUrl", f.NotifyURL, "withdrawUrl", f.WithdrawURL, "apiKey", f.APIKey, "callbackApiKey", f.CallbackAPIKey, "answerKey", f.AnswerKey}
}

type keyFiles struct {
	Bits               string `help:"Make the request key with so many bits. Default: 2048." placeholder:"BITS" env:"-"`
	PrivateKey         string `help:"File with the private request key to use, PEM or bare Base64." type:"path" placeholder:"FILE" env:"-"`
	PublicKey          string `help:"File with the merchant's public request key, if the merchant made the pair." type:"path" placeholder:"FILE" env:"-"`
	ResponseKeyBits    string `help:"Make a pair of its own for answers, with so many bits." placeholder:"BITS" env:"-"`
	ResponsePrivateKey string `help:"File with the private key that opens answers." type:"path" placeholder:"FILE" env:"-"`
}

func (f keyFiles) members(std streams) ([]string, error) {
	private, err := fromFile(std, f.PrivateKey, true)
	if err != nil {
		return nil, err
	}
	public, err := fromFile(std, f.PublicKey, false)
	if err != nil {
		return nil, err
	}
	response, err := fromFile(std, f.ResponsePrivateKey, true)
	return []string{"key.bits", f.Bits, "key.privateKey", private, "key.publicKey", public, "responseKey.bits", f.ResponseKeyBits, "responseKey.privateKey", response}, err
}

type merchantsAddCmd struct {
	connection
	ID string `arg:"" help:"Its id, for ever: 1 to 64 of a-z, 0-9, _ and -."`
	requestFlags
	merchantFlags
	keyFiles
	Scheme string `help:"Which end made the pair that seals requests. Default: service." placeholder:"SCHEME" env:"-"`
	Out    string `help:"Directory for what the merchant needs: service.b64, response.b64, api.key and callback-api.key; made if missing. Nothing in it is overwritten. Without it all is printed." type:"path" placeholder:"DIR" env:"-"`
}

func (c *merchantsAddCmd) Run(ctx context.Context, std streams) error {
	keys, err := c.keyFiles.members(std)
	if err != nil {
		return err
	}
	if err := prepareHandover(c.Out); err != nil {
		return err
	}
	r, answer, err := c.call(ctx, std, serviceEnd, "createMerchant", c.requestFlags, append(append(keys, c.merchantFlags.members()...), "id", c.ID, "scheme", c.Scheme)...)
	if err != nil {
		return err
	}
	return handOver(std, c.Out, "merchant "+c.ID+" was made", r.body, answer)
}

type merchantsRotateCmd struct {
	connection
	Step string `arg:"" enum:"stage,activate,finish,cancel" help:"stage: give the merchant a second set; the present one still seals. activate: seal with it. finish: end the older set. cancel: end the newer one."`
	ID   string `arg:"" help:"Id of the merchant."`
	requestFlags
	keyFiles
	NewAPIKey         bool   `name:"new-api-key" help:"stage: make another key for responses, too." env:"-"`
	NewCallbackAPIKey bool   `name:"new-callback-api-key" help:"stage: make another X-API-KEY, too." env:"-"`
	Overlap           string `help:"activate: how long the older keys still count. Default: 168h." placeholder:"TIME" env:"-"`
	Out               string `help:"stage: directory for what the merchant needs: service.b64, response.b64, api.key, callback-api.key; made if missing. Nothing in it is overwritten. Without it all is printed." type:"path" placeholder:"DIR" env:"-"`
}

func (c *merchantsRotateCmd) Run(ctx context.Context, std streams) error {
	members, err := c.keyFiles.members(std)
	if err != nil {
		return err
	}
	if c.Out != "" && c.Step != "stage" {
		return errors.New("--out: only stage makes keys")
	}
	if err := prepareHandover(c.Out); err != nil {
		return err
	}
	members = append(members, "id", c.ID, "overlap", c.Overlap, "makeApiKey", yes(c.NewAPIKey), "makeCallbackApiKey", yes(c.NewCallbackAPIKey))
	_, answer, err := c.call(ctx, std, serviceEnd, c.Step+"Rotation", c.requestFlags, members...)
	if err != nil {
		return err
	}
	return handOver(std, c.Out, "the keys were staged", nil, answer)
}

// yes is the value of a flag that was given.
func yes(given bool) string {
	if given {
		return "true"
	}
	return ""
}

type callbacksCmd struct {
	List   listCmd[atService] `cmd:"" help:"List callbacks, the newest first." op:"callbacks" columns:"ID|CREATED|MERCHANT|TYPE|STATE|ATTEMPTS=attempt|TRACKING ID|LAST REASON"`
	Resend callbacksResendCmd `cmd:"" help:"Send refused or exhausted callbacks again, and pending ones now: one by its id, or all that match."`
}

const callbackText = "Its id, trackingId or callBackId; MERCHANT/ before it where several merchants have it."

type callbacksResendCmd struct {
	connection
	ID       string   `arg:"" optional:"" help:"One callback: ${callback} Without it the flags select."`
	Accepted bool     `help:"With an id: send it also if the merchant has accepted it." env:"-"`
	Merchant string   `help:"All of this merchant." placeholder:"ID" env:"-"`
	State    string   `help:"All in this state." placeholder:"STATE" env:"-"`
	Where    []string `help:"All that have this, such as symbol=USDT; may be repeated." placeholder:"NAME=VALUE" env:"-"`
	DryRun   bool     `help:"Only count them." env:"-"`
}

func (c *callbacksResendCmd) Run(ctx context.Context, std streams) error {
	selects := c.Merchant != "" || c.State != "" || len(c.Where) > 0
	switch {
	case c.ID == "" && !selects:
		return errors.New("give an id, or a selection such as --merchant")
	case c.ID != "" && (selects || c.DryRun):
		return errors.New("give an id or a selection, not both")
	case c.ID != "":
		return c.print(ctx, std, serviceEnd, "resendCallback", requestFlags{}, "id", c.ID, "accepted", yes(c.Accepted))
	case c.Accepted:
		return errors.New("--accepted needs the id of one callback")
	}
	given := requestFlags{}
	for _, where := range c.Where {
		given.Set = append(given.Set, "filter."+where)
	}
	return c.print(ctx, std, serviceEnd, "resendCallbacks", given, "filter.merchant", c.Merchant, "filter.state", c.State, "dryRun", yes(c.DryRun))
}

const withdrawalText = "Its id, MERCHANT/CALLBACKID, or its callBackId where one merchant has it."

type withdrawalsCmd struct {
	Add     callCmd[atService]    `cmd:"" help:"Ask merchants to confirm withdrawals, given as a JSON object or an array of them: a file, or - for standard input." op:"createWithdrawal"`
	List    listCmd[atService]    `cmd:"" help:"List withdrawals, the newest first." op:"withdrawals" columns:"ID|CREATED|STATE|MERCHANT|CALLBACK ID=callBackId|USER=tenantUserId|AMOUNT=details.amount,ordered.amount|SYMBOL=details.symbol,ordered.symbol|REASON"`
	Show    showCmd[atService]    `cmd:"" help:"Show one withdrawal." op:"withdrawal" set:"id=${withdrawal}"`
	Release withdrawalsReleaseCmd `cmd:"" help:"Take the one permit to execute a confirmed withdrawal."`
}

type withdrawalsReleaseCmd struct {
	connection
	ID    string `arg:"" help:"${withdrawal}"`
	Claim string `required:"" help:"Which execution the permit is for: the same claim gets it again, another one never." placeholder:"CLAIM" env:"-"`
	Out   string `help:"Directory for note.txt, answer.json if the merchant signs, which permit verify checks, and permit.json, all of it; made if missing. Nothing in it is overwritten. Without it all is printed." type:"path" placeholder:"DIR" env:"-"`
}

func (c *withdrawalsReleaseCmd) Run(ctx context.Context, std streams) error {
	if err := prepare(c.Out, noteFile, answerFile, permitFile); err != nil {
		return err
	}
	_, answer, err := c.call(ctx, std, serviceEnd, "releaseWithdrawal", requestFlags{}, "id", c.ID, "claim", c.Claim)
	if err != nil {
		return err
	}
	return savePermit(std, c.Out, answer)
}

type ordersCmd struct {
	Add  callCmd[atGateway] `cmd:"" help:"Order a withdrawal, given as a JSON object: a file, or - for standard input." op:"addOrder"`
	List listCmd[atGateway] `cmd:"" help:"List orders, the newest first." op:"orders" columns:"CALLBACK ID=callBackId|CREATED|STATE|USER=tenantUserId|AMOUNT|SYMBOL|CHAIN=chainName|ADDRESS|REASON"`
}

type depositsCmd struct {
	List listCmd[atGateway] `cmd:"" help:"List deposits, the oldest first." op:"deposits" columns:"SEQ|TAKEN|STATE|USER=tenantUserId|AMOUNT|SYMBOL|CHAIN=chainName|TRANSACTION=txId|TRACKING ID"`
	Show showCmd[atGateway] `cmd:"" help:"Show one deposit." op:"deposit" set:"id=Its number in the feed of deposits, or its trackingId."`
}

type tasksCmd struct {
	List    listCmd[atEither] `cmd:"" help:"List what waits for persons, the newest first; awaits=me: only what you may approve." op:"tasks" columns:"ID|OPENED|STATE|MERCHANT|WHAT=title|WHY|MISSING|NOBODY CAN=nobody"`
	Show    showCmd[atEither] `cmd:"" help:"Show one task: what would happen, who has said what, and who can say the rest." op:"task" set:"id=Its id, such as deposit.17, or release.MERCHANT/CALLBACKID."`
	Approve tasksDecideCmd    `cmd:"" help:"Approve a task, or several, first with --dry-run." op:"approveTask"`
	Decline tasksDecideCmd    `cmd:"" help:"Decline a task, or several, first with --dry-run." op:"declineTask"`
	Note    tasksNoteCmd      `cmd:"" help:"Note something about what a task is about, for colleagues."`
}

type tasksDecideCmd struct {
	atEither
	ID     []string `arg:"" help:"Ids, such as deposit.17, or release.MERCHANT/CALLBACKID."`
	Reason string   `help:"The reason, kept for later readers." placeholder:"TEXT" env:"-"`
	DryRun bool     `help:"Only say which of them it would be done to." env:"-"`
}

func (c *tasksDecideCmd) Run(ctx context.Context, k *kong.Context, std streams) error {
	if len(c.ID) == 1 && !c.DryRun {
		return c.print(ctx, std, c.end(), tagOf(k, "op"), requestFlags{}, "id", c.ID[0], "reason", c.Reason)
	}
	api, e, err := c.api(std)
	if err != nil {
		return err
	}
	for i := range c.ID {
		if c.ID[i], err = findTask(ctx, api, c.ID[i]); err != nil {
			return err
		}
	}
	ids, err := json.Marshal(c.ID)
	if err != nil {
		return err
	}
	return c.print(ctx, std, e, tagOf(k, "op")+"s", requestFlags{}, "ids", string(ids), "reason", c.Reason, "dryRun", yes(c.DryRun))
}

type tasksNoteCmd struct {
	atEither
	ID   string `arg:"" help:"Its id, such as deposit.17, or release.MERCHANT/CALLBACKID."`
	Text string `arg:"" help:"What is noted."`
}

func (c *tasksNoteCmd) Run(ctx context.Context, std streams) error {
	return c.print(ctx, std, c.end(), "noteTask", requestFlags{}, "id", c.ID, "text", c.Text)
}

type searchCmd struct {
	atEither
	Text string `arg:"" help:"The whole text."`
	listFlags
}

func (c *searchCmd) Run(ctx context.Context, std streams) error {
	return c.list(ctx, std, c.end(), "search", "KIND|ID|MERCHANT|MATCHED|STATE|AT", c.listFlags, "q", c.Text)
}

type freezeCmd struct {
	connection
	Reason string `arg:"" optional:"" help:"Why, for everybody who meets the freeze."`
	Status bool   `help:"Only say whether the service is frozen, since when, by whom and why." env:"-"`
}

func (c *freezeCmd) Run(ctx context.Context, std streams) error {
	switch {
	case c.Status:
		return c.print(ctx, std, serviceEnd, "frozen", requestFlags{})
	case c.Reason == "":
		return errors.New("give a reason, or --status")
	}
	return c.print(ctx, std, serviceEnd, "freeze", requestFlags{}, "reason", c.Reason)
}

type alarmsCmd struct {
	List listCmd[atEither]  `cmd:"" help:"List alarms, the newest first; --state open: only those that nobody has acknowledged and that have not ended." op:"alarms" columns:"SEQ|LAST|MERCHANT|KIND|TIMES=number|ABOUT=subject|ACKNOWLEDGED=acked|BY=ackedName|ENDED|WHAT HELPS=text"`
	Test plainCmd[atEither] `cmd:"" help:"Post a message that is a test to --alarm-url, and show how that ended." op:"testAlarm"`
}

type providerCmd struct {
	Show plainCmd[atGateway] `cmd:"" help:"Print the settings that fit the provider, for gateway --config, and what would be refused with them." op:"learned" member:"settings"`
	Note plainCmd[atGateway] `cmd:"" help:"Print what to send to the provider, which no setting mends." op:"learned" member:"note"`
}

type tokenCmd struct {
	New tokenNewCmd `cmd:"" help:"Make a token. Its secret is shown once, or written to a file."`
}

type tokenNewCmd struct {
	atEither
	Name string `arg:"" help:"Name of the token's owner, for people."`
	requestFlags
	Role     string   `required:"" help:"What it may do; docs/provider/control.md says which end has which role." placeholder:"ROLE" env:"-"`
	Merchant []string `help:"Bind it to this merchant; may be repeated. Default: all." placeholder:"ID" env:"-"`
	Expires  string   `help:"When it ends, such as 2027-01-31T00:00:00Z, or how long from now, such as 90d. Default: never." placeholder:"TIME" env:"-"`
	Out      string   `help:"Write the secret to this new file, for its owner alone, and do not print it." type:"path" placeholder:"FILE" env:"-"`
}

func (c *tokenNewCmd) Run(ctx context.Context, std streams) error {
	if c.Out != "" {
		if err := isNew(c.Out); err != nil {
			return err
		}
	}
	r, answer, err := c.call(ctx, std, c.end(), "createToken", c.requestFlags, "name", c.Name, "role", c.Role, "merchants", strings.Join(c.Merchant, ","), "expires", c.Expires)
	switch {
	case err != nil:
		return err
	case c.Out == "":
		return printJSON(std.out, answer, "  ")
	}
	return keepToken(ctx, r.api, std, c.Out, answer)
}
