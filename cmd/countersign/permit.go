package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"countersign"
	"countersign/client"
)

type permitCmd struct {
	Verify permitVerifyCmd `cmd:"" help:"Check a signed permit against what is to be executed, with the service's verifier key and nothing else; the exit status is 0 if it allows that."`
}

type permitVerifyCmd struct {
	Note string `arg:"" help:"File with the note, member note of the permit; - for standard input."`
	Key  string `required:"" help:"The service's verifier key as audit key prints it, or @FILE with it. It must come from elsewhere than the note." placeholder:"KEY"`

	Claim      string `required:"" help:"The execution that asks." placeholder:"CLAIM"`
	Address    string `required:"" help:"Where the funds are to go." placeholder:"ADDRESS"`
	Amount     string `required:"" help:"How much." placeholder:"AMOUNT"`
	Chain      string `help:"Of this chainName alone. Default: any." placeholder:"CHAIN"`
	Symbol     string `help:"Of this symbol alone. Default: any." placeholder:"SYMBOL"`
	Merchant   string `help:"Of this merchant alone. Default: any." placeholder:"ID"`
	CallBackID string `name:"call-back-id" help:"Of this withdrawal alone. Default: any." placeholder:"ID"`
	Duplicate  bool   `help:"Take a permit that was given before: you know that its execution did not move the funds."`
}

// mostNote bounds a note.
const mostNote = 64 << 10

func (c *permitVerifyCmd) Run(std streams) error {
	key, err := textOrFile("key", c.Key)
	if err != nil {
		return err
	}
	amount, err := countersign.ParseAmount(c.Amount)
	if err != nil {
		return fmt.Errorf("--amount: %w", err)
	}
	in := std.in
	if c.Note != "-" {
		f, err := os.Open(c.Note)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, mostNote))
	if err != nil {
		return err
	}
	n, err := client.VerifyPermit(string(text), key, client.Execution{Claim: c.Claim, Merchant: c.Merchant, CallBackID: c.CallBackID, Duplicate: c.Duplicate,
		Details: client.Details{Address: c.Address, ChainName: c.Chain, Symbol: c.Symbol, Amount: amount}})
	switch {
	case errors.Is(err, client.ErrPermitForged):
		return &hintedError{err, []string{"give the key of the service's log: audit key prints it. The note must be as the release gave it, byte for byte."}}
	case errors.Is(err, client.ErrPermitDuplicate):
		return &hintedError{err, []string{"if it has not, give --duplicate."}}
	case err != nil:
		return err
	}
	fmt.Fprintln(std.out, "good: this execution is allowed")
	for line := range strings.Lines(n.Text()) {
		fmt.Fprint(std.out, "      "+line)
	}
	return nil
}
