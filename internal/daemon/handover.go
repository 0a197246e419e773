package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"countersign/client"
)

// The files, readable by their owner only.
const (
	serviceKeyFile  = "service.b64"
	responseKeyFile = "response.b64"
	apiKeyFile      = "api.key"
	callbackKeyFile = "callback-api.key"
	merchantFile    = "merchant.json"
)

// PrepareHandover is PrepareFiles for the files of WriteHandover.
func PrepareHandover(dir string) error {
	return PrepareFiles(dir, serviceKeyFile, responseKeyFile, apiKeyFile, callbackKeyFile, merchantFile)
}

// PrepareFiles makes the directory. It refuses one that holds any of the files, or that cannot be
// written to, before something is made that is shown once and could not be kept there. Its errors
// about the directory are *HandoverErrors.
func PrepareFiles(dir string, names ...string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch _, err := os.Lstat(path); {
		case err == nil:
			return &HandoverError{fmt.Errorf("%s exists and is not overwritten", path)}
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	probe, err := os.CreateTemp(dir, "")
	if err != nil {
		return &HandoverError{err}
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// HandoverError says why another directory is needed.
type HandoverError struct{ err error }

func (e *HandoverError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *HandoverError) Unwrap() error { return e.err }

// WriteHandover writes the files, all or none, and says what each is for, a line each.
func WriteHandover(dir string, made client.CreatedMerchant) (about string, err error) {
	var shown bytes.Buffer
	e := json.NewEncoder(&shown)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(made.Merchant); err != nil {
		return "", err
	}
	var files []NewFile
	add := func(name, content, use string) {
		if content != "" {
			files = append(files, NewFile{Name: name, Data: []byte(content), Mode: 0o600})
			about += fmt.Sprintf("%-16s  %s\n", name, use)
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
	add(callbackKeyFile, line(made.CallbackAPIKey.Reveal()), "for the merchant alone: what requests carry as X-API-KEY; it refuses others")
	add(merchantFile, shown.String(), "the merchant as the service has it, without secrets")
	return about, CreateFiles(dir, files)
}
