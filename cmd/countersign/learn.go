package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign/internal/daemon"
	"countersign/internal/learn"
	"countersign/merchant"
)

// learnDrain bounds how long requests under way may take when learning ends.
const learnDrain = 5 * time.Second

// learn answers what comes to the public listener with errCode 5000, books nothing,
// says what the provider does, and in the end writes the settings that fit it.
func (c *gatewayCmd) learn(std streams) (err error) {
	callbacks, err := c.callbacks(std)
	if err != nil {
		return err
	}
	noteFile := strings.TrimSuffix(c.LearnFile, filepath.Ext(c.LearnFile)) + "-note.txt"
	if err := errors.Join(notLearned(c.LearnFile, learn.FileMark), notLearned(noteFile, learn.NoteMark)); err != nil {
		return err
	}
	h := &learn.Handler{Out: std.out, APIKey: callbacks.APIKey, Reader: learn.Reader{
		Key: callbacks.Key, Padding: callbacks.Padding, Field: callbacks.Profile.BodyField, APIKeys: callbacks.CallbackAPIKeys,
	}}
	log := c.logger(std.err)
	ctx, stop := untilSignal(log)
	defer stop()
	storage, err := c.storage(c.Data, log)
	if err != nil {
		return err
	}
	book, done, err := storage.OpenBook(ctx, log)
	if err != nil {
		return explainStart(err)
	}
	defer func() { err = errors.Join(err, done()) }()
	h.Remember = func(ctx context.Context, b *merchant.Blocks) error {
		return book.Remember(ctx, merchant.Entry{Blocks: b, At: time.Now()})
	}
	l, err := daemon.Listen(daemon.ListenConfig{Name: "callbacks", Addr: c.Listen, Handler: h, AnyHost: true, TLS: c.tls().WithoutClients(), Exposes: "what the provider posts", Most: 1000, Drain: learnDrain, Log: log})
	if err != nil {
		return err
	}
	log.Info("learning", "callbacks", l.URL(), "file", c.LearnFile)
	if err := l.Run(ctx); err != nil {
		return err
	}
	settings, note := c.own()
	learned := h.Learned(settings, note)
	fmt.Fprintf(std.out, "\n%s", learned.Summary)
	if err := errors.Join(setAside(std, c.LearnFile, learned.Opened > 0), setAside(std, noteFile, true)); err != nil {
		return fmt.Errorf("--learn-file: %w", err)
	}
	if learned.Opened > 0 {
		if err := os.WriteFile(c.LearnFile, []byte(learned.File), 0o600); err != nil {
			return fmt.Errorf("--learn-file: %w", err)
		}
	}
	if learned.Note != "" {
		if err := os.WriteFile(noteFile, []byte(learned.Note), 0o600); err != nil {
			return fmt.Errorf("--learn-file: the note to the provider: %w", err)
		}
		fmt.Fprintf(std.out, "\nsend this to the provider, no setting mends it; written to %s:\n\n%s", noteFile, learned.Note)
	}
	if learned.Opened == 0 {
		return errors.New("no callback was opened, so no settings file was written")
	}
	fmt.Fprintf(std.out, "\n%s\nwritten to %s; start with: countersign gateway --config %s\n", learned.File, c.LearnFile, c.LearnFile)
	return nil
}

// notLearned refuses a file that is there and does not begin as one of --learn does.
func notLearned(path, mark string) error {
	switch b, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("--learn-file: %w", err)
	case !bytes.HasPrefix(b, []byte(mark)):
		return fmt.Errorf("--learn-file: %s is there and is not of --learn; name another file", path)
	}
	return nil
}

// setAside keeps a file of an earlier run, which a person may have edited, under another name.
func setAside(std streams, path string, replaced bool) error {
	if _, err := os.Lstat(path); !replaced || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for n := 1; ; n++ {
		as := fmt.Sprintf("%s.%d", path, n)
		if _, err := os.Lstat(as); !errors.Is(err, fs.ErrNotExist) {
			if err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(std.out, "\n%s of an earlier run is now %s\n", path, as)
		return os.Rename(path, as)
	}
}

// own gives the settings that this gateway has and that the learned file needs too.
func (c *gatewayCmd) own() ([]learn.Setting, string) {
	var k learn.Kept
	k.File("data", c.Data) // whole: from another directory, a relative one is another database
	if c.DB != "" {
		k.LeaveOut("db")
	}
	k.Add("listen", c.Listen, "127.0.0.1:8090")
	k.Add("api-listen", c.APIListen, "127.0.0.1:8091")
	k.File("tls-cert", c.TLSCert)
	k.File("tls-key", c.TLSKey)
	k.File("client-ca", c.ClientCA)
	if c.InsecureListen {
		k.Add("insecure-listen", "true", "")
	}
	k.Add("metrics-listen", c.MetricsListen, "")
	keepOne := func(name string, files []string) {
		switch len(files) {
		case 0:
		case 1:
			k.File(name, files[0])
		default: // while keys change
			k.LeaveOut(name)
		}
	}
	keepOne("service-key", c.ServiceKey)
	keepOne("response-key", c.ResponseKey)
	k.File("policy", c.Policy)
	if strings.HasPrefix(c.ForwardURL, "http") {
		k.Add("forward-url", c.ForwardURL, "")
	} else if c.ForwardURL != "" { // it may have a password
		k.Secret("forward-url", c.ForwardURL)
	}
	k.Add("forward-from", c.ForwardFrom, "")
	k.Add("verify-url", c.VerifyURL, "")
	if strings.HasPrefix(c.AlarmURL, "@") {
		k.File("alarm-url", c.AlarmURL)
	} else {
		k.Add("alarm-url", c.AlarmURL, "")
	}
	if c.OAEP {
		k.Settings = append(k.Settings, learn.Setting{Name: "oaep", Value: true})
	}
	k.Secret("api-key", string(c.APIKey))
	switch keys := c.CallbackAPIKey; len(keys) {
	case 0:
	case 1:
		k.Secret("callback-api-key", string(keys[0]))
	default:
		k.LeaveOut("callback-api-key")
	}
	return k.Settings, k.Note()
}
