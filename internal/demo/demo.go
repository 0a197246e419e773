// Package demo runs a service and a gateway on this machine, sends real deposits and withdrawals through them, and
// checks both databases.
package demo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/policy"
	"countersign/merchant"
)

// Config is what New needs.
type Config struct {
	// Dir gets the data of both ends, each in its own directory, and their log. It must be new or empty. Empty: a
	// temporary directory, which is removed at the end.
	Dir string
	// Bits is the size of the RSA pair. Zero: 2048.
	Bits int
	// Stay keeps both ends running after the checks, until Run's context ends.
	Stay bool
	// Out gets the table of what happened and what was checked. Nil: nothing is written.
	Out io.Writer
	// Progress gets the progress of the run in one line, and an empty line when a stage is done. Nil: it is not called.
	Progress func(line string)
}

// ErrNotEmpty means that Config.Dir is not empty.
var ErrNotEmpty = errors.New("is not empty")

// merchantID names the merchant at the service.
const merchantID = "demo"

// Demo is one run. Use New to make one.
type Demo struct {
	c        Config
	key      *envelope.Key
	apiKey   countersign.APIKey
	service  *daemon.Service
	api      *client.Service // of the service
	shop     *client.Gateway // of the gateway, whose person approves
	links    [2]string       // to the consoles of the service and of the merchant; each signs in once
	gateway  *daemon.Gateway
	dir      string              // of the data
	deposits []client.NewDeposit // what was sent
	checks   []check
	asked    []result
	played   bool // every check passed

	try      *daemon.Listener // the page; nil without Config.Stay
	handover string           // directory of what it hands over
	tap      tap
}

// New starts nothing.
func New(c Config) *Demo {
	c.Bits = cmp.Or(c.Bits, 2048)
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return &Demo{c: c}
}

// Run plays the demo and then stops both ends. It returns an error if a check fails.
func (d *Demo) Run(ctx context.Context) (err error) {
	dir := d.c.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "countersign-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s %w", dir, ErrNotEmpty)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	d.dir = dir
	// The log of both ends goes to a file, so that Out has only the demo's own lines.
	logFile, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logFile.Close()) }()
	if err := d.build(dir, slog.New(slog.NewTextHandler(logFile, nil))); err != nil {
		return err
	}
	if err := d.open(ctx); err != nil {
		if d.try != nil {
			err = errors.Join(err, d.try.Close())
		}
		return err
	}
	parts := []daemon.Part{{Name: "service", Run: d.service.Run}, {Name: "gateway", Run: d.gateway.Run},
		{Name: "demo", Run: d.play}}
	if d.try != nil {
		parts = append(parts, daemon.Part{Name: "try", Run: d.try.Run})
	}
	err = daemon.RunParts(ctx, parts...)
	if err == nil && !d.played {
		return errors.New("interrupted: not everything was checked")
	}
	return err
}

// build makes both ends and opens nothing.
func (d *Demo) build(dir string, log *slog.Logger) (err error) {
	d.service, err = daemon.NewService(daemon.ServiceConfig{
		Common: daemon.Common{Storage: daemon.Storage{Dir: filepath.Join(dir, "service")},
			Log: log.With("end", "service")},
		Listen:       "127.0.0.1:0",
		AllowPrivate: true, AllowHTTP: true, ExchangeTimeout: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	// The service makes the pair and keeps the private part. The merchant gets the public part and its API key.
	if d.key, err = envelope.GenerateKey(d.c.Bits); err != nil {
		return err
	}
	d.apiKey = countersign.APIKey("demo-" + rand.Text())
	policy, err := policy.Parse([]byte(policyText))
	if err != nil {
		return err
	}
	c := daemon.GatewayConfig{
		Common: daemon.Common{Storage: daemon.Storage{Dir: filepath.Join(dir, "merchant")}, Log: log.With("end", "merchant")},
		Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0",
		Callbacks: merchant.Config{Key: d.key.Public(), APIKey: d.apiKey}, Policy: policy, Grace: grace,
	}
	c.WrapCallbacks = func(next http.Handler) http.Handler { return d.tap.wrap(d.key.Public(), next) }
	if d.c.Stay {
		if err := d.handOver(filepath.Join(dir, "handover")); err != nil {
			return err
		}
		if d.try, err = d.listenTry(log); err != nil {
			return err
		}
	}
	d.gateway, err = daemon.NewGateway(c)
	return err
}

// open opens both ends, or neither.
func (d *Demo) open(ctx context.Context) error {
	if err := d.service.Open(ctx); err != nil {
		return err
	}
	if err := d.gateway.Open(ctx); err != nil {
		return errors.Join(err, d.service.Close())
	}
	ours, err := readToken(d.service.TokenFile())
	shops, err2 := readToken(d.gateway.TokenFile())
	if err = errors.Join(err, err2); err == nil {
		d.links = [2]string{d.service.ConsoleLink(ours), d.gateway.ConsoleLink(shops)}
		d.api, err = client.NewService(client.Config{URL: d.service.URL(), Token: ours})
	}
	if err == nil {
		d.shop, err = client.NewGateway(client.Config{URL: d.gateway.URL(), Token: shops})
	}
	if err != nil {
		return errors.Join(err, d.gateway.Close(), d.service.Close())
	}
	return nil
}

func readToken(path string) (client.Secret, error) {
	b, err := os.ReadFile(path)
	return client.Secret(strings.TrimSpace(string(b))), err
}
