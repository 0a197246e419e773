package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"countersign/client"
)

// The commands that people type for operations of the APIs. All others are reached by "countersign api".

type merchantsCmd struct {
	Add    merchantsAddCmd    `cmd:"" help:"Make a merchant and its keys; what the merchant needs is printed once."`
	List   merchantsListCmd   `cmd:"" help:"List merchants."`
	Show   merchantsShowCmd   `cmd:"" help:"Show one merchant."`
	Health merchantsHealthCmd `cmd:"" help:"Say why a merchant fails, since when, and what it must mend."`
	Edit   merchantsEditCmd   `cmd:"" help:"Change settings of a merchant; what is not given stays."`
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
	Out    string `help:"Directory for what the merchant needs: service.b64, api.key, callback-api.key and merchant.json; made if missing. Nothing in it is overwritten. Without it all is printed." type:"path" placeholder:"DIR" env:"-"`
}

func (c *merchantsAddCmd) Run(ctx context.Context, std streams) error {
	keys, err := c.keyFiles.members(std)
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := makeHandover(c.Out); err != nil {
			return err
		}
	}
	r, answer, err := c.call(ctx, std, serviceEnd, "createMerchant", c.requestFlags, append(append(keys, c.merchantFlags.members()...), "id", c.ID, "scheme", c.Scheme)...)
	switch {
	case err != nil:
		return err
	case c.Out == "":
		return printJSON(std.out, answer, "  ")
	}
	return handOver(std, c.Out, r.body, answer)
}

type merchantsListCmd struct {
	connection
	listFlags
}

func (c *merchantsListCmd) Run(ctx context.Context, std streams) error {
	return c.list(ctx, std, serviceEnd, "merchants", "ID|NAME|STATE|FAILING SINCE=health.failingSince|WHY=health.lastFailure.reason|SCHEME|NOTIFY URL|PAUSED BECAUSE=pausedReason", c.listFlags)
}

type merchantsShowCmd struct {
	connection
	ID string `arg:"" help:"Id of the merchant."`
}

func (c *merchantsShowCmd) Run(ctx context.Context, std streams) error {
	return c.print(ctx, std, serviceEnd, "merchant", requestFlags{}, "id", c.ID)
}

type merchantsHealthCmd struct {
	connection
	ID string `arg:"" help:"Id of the merchant."`
}

func (c *merchantsHealthCmd) Run(ctx context.Context, std streams) error {
	return c.print(ctx, std, serviceEnd, "merchantHealth", requestFlags{}, "id", c.ID)
}

type merchantsEditCmd struct {
	connection
	ID string `arg:"" help:"Id of the merchant."`
	requestFlags
	merchantFlags
}

func (c *merchantsEditCmd) Run(ctx context.Context, std streams) error {
	return c.print(ctx, std, serviceEnd, "updateMerchant", c.requestFlags, append(c.members(), "id", c.ID)...)
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
	if c.Out != "" {
		if c.Step != "stage" {
			return errors.New("--out: only stage makes keys")
		}
		if err := makeHandover(c.Out); err != nil {
			return err
		}
	}
	members = append(members, "id", c.ID, "overlap", c.Overlap, "makeApiKey", yes(c.NewAPIKey), "makeCallbackApiKey", yes(c.NewCallbackAPIKey))
	_, answer, err := c.call(ctx, std, serviceEnd, c.Step+"Rotation", c.requestFlags, members...)
	switch {
	case err != nil:
		return err
	case c.Out == "":
		return printJSON(std.out, answer, "  ")
	}
	return handOverStaged(std, c.Out, answer)
}

// yes is the value of a flag that was given.
func yes(given bool) string {
	if given {
		return "true"
	}
	return ""
}

type callbacksCmd struct {
	List   callbacksListCmd   `cmd:"" help:"List callbacks, the newest first."`
	Resend callbacksResendCmd `cmd:"" help:"Send refused or exhausted callbacks again, and pending ones now: one by its id, or all that match."`
}

type callbacksListCmd struct {
	connection
	listFlags
}

