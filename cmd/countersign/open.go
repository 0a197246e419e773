package main

import (
	"errors"
	"fmt"

	"countersign/envelope"
	"countersign/internal/gateway"
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
		found := gateway.CallbackReader{Key: key, Padding: padding}.Read(body)
		fmt.Fprint(std.out, found)
		if found.Err != nil {
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
		return &hintedError{fmt.Errorf("opening: %w", err), envelope.Explain(key, padding, body).Hints}
	}
	_, err = std.out.Write(plain)
	return err
}
