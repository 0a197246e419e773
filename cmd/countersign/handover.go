package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"countersign/client"
	"countersign/internal/daemon"
)

// What an API shows once is kept as files of a directory (--out), for their owner alone.

// prepare makes dir. It refuses one that has a file of these names, or that cannot be written to, before something is
// made that is shown once and could not be kept there. An empty dir is none.
func prepare(dir string, names ...string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
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

// keptFile is one file, and what it is for. One without content is not made.
type keptFile struct{ name, content, use string }

// keep writes the files of an answer to dir and lists them. made says what the answer is about. Without dir the answer
// is printed, and so is one whose files could not be written; lost says what to do then.
func keep(std streams, dir, made, lost string, answer json.RawMessage, files []keptFile) error {
	if dir == "" {
		return printJSON(std.out, answer, "  ")
	}
	var list []daemon.NewFile
	var about strings.Builder
	for _, f := range files {
		if f.content != "" {
			list = append(list, daemon.NewFile{Name: f.name, Data: []byte(f.content)})
			fmt.Fprintf(&about, "%-16s  %s\n", f.name, f.use)
		}
	}
	if err := daemon.CreateFiles(dir, list); err != nil {
		return errors.Join(printJSON(std.out, answer, "  "), &hintedError{fmt.Errorf("%s, and could not be written: %w", made, err), []string{lost}})
	}
	_, err := fmt.Fprintf(std.out, "%s; in %s:\n%s", made, dir, &about)
	return err
}

// The files of a merchant's keys.
const (
	serviceKeyFile  = "service.b64"
	responseKeyFile = "response.b64"
	callbackKeyFile = "callback-api.key"
)

func prepareHandover(dir string) error {
	return prepare(dir, serviceKeyFile, responseKeyFile, apiKeyFile, callbackKeyFile)
}

// handOver keeps the keys that were made for a merchant. request may have those that the service was given.
func handOver(std streams, dir, made string, request map[string]any, answer json.RawMessage) error {
	var keys struct {
		client.StagedKeys
		Fingerprint string `json:"fingerprint"`
	}
	if err := json.Unmarshal(answer, &keys); err != nil {
		return err
	}
	line := func(key, member string) string {
		given, _ := request[member].(string)
		if key = cmp.Or(key, given); key != "" {
			key += "\n"
		}
		return key
	}
	opens := "for the merchant alone: it opens requests"
	if keys.ResponsePublicKey == "" {
		opens += " and seals answers"
	}
	err := keep(std, dir, made, "keep what was printed: the service does not show it again.", answer, []keptFile{
		{serviceKeyFile, line(keys.PublicKey, ""), opens},
		{responseKeyFile, line(keys.ResponsePublicKey, ""), "for the merchant alone: it seals answers"},
		{apiKeyFile, line(keys.APIKey.Reveal(), "apiKey"), "for the merchant alone: what its responses carry"},
		{callbackKeyFile, line(keys.CallbackAPIKey.Reveal(), "callbackApiKey"), "for the merchant alone: what requests carry as X-API-KEY; it refuses others"},
	})
	if err != nil || dir == "" {
		return err
	}
	if keys.Fingerprint != "" {
		fmt.Fprintf(std.out, "%-16s  %s\n", "fingerprint", keys.Fingerprint)
	}
	for _, w := range keys.Warnings {
		fmt.Fprintf(std.err, "countersign: warning: %s\n", w)
	}
	return nil
}
