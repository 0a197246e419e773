package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"countersign"
	"countersign/conformance"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

type sendCmd struct {
	What string `arg:"" optional:"" help:"deposit, withdrawal (asks whether to execute it), executed, ended, address, or waiting." enum:"deposit,withdrawal,executed,ended,address,waiting" default:"deposit"`
	File string `arg:"" optional:"" help:"JSON object with the members of the callback; - for standard input. Without it a correct callback is made." placeholder:"FILE"`

	To   string        `help:"The endpoint. Without a path the callback goes to /callbacks/notify, and a withdrawal to /callbacks/withdraw." default:"http://127.0.0.1:8090" placeholder:"URL"`
	Wait time.Duration `help:"How long to wait until the endpoint takes connections." default:"0s"`
	Out  string        `help:"Directory of the secrets without --key: private.pem, public.b64 and api.key. Made if missing." default:"provider" placeholder:"DIR"`
	serviceFlags
	BodyForm  string          `help:"Form of the body: bare Base64, a form's field, a JSON string, or a JSON object. Empty: bare, or field with --body-field." enum:",bare,field,string,object" default:""`
	BodyField string          `help:"Form field or JSON member that carries the body." default:"data" placeholder:"NAME"`
	Profile   kong.ConfigFlag `help:"Settings file of a gateway, such as provider show prints: send as the provider that it is for." placeholder:"FILE"`

	For string `help:"What a withdrawal waits for: funds or fees." enum:"funds,fees" default:"funds"`
	memberFlags
	Set []string `sep:"none" help:"Any member: a JSON value, or a text; without a value the member is left out. May be repeated." placeholder:"NAME=VALUE"`

	Repeat int    `help:"Send it so many times, each time with a new requestUUID." default:"1" placeholder:"N"`
	Fault  string `help:"One fault of the network, of the service or of a thief: ${sendFaults}." enum:",${sendFaults}" default:"" placeholder:"NAME"`
	JSON   bool   `name:"json" help:"Write a line of JSON for each callback."`
}

// memberFlags set members that are often set. They are texts but for those whose flag has the tag num.
type memberFlags struct {
	TrackingID    string `group:"members" member:"trackingId" name:"tracking-id" placeholder:"ID" help:"trackingId: new in each callback unless given."`
	TenantUserID  string `group:"members" member:"tenantUserId" name:"tenant-user-id" placeholder:"ID" help:"tenantUserId."`
	CallBackID    string `group:"members" member:"callBackId" name:"callback-id" placeholder:"ID" help:"callBackId of a withdrawal."`
	TxID          string `group:"members" member:"txId" name:"tx-id" placeholder:"ID" help:"txId."`
	TxIndex       string `group:"members" member:"txIndex" name:"tx-index" placeholder:"N" num:"" help:"txIndex."`
	ChainName     string `group:"members" member:"chainName" placeholder:"NAME" help:"chainName."`
	Symbol        string `group:"members" member:"symbol" placeholder:"NAME" help:"symbol."`
	Amount        string `group:"members" member:"amount" placeholder:"DECIMAL" help:"amount, as a text."`
	FromAddress   string `group:"members" member:"fromAddress" placeholder:"ADDRESS" help:"fromAddress."`
	ToAddress     string `group:"members" member:"toAddress" placeholder:"ADDRESS" help:"toAddress."`
	NewAddress    string `group:"members" member:"newAddress" placeholder:"ADDRESS" help:"newAddress."`
	RiskLevelFrom string `group:"members" member:"riskLevelFrom" placeholder:"N" num:"" help:"riskLevelFrom."`
	RiskLevelTo   string `group:"members" member:"riskLevelTo" placeholder:"N" num:"" help:"riskLevelTo."`
	Business      string `group:"members" member:"business" placeholder:"N" num:"" help:"business."`
	RequestUUID   string `group:"members" member:"requestUUID" name:"request-uuid" placeholder:"UUID" help:"requestUUID: new in each attempt unless given."`
}

// Help is the long help of the subcommand.
func (sendCmd) Help() string {
	return "Plays the provider for one callback: seals it, posts it, opens what came back, and says how a service takes it and what to mend. " +
		"The exit status is 0 only if the callback was accepted, or the withdrawal confirmed. " +
		"Without --key it makes a pair and an API key, and says what to give to the merchant. " +
		"What must be refused and is refused is said to be right. splice, replay, old-uuid and other-signature first send another callback, from which they take something. " +
		"Those from unsigned on need --sign." + faultsHelp(countersigntest.ServiceFaults)
}

