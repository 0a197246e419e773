package main

import (
	"errors"
	"fmt"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/internal/learn"
	"countersign/merchant"
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
		f := learn.Reader{Key: key, Padding: padding, Field: merchant.DefaultBodyField}.Read(body)
		switch {
		case e.Err == nil:
			explainMessage(std, key, f, e.Plaintext)
		case f.Opened:
			fmt.Fprintf(std.out, "\nwith other settings:\n%v%s", f, settingsFor(f))
		default:
			return errNotOpened
		}
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

// settingsFor says which settings of the gateway fit what f shows.
func settingsFor(f learn.Finding) string {
	var p learn.Provider
	p.Add(f, "", "", time.Time{})
	return fmt.Sprintf("fits       %s\n", learn.Flags(p.Settings()))
}

// explainMessage says what the protocol makes of an opened plaintext. What the
// private part opened may be an answer, and most answers pass for a lenient request.
func explainMessage(std streams, key *envelope.Key, f learn.Finding, plain []byte) {
	if f.Strict || f.Lenient && !key.HasPrivate() {
		fmt.Fprint(std.out, f.Message(), settingsFor(f))
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
	fmt.Fprint(std.out, f.Message())
}

func parses[A any](parse func([]byte) (A, error)) func([]byte) error {
	return func(b []byte) error {
		_, err := parse(b)
		return err
	}
}
