package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"countersign/client"
)

// The files that a merchant needs, in one directory, readable by their owner only.
const (
	serviceKeyFile  = "service.b64"
	responseKeyFile = "response.b64"
	apiKeyFile      = "api.key"
	merchantFile    = "merchant.json"
)

// makeHandover makes the directory. It refuses one that holds any of the files
// or that cannot be written to, before a merchant is made whose keys could not
// be kept there.
func makeHandover(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{serviceKeyFile, responseKeyFile, apiKeyFile, merchantFile} {
		path := filepath.Join(dir, name)
		switch _, err := os.Lstat(path); {
		case err == nil:
			return otherDirectory(fmt.Errorf("%s exists and is not overwritten", path))
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	probe, err := os.CreateTemp(dir, "")
	if err != nil {
		return otherDirectory(err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// handOver writes what a new merchant needs to dir and says what each file is
// for. What cannot be written is printed: the service does not show it again.
func handOver(std streams, dir string, made client.CreatedMerchant) error {
	var shown bytes.Buffer
	if err := printJSON(&shown, made.Merchant, "  "); err != nil {
		return err
	}
	var files []newFile
	about := ""
	add := func(name, content, use string) {
		if content != "" {
			files = append(files, newFile{name, []byte(content), 0o600})
			about += fmt.Sprintf("%-13s  %s\n", name, use)
		}
	}
	line := func(text string) string {
		if text == "" {
			return ""
		}
		return text + "\n"
	}
	sealsToo := " and seals answers"
	if made.ResponsePublicKey != "" {
		sealsToo = ""
	}
	add(serviceKeyFile, line(made.PublicKey), "for the merchant alone: it opens requests"+sealsToo)
	add(responseKeyFile, line(made.ResponsePublicKey), "for the merchant alone: it seals answers")
	add(apiKeyFile, line(made.APIKey.Reveal()), "for the merchant alone: what its responses carry")
	add(merchantFile, shown.String(), "the merchant as the service has it, without secrets")
	if err := writeNew(dir, files); err != nil {
		if err := printJSON(std.out, made, "  "); err != nil {
			return fmt.Errorf("merchant %s was made, and its keys are lost: make others with countersign merchants keys: %w", made.ID, err)
		}
		return &hintedError{fmt.Errorf("merchant %s was made, and its keys could not be written: %w", made.ID, err),
			[]string{"keep what was printed: the service does not show it again."}}
	}
	for _, w := range made.Warnings {
		fmt.Fprintf(std.err, "countersign: warning: %s\n", w)
	}
	fmt.Fprintf(std.out, "merchant %s was made; in %s:\n%s%-13s  %s\n", made.ID, dir, about, "fingerprint", made.Fingerprint)
	return nil
}