var sentTypes = map[string]countersign.Type{
	"deposit": countersign.TypeDeposited, "withdrawal": countersign.TypeRequestWithdraw, "executed": countersign.TypeWithdraw,
	"ended": countersign.TypeInvalidAddress, "address": countersign.TypeAddress, "waiting": countersign.TypeNotEnoughMoney,
}

// Validate is called by kong; what it refuses is a usage error.
func (c *sendCmd) Validate() error {
	u, err := url.Parse(c.To)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("--to is not an absolute http or https URL")
	case c.Repeat < 1 || c.Repeat > 1000:
		return errors.New("--repeat is 1 to 1000")
	}
	for _, s := range c.Set {
		if _, err := conformance.ParseMember(s); err != nil {
			return fmt.Errorf("--set: %w", err)
		}
	}
	return c.validate()
}

// members are those that flags set.
func (c *sendCmd) members() (list []countersign.Member) {
	v := reflect.ValueOf(c.memberFlags)
	for i := range v.NumField() {
		if value, tag := v.Field(i).String(), v.Type().Field(i).Tag; value != "" {
			_, number := tag.Lookup("num")
			list = append(list, conformance.NewMember(tag.Get("member"), value, number))
		}
	}
	for _, s := range c.Set {
		if m, err := conformance.ParseMember(s); err == nil { // which Validate has looked at
			list = append(list, m)
		}
	}
	return list
}

var (
	errNotSent     = errors.New("nothing was sent yet")
	errNotAccepted = errors.New("the callback was not accepted")
)

func (c *sendCmd) Run(std streams) error {
	caller, err := c.caller(std)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(std.warnings())
	defer stop()
	accepted := true
	say := func(sent conformance.Sent, err error) error {
		if err != nil {
			return explainRun(err)
		}
		accepted = accepted && sent.Accepted()
		if c.JSON {
			e := json.NewEncoder(std.out)
			e.SetEscapeHTML(false)
			return e.Encode(sent)
		}
		_, err = fmt.Fprint(std.out, sent)
		return err
	}
	if err := caller.Await(ctx, c.Wait); err != nil {
		return explainRun(err)
	}
	t := sentTypes[c.What]
	if c.What == "waiting" && c.For == "fees" {
		t = countersign.TypeNotEnoughHotMoney
	}
	given, err := c.given(std)
	if err != nil {
		return err
	}
	message, err := caller.Message(t, given, c.members())
	if err != nil {
		return err
	}
	for range c.Repeat {
		if err := say(caller.Send(ctx, t, message, countersigntest.ServiceFault(c.Fault))); err != nil {
			return err
		}
	}
	if !accepted {
		return errNotAccepted
	}
	return nil
}

// given reads the file of the message, nil without one.
func (c *sendCmd) given(std streams) ([]byte, error) {
	switch c.File {
	case "":
		return nil, nil
	case "-":
		return readAll(std.in, countersign.MaxMessage, "message")
	}
	return os.ReadFile(c.File)
}

// caller is the provider that the flags say.
func (c *sendCmd) caller(std streams) (*conformance.Caller, error) {
	if c.Key == "" {
		made, err := playedPair(c.Out, std)
		if err != nil {
			return nil, err
		}
		if made {
			fmt.Fprintln(std.err, "Give them to the merchant, and then press Enter.")
			if !pressEnter(std) {
				return nil, &hintedError{errNotSent, []string{"give both to the merchant, and run the same command again."}}
			}
		}
		c.Key = filepath.Join(c.Out, privateFile)
		if _, err := os.Stat(filepath.Join(c.Out, apiKeyFile)); err == nil && c.APIKey == "" {
			c.APIKey = secret("@" + filepath.Join(c.Out, apiKeyFile))
		}
	}
	config, err := c.asService(std)
	if err != nil {
		return nil, err
	}
	if !config.Key.HasPrivate() && config.ResponseKey == nil {
		return nil, publicKeyGiven()
	}
	config.NotifyURL, config.WithdrawURL = conformance.EndpointOf(c.To)
	config.User = "65515" // unless a flag or the file says otherwise
	form := envelope.BodyForm(max(0, slices.Index([]string{"bare", "field", "string", "object"}, c.BodyForm)))
	if c.BodyForm == "" && c.BodyField != merchant.DefaultBodyField {
		form = envelope.FormField
	}
	config.Form, config.Field = form, c.BodyField
	return conformance.NewCaller(config)
}
