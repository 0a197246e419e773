package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"countersign"
	"countersign/conformance"
	"countersign/countersigntest"
)

type sendCmd struct {
	What  string   `arg:"" optional:"" help:"deposit, withdrawal (asks whether to execute it), executed, ended, address, or waiting." enum:"deposit,withdrawal,executed,ended,address,waiting" default:"deposit"`
	Words []string `arg:"" optional:"" name:"name=value" help:"Members of the callback, such as amount=1.5 or callBackId=order-1. NAME:=JSON writes any JSON, NAME= leaves the member out. A word without = is a file with members as a JSON object, - standard input. Members that are not given are made up."`

	To   string        `help:"The endpoint. Without a path the callback goes to /callbacks/notify, and a withdrawal to /callbacks/withdraw." default:"http://127.0.0.1:8090" placeholder:"URL"`
	Wait time.Duration `help:"How long to wait until the endpoint takes connections." default:"0s"`
	serviceFlags
	BodyField string `help:"Form field that carries the body, if it is not the whole body." default:"data" placeholder:"NAME"`

	For string `help:"What a withdrawal waits for: funds or fees." enum:"funds,fees" default:"funds"`

	Repeat int    `help:"How often to send it, each time with a new requestUUID." default:"1" placeholder:"N"`
	Fault  string `help:"Act with this fault of the network, the service or a thief: see the names above." enum:"${serviceFaults}" default:"" placeholder:"NAME"`
	JSON   bool   `name:"json" help:"Write a line of JSON for each callback."`
}

// Help is the long help of the subcommand.
func (sendCmd) Help() string {
	return "Plays the provider for one callback: seals it, posts it, opens what came back, and says how a service takes it and what to mend. " +
		"The exit status is 0 only if the callback was accepted, or the withdrawal confirmed. " +
		"What must be refused and is refused is said to be right. splice, replay, old-uuid and other-signature first send another callback, from which they take something. " +
		"Those from unsigned on need --sign." + faultsHelp(countersigntest.ServiceFaults)
}

var sentTypes = map[string]countersign.Type{
	"deposit": countersign.TypeDeposited, "withdrawal": countersign.TypeRequestWithdraw,
	"executed": countersign.TypeWithdraw,
	"ended":    countersign.TypeInvalidAddress, "address": countersign.TypeAddress, "waiting": countersign.TypeNotEnoughMoney,
}

// Validate is called by kong. Its errors are usage errors.
func (c *sendCmd) Validate() error {
	u, err := url.Parse(c.To)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("--to is not an absolute http or https URL")
	case c.Repeat < 1 || c.Repeat > 1000:
		return errors.New("--repeat must be 1 to 1000")
	}
	if _, _, err := c.members(); err != nil {
		return err
	}
	return c.validate()
}

// members returns the members that the words set, and the file of the others, if any.
func (c *sendCmd) members() (list []countersign.Member, file string, err error) {
	for _, word := range c.Words {
		if !strings.Contains(word, "=") && file == "" {
			file = word
			continue
		}
		m, err := conformance.ParseMember(word)
		if err != nil {
			return nil, "", err
		}
		list = append(list, m)
	}
	return list, file, nil
}

var errNotAccepted = errors.New("the callback was not accepted")

func (c *sendCmd) Run(std streams) error {
	caller, err := c.caller(std)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(std.warnings())
	defer stop()
	if err := caller.Await(ctx, c.Wait); err != nil {
		return explainRun(err)
	}
	t := sentTypes[c.What]
	if c.What == "waiting" && c.For == "fees" {
		t = countersign.TypeNotEnoughHotMoney
	}
	members, file, err := c.members()
	if err != nil {
		return err
	}
	var input []byte
	if file != "" {
		if input, err = readInput(std, file, countersign.MaxMessage, "message"); err != nil {
			return err
		}
	}
	message, err := caller.Message(t, input, members)
	if err != nil {
		return err
	}
	accepted := true
	for range c.Repeat {
		sent, err := caller.Send(ctx, t, message, countersigntest.ServiceFault(c.Fault))
		if err != nil {
			return explainRun(err)
		}
		accepted = accepted && sent.Accepted()
		if c.JSON {
			err = printJSON(std.out, sent, "")
		} else {
			_, err = fmt.Fprint(std.out, sent)
		}
		if err != nil {
			return err
		}
	}
	if !accepted {
		return errNotAccepted
	}
	return nil
}

// caller returns the provider that the flags define.
func (c *sendCmd) caller(std streams) (*conformance.Checker, error) {
	config, err := c.asService(std)
	if err != nil {
		return nil, err
	}
	config.NotifyURL, config.WithdrawURL = conformance.EndpointOf(c.To)
	config.User, config.Field = "65515", c.BodyField // the user unless a word or the file says otherwise
	return conformance.New(config)
}
