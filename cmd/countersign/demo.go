package main

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/internal/admin"
	"countersign/internal/daemon"
	"countersign/internal/gateway"
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
	service *daemon.Service
	api     *admin.Client // of the service
	gateway *daemon.Gateway
	sent    map[string]countersign.Amount // trackingId → amount
	sums    map[string]countersign.Amount // symbol → what was sent
	checks  []demoCheck
	asked   []demoOutcome
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
	if err := d.build(dir, log); err != nil {
		return err
	}
	if err := d.open(ctx); err != nil {
		return err
	}
	return daemon.RunParts(ctx, daemon.Part{Name: "service", Run: d.service.Run}, daemon.Part{Name: "gateway", Run: d.gateway.Run},
		daemon.Part{Name: "demo", Run: d.play})
}

// build makes both ends and opens nothing.
func (d *demo) build(dir string, log *slog.Logger) (err error) {
	d.service, err = daemon.NewService(daemon.ServiceConfig{
		Storage: daemon.Storage{Dir: filepath.Join(dir, "service")}, Listen: "127.0.0.1:0",
		AllowPrivate: true, AllowHTTP: true, ExchangeTimeout: 5 * time.Second, Log: log.With("end", "service"),
	})
	if err != nil {
		return err
	}
	// The service makes the pair and keeps the private part; the merchant is
	// given the public part and its API key.
	if d.key, err = envelope.GenerateKey(d.Bits); err != nil {
		return err
	}
	d.apiKey = countersign.APIKey("demo-" + rand.Text())
	policy, err := gateway.ParsePolicy([]byte(demoPolicy))
	if err != nil {
		return err
	}
	c := daemon.GatewayConfig{
		Storage: daemon.Storage{Dir: filepath.Join(dir, "merchant")}, Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0",
		Callbacks: merchant.Config{Key: d.key.Public(), APIKey: d.apiKey}, Policy: policy, Grace: demoGrace, Log: log.With("end", "merchant"),
	}
	if d.Faults {
		c.WrapCallbacks = func(next http.Handler) http.Handler { return newDemoFaults(next, time.Now().Add(d.FaultTime)) }
	}
	d.gateway, err = daemon.NewGateway(c)
	return err
}

// open opens both ends, or neither.
func (d *demo) open(ctx context.Context) error {
	if err := d.service.Open(ctx); err != nil {
		return err
	}
	if err := d.gateway.Open(ctx); err != nil {
		return errors.Join(err, d.service.Close())
	}
	token, err := os.ReadFile(d.service.TokenFile())
	if err == nil {
		d.api, err = admin.NewClient(d.service.URL(), strings.TrimSpace(string(token)), nil)
	}
	if err != nil {
		return errors.Join(err, d.gateway.Close(), d.service.Close())
	}
	return nil
}
