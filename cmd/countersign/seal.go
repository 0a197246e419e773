package main

import (
	"crypto/rand"
	"errors"
	"fmt"

	"countersign"
	"countersign/envelope"
	"countersign/internal/gateway"
)

// keyFlags are the flags that seal and open share.
type keyFlags struct {
	Key  string `required:"" help:"File with the key (PEM or bare Base64). Its parts decide the direction." placeholder:"FILE"`
	OAEP bool   `name:"oaep" help:"OAEP with SHA-256 in place of PKCS#1 v1.5: the public part seals, the private part opens."`
}

func (f keyFlags) read(std streams) (*envelope.Key, envelope.Padding, error) {
	key, err := readKey(f.Key, std)
	return key, paddingOf(f.OAEP), err
}

type sealCmd struct {
	keyFlags
	Bind bool `help:"Give the message a new requestUUID that is bound to the rest of it. Its old one must have 36 characters."`
}

// Help is the long help of the subcommand.
func (sealCmd) Help() string {
	return "Reads the plaintext on standard input. A private key seals as the service does, a public key as a merchant does. " +
		"Writes the Base64 body and nothing else."
}

func (c *sealCmd) Run(std streams) error {
	key, padding, err := c.read(std)
	if err != nil {
		return err
	}
	plain, err := readAll(std.in, envelope.MaxBody, "plaintext")
	if err != nil {
		return err
	}
	if c.Bind {
		var random [6]byte
		_, _ = rand.Read(random[:]) // never fails
		if plain, _, err = countersign.Bind(plain, random); err != nil {
			return err
		}
	}
	body, err := envelope.Seal(key, padding, plain)
	if err != nil {
		return fmt.Errorf("sealing: %w", err)
	}
	_, err = std.out.Write(body)
	return err
}

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
