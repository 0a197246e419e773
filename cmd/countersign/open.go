package main

import (
	"errors"
	"fmt"

	"countersign"
	"countersign/envelope"
)

type openCmd struct {
	keyFlags
	Explain bool `help:"Show the body block by block, what is wrong with it and what to try, in place of the plaintext."`
}

// Help is the long help of the subcommand.
func (openCmd) Help() string {
	return "Reads the body on standard input, bare or in a form field, a JSON string or a JSON object. " +
		"A public key opens what the service sealed, a private key what a merchant sealed. " +
		"Writes the plaintext bytes and nothing else, or with --explain what they are."
}

var errNotOpened = errors.New("the body does not open")

func (c *openCmd) Run(std streams) error {
	key, padding, err := c.read(std)
	if err != nil {
		return err
	}
	body, err := readAll(std.in, envelope.MaxBody, "body")
	if err != nil {
		return err
	}
	if c.Explain {
		e := envelope.Explain(key, padding, body)
		fmt.Fprint(std.out, e)
		if e.Err != nil {
			return errNotOpened
		}
		explainMessage(std, e.Plaintext)
		return nil
	}
	inner, _, err := envelope.Unwrap(body)
	var plain []byte
	if err == nil {
		plain, err = envelope.Open(key, padding, inner)
	}
	if err != nil {
		return &hintedError{fmt.Errorf("opening: %w", err), envelope.Diagnose(key, padding, body, err)}
	}
	_, err = std.out.Write(plain)
	return err
}

// explainMessage says what the protocol makes of an opened plaintext.
func explainMessage(std streams, plain []byte) {
	c, err := countersign.ParseCallback(plain, countersign.ParseOptions{})
	if err == nil {
		fmt.Fprintf(std.out, "message    callback type %d, %v\n", int(c.CallbackType()), c.CallbackType())
		fmt.Fprintf(std.out, "binding    %s\n", countersign.CheckBinding(plain))
		for _, m := range c.Unknown() {
			fmt.Fprintf(std.out, "unknown    %q\n", m.Name)
		}
		return
	}
	for _, answer := range []struct {
		name  string
		parse func([]byte) error
	}{
		{"answer to a withdrawal confirmation", parses(countersign.ParseWithdrawalAnswer)},
		{"answer to a deposit", parses(countersign.ParseDepositAnswer)},
		{"answer to a notice", parses(countersign.ParseNoticeAnswer)},
	} {
		if answer.parse(plain) == nil {
			fmt.Fprintf(std.out, "message    %s\n", answer.name)
			return
		}
	}
	fmt.Fprintf(std.out, "message    no valid request: %v\n", err)
}

func parses[A any](parse func([]byte) (A, error)) func([]byte) error {
	return func(b []byte) error {
		_, err := parse(b)
		return err
	}
}
