package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"countersign/client"
	"countersign/internal/daemon"
)

func makeHandover(dir string) error { return prepared(daemon.PrepareHandover(dir)) }

// prepared adds to an error of daemon.PrepareFiles what helps.
func prepared(err error) error {
	if u := (*daemon.HandoverError)(nil); errors.As(err, &u) {
		return otherDirectory(err)
	}
	return err
}

// notShownAgain is what helps where a file could not be written.
const notShownAgain = "keep what was printed: the service does not show it again."

// handOver writes what a new merchant needs to dir and says what each file is for. What
// cannot be written is printed: the service does not show it again.
// request may have the keys that the service did not make.
func handOver(std streams, dir string, request map[string]any, answer json.RawMessage) error {
	var made client.CreatedMerchant
	if err := json.Unmarshal(answer, &made); err != nil {
		return err
	}
	for name, key := range map[string]*client.Secret{"apiKey": &made.APIKey, "callbackApiKey": &made.CallbackAPIKey} {
		if given, _ := request[name].(string); *key == "" {
			*key = client.Secret(given)
		}
	}
	about, err := daemon.WriteHandover(dir, made)
	if err != nil {
		if err := printJSON(std.out, made, "  "); err != nil {
			return fmt.Errorf("merchant %s was made, and its keys are lost: make others with countersign merchants rotate stage: %w", made.ID, err)
		}
		return &hintedError{fmt.Errorf("merchant %s was made, and its keys could not be written: %w", made.ID, err), []string{notShownAgain}}
	}
	warn(std, made.Warnings)
	fmt.Fprintf(std.out, "merchant %s was made; in %s:\n%s%-16s  %s\n", made.ID, dir, about, "fingerprint", made.Fingerprint)
	return nil
}

func warn(std streams, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(std.err, "countersign: warning: %s\n", w)
	}
}

// handOverStaged writes the keys that were staged to dir, a file each, and lists the files.
func handOverStaged(std streams, dir string, answer json.RawMessage) error {
	var staged client.StagedKeys
	if err := json.Unmarshal(answer, &staged); err != nil {
		return err
	}
	var files []daemon.NewFile
	for _, f := range []struct{ name, content string }{
		{"service.b64", staged.PublicKey}, {"response.b64", staged.ResponsePublicKey},
		{"api.key", staged.APIKey.Reveal()}, {"callback-api.key", staged.CallbackAPIKey.Reveal()},
	} {
		if f.content != "" {
			files = append(files, daemon.NewFile{Name: f.name, Data: []byte(f.content + "\n"), Mode: 0o600})
		}
	}
	if err := daemon.CreateFiles(dir, files); err != nil {
		return errors.Join(printJSON(std.out, staged, "  "), &hintedError{fmt.Errorf("the keys were staged, and could not be written: %w", err), []string{notShownAgain}})
	}
	for _, f := range files {
		fmt.Fprintln(std.out, filepath.Join(dir, f.Name))
	}
	warn(std, staged.Warnings)
	return nil
}
