package main

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/internal/admin"
	"countersign/internal/gateway"
	"countersign/internal/store"
	"countersign/merchant"
)

// The deposits of the demo are real ones; demodata/README.md says which.
//
//go:embed demodata/deposits.jsonl
var demoDeposits embed.FS

type demoCmd struct {
	Data   string `help:"Keep both ends' data in this directory; a temporary one that is removed if empty. It must be new." type:"path" placeholder:"DIR"`
	Bits   int    `help:"Size of the RSA pair: 1024, 2048 or 3072." default:"2048" enum:"1024,2048,3072" placeholder:"BITS"`
	Repeat int    `help:"Send the deposits this many times, each time as new ones." default:"1" placeholder:"N"`
	Faults bool   `help:"For the first minute the merchant drops, delays and lies."`
	Stay   bool   `help:"Keep both ends running afterwards and print where they are, until Ctrl-C."`

	FaultTime time.Duration `hidden:"" default:"1m"`
}

// Help is the long help of the subcommand.
func (demoCmd) Help() string {
	return "Runs both ends on this machine, with data and ports of their own: delivers real deposits, has withdrawals " +
		"confirmed, declined, held and expired, and checks in both databases that nothing was lost, doubled or let through. " +
		"Exit status 0 only if all of it holds."
}

const demoMerchantID = "demo"

// demo is one run: both ends and what was sent.
type demo struct {
	demoCmd
	std     streams
	key     *envelope.Key
	apiKey  countersign.APIKey
	service *service
	api     *admin.Client // of the service
	gateway *demoGateway
	sent    map[string]countersign.Amount // trackingId → amount
	sums    map[string]countersign.Amount // symbol → what was sent
	checks  []demoCheck
	asked   []demoOutcome
}

// demoGateway is the merchant's end of the demo.
type demoGateway struct {
	dir       dataDir
	db        *store.Store
	gateway   *gateway.Gateway
	end       *store.MerchantEnd // what the merchant's own systems would do through the API
	callbacks *listener
	api       *listener
}

func (c *demoCmd) Run(std streams) (err error) {
	if c.Repeat < 1 || c.Repeat > 1000 {
		return errors.New("--repeat is 1 to 1000")
	}
	dir := c.Data
	if dir == "" {
		if dir, err = os.MkdirTemp("", "countersign-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return &hintedError{fmt.Errorf("%s is not empty", dir), []string{"give --data a directory that does not exist yet."}}
	}
	// What the daemons would log goes to files: the demo speaks for itself.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	logFile, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logFile.Close()) }()
	log := slog.New(slog.NewTextHandler(logFile, nil))
	ctx, stop := untilSignal(log)
	defer stop()

	d := &demo{demoCmd: *c, std: std, sent: map[string]countersign.Amount{}, sums: map[string]countersign.Amount{}}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.build(ctx, dir, log); err != nil {
		return err
	}
	return runParts(ctx, d.service.api.part(), part{"dispatch", d.service.sender.Run},
		d.gateway.callbacks.part(), d.gateway.api.part(), part{"gateway", d.gateway.gateway.Run}, part{"demo", d.play})
}

// build makes both ends and starts nothing.
func (d *demo) build(ctx context.Context, dir string, log *slog.Logger) (err error) {
	quiet := streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard}
	serve := serveCmd{
		storeFlags: storeFlags{Data: filepath.Join(dir, "service")}, Listen: "127.0.0.1:0",
		AllowPrivate: true, AllowHTTP: true, ExchangeTimeout: 5 * time.Second,
	}
	if d.service, err = serve.build(ctx, quiet, log.With("end", "service")); err != nil {
		return err
	}
	token, err := os.ReadFile(d.service.dir.file(tokenFile))
	if err != nil {
		return err
	}
	if d.api, err = admin.NewClient(d.service.api.url(), strings.TrimSpace(string(token)), nil); err != nil {
		return err
	}
	// The service makes the pair and keeps the private part; the merchant is
	// given the public part and its API key.
	if d.key, err = envelope.GenerateKey(d.Bits); err != nil {
		return err
	}
	d.apiKey = countersign.APIKey("demo-" + rand.Text())
	d.gateway, err = d.buildGateway(ctx, quiet, filepath.Join(dir, "merchant"), log.With("end", "merchant"))
	return err
}

func (d *demo) buildGateway(ctx context.Context, quiet streams, path string, log *slog.Logger) (_ *demoGateway, err error) {
	g := &demoGateway{}
	if g.dir, g.db, err = (storeFlags{Data: path}).open(ctx, log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.db.Close())
		}
	}()
	if err := firstToken(ctx, quiet, g.dir, g.db, time.Now()); err != nil {
		return nil, err
	}
	policy, err := gateway.ParsePolicy([]byte(demoPolicy))
	if err != nil {
		return nil, err
	}
	g.gateway, err = gateway.New(gateway.Config{
		Store: g.db, Policy: policy, Grace: demoGrace, Log: log, Version: version,
		Callbacks: merchant.Config{Key: d.key.Public(), APIKey: d.apiKey},
	})
	if err != nil {
		return nil, err
	}
	g.end = store.NewMerchantEnd(g.db, false)
	handler := g.gateway.Callbacks()
	if d.Faults {
		handler = newDemoFaults(handler, time.Now().Add(d.FaultTime))
	}
	if g.callbacks, err = listen("callbacks", "127.0.0.1:0", handler, 5*time.Second, log); err != nil {
		return nil, err
	}
	if g.api, err = listen("gateway api", "127.0.0.1:0", g.gateway.API(), 5*time.Second, log); err != nil {
		return nil, err
	}
	g.api.beforeStop = g.gateway.Stop
	return g, nil
}

func (d *demo) close() error {
	var errs []error
	if d.service != nil {
		errs = append(errs, d.service.db.Close())
	}
	if d.gateway != nil {
		errs = append(errs, d.gateway.db.Close())
	}
	return errors.Join(errs...)
}
