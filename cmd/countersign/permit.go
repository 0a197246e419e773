package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"countersign"
	"countersign/client"
)

type permitCmd struct {
	Verify permitVerifyCmd `cmd:"" help:"Check a permit against what is to be executed, with the service's verifier key, the merchant's key and nothing else; the exit status is 0 if it allows that."`
}

type permitVerifyCmd struct {
	Note string `arg:"" help:"File with the note, member note of the permit; - for standard input."`
	Key  string `required:"" help:"The service's verifier key as audit key prints it, or @FILE with it. It must come from elsewhere than the note." placeholder:"KEY"`

	Claim   string `required:"" help:"Claim of the execution." placeholder:"CLAIM"`
	Address string `required:"" help:"Address to pay to." placeholder:"ADDRESS"`
	Amount  string `required:"" help:"Amount to execute." placeholder:"AMOUNT"`
	Chain   string `required:"" help:"Chain of the address." placeholder:"CHAIN"`
	Symbol  string `required:"" help:"Currency to execute." placeholder:"SYMBOL"`
	Epoch   int64  `required:"" help:"Highest epoch of the permits seen so far. A permit of a lower epoch is refused. 0: none seen." placeholder:"NUMBER"`

	Merchant    string   `help:"The permit must be for this merchant. Default: any." placeholder:"ID"`
	CallBackID  string   `name:"call-back-id" help:"The permit must be for this withdrawal. Default: any." placeholder:"ID"`
	MerchantKey []string `help:"The public part with which --merchant signs its answers, as it has shown it, or @FILE with it: then its signed answer must confirm what the permit says. Twice while it replaces its key." placeholder:"KEY"`
	Answer      string   `help:"File with the merchant's signed answer, member answer of the permit." type:"path" placeholder:"FILE"`
	Duplicate   bool     `help:"Accept a permit that was given before, because you know that its execution did not move the funds."`
}

// mostPermit bounds a note and an answer, in bytes.
const mostPermit = 1 << 20

func (c *permitVerifyCmd) Run(std streams) error {
	key, err := textOrFile("key", c.Key)
	if err != nil {
		return err
	}
	x, err := c.execution()
	if err != nil {
		return err
	}
	text, err := readInput(std, c.Note, mostPermit, "note")
	if err != nil {
		return err
	}
	n, err := client.VerifyPermit(string(text), key, x)
	hint := func(text string) error { return &hintedError{err, []string{text}} }
	switch {
	case errors.Is(err, client.ErrPermitForged):
		return hint("give the key of the service's log: audit key prints it. The note must be as the release gave it.")
	case errors.Is(err, client.ErrPermitDuplicate):
		return hint("if it has not, give --duplicate.")
	case errors.Is(err, client.ErrAnswerMissing):
		return hint("give --answer with the member answer of the permit. A merchant that does not sign its answers has none: without --merchant-key you believe the service's database.")
	case err != nil:
		return err
	}
	if x.MerchantKeys != nil {
		fmt.Fprintln(std.out, "good: this execution is allowed, and the merchant has signed that it confirms it")
	} else {
		fmt.Fprintln(std.out, "good: this execution is allowed; that the merchant confirmed it, the service alone says (--merchant-key)")
	}
	for line := range strings.Lines(n.Text()) {
		fmt.Fprint(std.out, "      "+line)
	}
	return nil
}

// execution returns what the flags expect.
func (c *permitVerifyCmd) execution() (x client.Execution, err error) {
	for _, f := range []struct{ flag, value string }{{"claim", c.Claim}, {"address", c.Address}, {"chain", c.Chain},
		{"symbol", c.Symbol}} {
		if f.value == "" {
			return x, fmt.Errorf("--%s is empty: say what is to be executed", f.flag)
		}
	}
	x = client.Execution{Claim: c.Claim, Merchant: c.Merchant, CallBackID: c.CallBackID, Epoch: c.Epoch,
		Duplicate: c.Duplicate, Details: client.Details{Address: c.Address, ChainName: c.Chain, Symbol: c.Symbol}}
	if x.Details.Amount, err = countersign.ParseAmount(c.Amount); err != nil {
		return x, fmt.Errorf("--amount: %w", err)
	}
	for _, value := range c.MerchantKey {
		k, err := readSigner("merchant-key", value, false)
		if err != nil {
			return x, err
		}
		x.MerchantKeys = append(x.MerchantKeys, k)
	}
	switch {
	case x.MerchantKeys == nil && c.Answer != "":
		return x, errors.New("--answer is checked with the merchant's key: give --merchant-key and --merchant")
	case x.MerchantKeys != nil && c.Merchant == "":
		return x, errors.New("--merchant is missing: it says whose key --merchant-key is")
	case c.Answer == "":
		return x, nil
	}
	text, err := os.ReadFile(c.Answer)
	if err == nil {
		err = json.Unmarshal(text, &x.Answer)
	}
	if err != nil {
		return x, fmt.Errorf("--answer: %w", err)
	}
	return x, nil
}
