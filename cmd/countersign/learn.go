package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign/internal/daemon"
	"countersign/internal/learn"
)

// learnDrain bounds how long requests under way may take when learning ends.
const learnDrain = 5 * time.Second

// learn answers what comes to the public listener with errCode 5000, books nothing,
// says what the provider does, and in the end writes the settings that fit it.
func (c *gatewayCmd) learn(std streams) error {
	callbacks, err := c.callbacks(std)
	if err != nil {
		return err
	}
	switch b, err := os.ReadFile(c.LearnFile); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("--learn-file: %w", err)
	case !bytes.HasPrefix(b, []byte(learn.FileMark)):
		return fmt.Errorf("--learn-file: %s is there and is not of --learn; name another file", c.LearnFile)
	}
	h := &learn.Handler{Out: std.out, APIKey: callbacks.APIKey, Reader: learn.Reader{
		Key: callbacks.Key, Padding: callbacks.Padding, Field: callbacks.Profile.BodyField, APIKeys: callbacks.CallbackAPIKeys,
	}}
	log := c.logger(std.err)
	ctx, stop := untilSignal(log)
	defer stop()
	l, err := daemon.Listen(daemon.ListenConfig{Name: "callbacks", Addr: c.Listen, Handler: h, TLS: c.tls().WithoutClients(), Exposes: "what the provider posts", Most: 1000, Drain: learnDrain, Log: log})
	if err != nil {
		return err
	}
	log.Info("learning", "callbacks", l.URL(), "file", c.LearnFile)
	if err := l.Run(ctx); err != nil {
		return err
	}
	settings, note := c.own()
	file, provider := h.File(settings, note)
	if provider.Opened == 0 {
		return errors.New("no callback was opened, so no settings file was written")
	}
	if err := os.WriteFile(c.LearnFile, []byte(file), 0o600); err != nil {
		return fmt.Errorf("--learn-file: %w", err)
	}
	fmt.Fprintf(std.out, "\n%s\nwritten to %s; start with: countersign gateway --config %s\n", file, c.LearnFile, c.LearnFile)
	return nil
}

// own are the settings that the gateway was started with and needs again. Secrets
// are not among them, but the files that hold them are.
func (c *gatewayCmd) own() (list []learn.Setting, note string) {
	add := func(name, value, usual string) {
		if value != usual {
			list = append(list, learn.Setting{Name: name, Value: value})
		}
	}
	file := func(name string, value string) {
		path, isSecret := strings.CutPrefix(value, "@")
		if abs, err := filepath.Abs(path); err == nil && value != "" {
			if isSecret {
				abs = "@" + abs
			}
			add(name, abs, "")
		}
	}
	add("listen", c.Listen, "127.0.0.1:8090")
	add("api-listen", c.APIListen, "127.0.0.1:8091")
	file("tls-cert", c.TLSCert)
	file("tls-key", c.TLSKey)
	file("client-ca", c.ClientCA)
	if c.InsecureListen {
		add("insecure-listen", "true", "")
	}
	add("metrics-listen", c.MetricsListen, "")
	file("service-key", c.ServiceKey)
	file("response-key", c.ResponseKey)
	file("policy", c.Policy)
	add("forward-url", c.ForwardURL, "")
	add("forward-from", c.ForwardFrom, "")
	if c.OAEP {
		list = append(list, learn.Setting{Name: "oaep", Value: true})
	}
	var literal []string
	secret := func(name string, s secretText) {
		if strings.HasPrefix(string(s), "@") {
			file(name, string(s))
		} else {
			literal = append(literal, name)
		}
	}
	secret("api-key", c.APIKey)
	if len(c.CallbackAPIKey) == 1 {
		secret("callback-api-key", c.CallbackAPIKey[0])
	} else if len(c.CallbackAPIKey) > 1 {
		literal = append(literal, "callback-api-key")
	}
	if literal != nil {
		note = "not in this file, because secrets belong into files of their own: " + strings.Join(literal, ", ")
	}
	return list, note
}