func (c *callbacksListCmd) Run(ctx context.Context, std streams) error {
	return c.list(ctx, std, serviceEnd, "callbacks", "ID|CREATED|MERCHANT|TYPE|STATE|ATTEMPTS=attempt|TRACKING ID|LAST REASON", c.listFlags)
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

type withdrawalsCmd struct {
	Add     withdrawalsAddCmd     `cmd:"" help:"Ask merchants to confirm withdrawals, given as a JSON object or an array of them."`
	List    withdrawalsListCmd    `cmd:"" help:"List withdrawals, the newest first."`
	Show    withdrawalsShowCmd    `cmd:"" help:"Show one withdrawal."`
	Release withdrawalsReleaseCmd `cmd:"" help:"Take the one permit to execute a confirmed withdrawal."`
}

type withdrawalsAddCmd struct {
	connection
	requestFlags
}

// Help is the long help of the subcommand.
func (withdrawalsAddCmd) Help() string {
	return "A word without = is a file with the request; - is standard input."
}

func (c *withdrawalsAddCmd) Run(ctx context.Context, std streams) error {
	given, err := c.ofFile()
	if err != nil {
		return err
	}
	return c.print(ctx, std, serviceEnd, "createWithdrawal", given)
}

type withdrawalsListCmd struct {
	connection
	listFlags
}

func (c *withdrawalsListCmd) Run(ctx context.Context, std streams) error {
	return c.list(ctx, std, serviceEnd, "withdrawals",
		"ID|CREATED|STATE|MERCHANT|CALLBACK ID=callBackId|USER=tenantUserId|AMOUNT=details.amount,ordered.amount|SYMBOL=details.symbol,ordered.symbol|REASON", c.listFlags)
}

const withdrawalText = "Its id, MERCHANT/CALLBACKID, or its callBackId where one merchant has it."

type withdrawalsShowCmd struct {
	connection
	ID string `arg:"" help:"${withdrawal}"`
}

func (c *withdrawalsShowCmd) Run(ctx context.Context, std streams) error {
	return c.print(ctx, std, serviceEnd, "withdrawal", requestFlags{}, "id", c.ID)
}

type withdrawalsReleaseCmd struct {
	connection
	ID    string `arg:"" help:"${withdrawal}"`
	Claim string `required:"" help:"Which execution the permit is for: the same claim gets it again, another one never." placeholder:"CLAIM" env:"-"`
	Out   string `help:"Directory for note.txt, answer.json if the merchant signs, which permit verify checks, and permit.json, all of it; made if missing. Nothing in it is overwritten. Without it all is printed." type:"path" placeholder:"DIR" env:"-"`
}

func (c *withdrawalsReleaseCmd) Run(ctx context.Context, std streams) error {
	if c.Out != "" {
		if err := makePermitDir(c.Out); err != nil {
			return err
		}
	}
	_, answer, err := c.call(ctx, std, serviceEnd, "releaseWithdrawal", requestFlags{}, "id", c.ID, "claim", c.Claim)
	if err != nil {
		return err
	}
	return savePermit(std, c.Out, answer)
}

type ordersCmd struct {
	Add  ordersAddCmd  `cmd:"" help:"Order a withdrawal, given as a JSON object."`
	List ordersListCmd `cmd:"" help:"List orders, the newest first."`
}

type ordersAddCmd struct {
	connection
	requestFlags
}

// Help is the long help of the subcommand.
func (ordersAddCmd) Help() string {
	return "A word without = is a file with the request; - is standard input."
}

func (c *ordersAddCmd) Run(ctx context.Context, std streams) error {
	given, err := c.ofFile()
	if err != nil {
		return err
	}
	return c.print(ctx, std, gatewayEnd, "addOrder", given)
}

type ordersListCmd struct {
	connection
	listFlags
}

func (c *ordersListCmd) Run(ctx context.Context, std streams) error {
	return c.list(ctx, std, gatewayEnd, "orders", "CALLBACK ID=callBackId|CREATED|STATE|USER=tenantUserId|AMOUNT|SYMBOL|CHAIN=chainName|ADDRESS|REASON", c.listFlags)
}

type depositsCmd struct {
	List depositsListCmd `cmd:"" help:"List deposits, the oldest first."`
	Show depositsShowCmd `cmd:"" help:"Show one deposit."`
}

type depositsListCmd struct {
	connection
	listFlags
}

func (c *depositsListCmd) Run(ctx context.Context, std streams) error {
	return c.list(ctx, std, gatewayEnd, "deposits", "SEQ|TAKEN|STATE|USER=tenantUserId|AMOUNT|SYMBOL|CHAIN=chainName|TRANSACTION=txId|TRACKING ID", c.listFlags)
}

type depositsShowCmd struct {
	connection
	ID string `arg:"" help:"Its number in the feed of deposits, or its trackingId."`
}

func (c *depositsShowCmd) Run(ctx context.Context, std streams) error {
	return c.print(ctx, std, gatewayEnd, "deposit", requestFlags{}, "seq", c.ID)
}

type tasksCmd struct {
	List    tasksListCmd    `cmd:"" help:"List what waits for persons, the newest first; --awaits=me: only what you may approve."`
	Show    tasksShowCmd    `cmd:"" help:"Show one task: what would happen, who has said what, and who can say the rest."`
	Approve tasksApproveCmd `cmd:"" help:"Approve a task, or several, first with --dry-run."`
	Decline tasksDeclineCmd `cmd:"" help:"Decline a task, or several, first with --dry-run."`
	Note    tasksNoteCmd    `cmd:"" help:"Note something about what a task is about, for colleagues."`
}

type tasksListCmd struct {
	eitherEnd
	listFlags
	Kind   string `help:"Only of this kind." placeholder:"KIND" env:"-"`
	Awaits string `help:"me: only what you may approve." placeholder:"me" env:"-"`
}

func (c *tasksListCmd) Run(ctx context.Context, std streams) error {
	return c.list(ctx, std, c.end(), "tasks", "ID|OPENED|STATE|MERCHANT|WHAT=title|WHY|MISSING|NOBODY CAN=nobody", c.listFlags, "kind", c.Kind, "awaits", c.Awaits)
}

type tasksShowCmd struct {
	eitherEnd
	ID string `arg:"" help:"Its id, such as deposit.17, or release.MERCHANT/CALLBACKID."`
}

func (c *tasksShowCmd) Run(ctx context.Context, std streams) error {
	return c.print(ctx, std, c.end(), "task", requestFlags{}, "id", c.ID)
}

type tasksDecideCmd struct {
	eitherEnd
	ID     []string `arg:"" help:"Ids, such as deposit.17, or release.MERCHANT/CALLBACKID."`
	Reason string   `help:"The reason, kept for later readers." placeholder:"TEXT" env:"-"`
	DryRun bool     `help:"Only say which of them it would be done to." env:"-"`
}

type tasksApproveCmd struct{ tasksDecideCmd }

func (c *tasksApproveCmd) Run(ctx context.Context, std streams) error {
	return c.decide(ctx, std, "approve")
}

type tasksDeclineCmd struct{ tasksDecideCmd }

func (c *tasksDeclineCmd) Run(ctx context.Context, std streams) error {
	return c.decide(ctx, std, "decline")
}

// decide approves or declines, as verb says.
func (c *tasksDecideCmd) decide(ctx context.Context, std streams, verb string) error {
	if len(c.ID) == 1 && !c.DryRun {
		return c.print(ctx, std, c.end(), verb+"Task", requestFlags{}, "id", c.ID[0], "reason", c.Reason)
	}
	api, e, err := c.api()
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
	return c.print(ctx, std, e, verb+"Tasks", requestFlags{}, "ids", string(ids), "reason", c.Reason, "dryRun", yes(c.DryRun))
}

type tasksNoteCmd struct {
	eitherEnd
	ID   string `arg:"" help:"Its id, such as deposit.17, or release.MERCHANT/CALLBACKID."`
	Text string `arg:"" help:"What is noted."`
}

func (c *tasksNoteCmd) Run(ctx context.Context, std streams) error {
	return c.print(ctx, std, c.end(), "noteTask", requestFlags{}, "id", c.ID, "text", c.Text)
}

type searchCmd struct {
	eitherEnd
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

type thawCmd struct{ connection }

func (c *thawCmd) Run(ctx context.Context, std streams) error {
	return c.print(ctx, std, serviceEnd, "thaw", requestFlags{})
}

type alarmsCmd struct {
	List alarmsListCmd `cmd:"" help:"List alarms, the newest first."`
	Test alarmsTestCmd `cmd:"" help:"Post a message that is a test to --alarm-url, and show how that ended."`
}

type alarmsListCmd struct {
	eitherEnd
	listFlags
	Open bool   `help:"Only those that nobody has acknowledged and that have not ended." env:"-"`
	Kind string `help:"Only of this kind." placeholder:"KIND" env:"-"`
}

func (c *alarmsListCmd) Run(ctx context.Context, std streams) error {
	if c.Open {
		c.State = string(client.AlarmOpen)
	}
	return c.list(ctx, std, c.end(), "alarms", "SEQ|LAST|MERCHANT|KIND|TIMES=number|ABOUT=subject|ACKNOWLEDGED=acked|BY=ackedName|ENDED|WHAT HELPS=text", c.listFlags, "kind", c.Kind)
}

type alarmsTestCmd struct{ eitherEnd }

func (c *alarmsTestCmd) Run(ctx context.Context, std streams) error {
	return c.print(ctx, std, c.end(), "testAlarm", requestFlags{})
}

type providerCmd struct {
	connection
	What string `arg:"" enum:"show,note" help:"show: the settings that fit the provider, for gateway --config, and what would be refused with them. note: what to send to the provider, which no setting mends."`
}

func (c *providerCmd) Run(ctx context.Context, std streams) error {
	_, answer, err := c.call(ctx, std, gatewayEnd, "learned", requestFlags{})
	if err != nil {
		return err
	}
	var learned client.Learned
	if err := json.Unmarshal(answer, &learned); err != nil {
		return err
	}
	text := learned.Settings
	if c.What == "note" {
		text = learned.Note
	}
	_, err = fmt.Fprintln(std.out, text)
	return err
}

type tokenCmd struct {
	New tokenNewCmd `cmd:"" help:"Make a token. Its secret is shown once, or written to a file."`
}

type tokenNewCmd struct {
	eitherEnd
	Name string `arg:"" help:"Name of the token's owner, for people."`
	requestFlags
	Role     string   `required:"" enum:"${roles}" help:"What it may do; docs/control.md says which end has which role." placeholder:"ROLE" env:"-"`
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
