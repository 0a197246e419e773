package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"countersign/envelope"
	"countersign/internal/daemon"
)

type keysCmd struct {
	New  keysNewCmd  `cmd:"" help:"Make a pair: private.pem, public.pem and public.b64 in a directory."`
	Show keysShowCmd `cmd:"" help:"Say what a key is and what it can do, without printing it."`
}

type keysNewCmd struct {
	Bits int    `help:"Size of the modulus. 1024 is what old services use; choose it only for them." default:"2048"`
	Out  string `help:"Directory to write to; made if missing. Nothing in it is overwritten." default:"." type:"path" placeholder:"DIR"`

	APIKey bool `name:"api-key" env:"-" help:"Make api.key too, an API key that the merchant's answers carry."`
}

// Run writes all three files or none. The public part is secret too: its holder can read requests and seal answers
// (PROTOCOL.md, Keys).
func (c *keysNewCmd) Run(std streams) error {
	key, err := envelope.GenerateKey(c.Bits)
	if err != nil {
		return err
	}
	private, err := key.PrivatePEM()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	files := []daemon.NewFile{
		{Name: privateFile, Data: private},
		{Name: "public.pem", Data: key.PublicPEM()},
		{Name: publicFile, Data: []byte(key.PublicBase64() + "\n")},
	}
	if c.APIKey {
		files = append(files, daemon.NewFile{Name: apiKeyFile, Data: []byte(rand.Text() + "\n")})
	}
	err = daemon.CreateFiles(c.Out, files)
	if errors.Is(err, fs.ErrExist) {
		return otherDirectory(err)
	}
	if err != nil {
		return err
	}
	if c.Bits < 2048 {
		fmt.Fprintf(std.err, "countersign: warning: %d bits can be factored by a determined opponent; use them only for a service that takes no more\n", c.Bits)
	}
	fmt.Fprintf(std.out, "private.pem  for the service alone: it seals requests and opens answers\n"+
		"public.pem   for the merchant alone: it opens requests and seals answers\n"+
		"public.b64   the same as public.pem, for software that takes bare Base64\n"+
		"fingerprint  %s\n", key.Fingerprint())
	if c.APIKey {
		fmt.Fprintln(std.out, "api.key      for both: the merchant's answers carry it")
	}
	return nil
}

func otherDirectory(err error) error {
	return &hintedError{err, []string{"give another directory with --out."}}
}

type keysShowCmd struct {
	Key    string `arg:"" help:"File with the key (PEM or bare Base64); - for standard input." placeholder:"FILE"`
	Public bool   `help:"Write the public part as bare Base64 and nothing else."`
}

func (c *keysShowCmd) Run(std streams) error {
	key, err := readKey(c.Key, std)
	if err != nil {
		return err
	}
	if c.Public {
		fmt.Fprintln(std.out, key.PublicBase64())
		return nil
	}
	parts, seals, opens := "public part only", "answers (block type 2)", "requests (block type 1)"
	if key.HasPrivate() {
		parts, seals, opens = "private and public part", opens, seals
	}
	fmt.Fprintf(std.out, "size         %d bits\nparts        %s\nfingerprint  %s\nseals        %s, %d bytes of plaintext a block of %d\nopens        %s\n",
		key.Bits(), parts, key.Fingerprint(), seals, key.MaxChunk(envelope.PKCS1v15), key.Size(), opens)
	if key.Bits() < 2048 {
		fmt.Fprintf(std.err, "countersign: warning: %d bits can be factored by a determined opponent\n", key.Bits())
	}
	return nil
}
