package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/policy"
	"countersign/merchant"
)

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

// play runs the demo, from the registration to the table.
func (d *Demo) play(ctx context.Context) error {
	at := d.gateway.CallbackURL()
	if err := d.register(ctx, at); err != nil {
		return fmt.Errorf("registering the merchant: %w", err)
	}
	d.say("service    %s  (SQLite, RSA %d bit)", d.service.URL(), d.c.Bits)
	d.say("merchant   %s  (the gateway, SQLite)", at)
	if err := d.deliver(ctx); err != nil {
		return fmt.Errorf("delivering deposits: %w", err)
	}
	if err := d.replaceAddress(ctx); err != nil {
		return fmt.Errorf("replacing an address: %w", err)
	}
	if err := d.withdraw(ctx); err != nil {
		return fmt.Errorf("asking for withdrawals: %w", err)
	}
	if err := d.checkAll(ctx); err != nil {
		return fmt.Errorf("checking: %w", err)
	}
	if err := d.table(ctx); err != nil {
		return err
	}
	if d.c.Stay {
		d.say("\nBoth ends stay up until Ctrl-C. The service's API: %s, token in %s", d.service.URL(), d.service.TokenFile())
		d.say("The merchant's API: %s, token in %s", d.gateway.URL(), d.gateway.TokenFile())
		d.say("Their consoles, for a browser; each link signs in once:\n  service   %s\n  merchant  %s", d.links[0],
			d.links[1])
		d.say("Try it: send any callback, with any fault, and see both sides:\n  %s", d.try.URL())
		<-ctx.Done()
	}
	for _, c := range d.checks {
		if !c.holds {
			return errors.New("some checks failed; the table says which")
		}
	}
	d.played = true
	if !d.c.Stay {
		d.say("\nLook at both consoles, and send callbacks of your own: countersign demo --stay\nThen read docs/merchant/README.md or docs/provider/README.md.")
	}
	return nil
}

// register registers the merchant, whose gateway is at a URL.
func (d *Demo) register(ctx context.Context, at string) error {
	private, err := d.key.PrivatePEM()
	if err != nil {
		return err
	}
	schedule := &client.Schedule{Delays: []client.Duration{0, client.Duration(time.Second)},
		Every: client.Duration(2 * time.Second)}
	_, err = d.api.CreateMerchant(ctx, client.NewMerchant{
		ID:  merchantID,
		Key: &client.KeySpec{PrivateKey: client.Secret(private)},
		MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), Name: "a merchant of the demo",
			NotifyURL: at + merchant.DefaultNotifyPath, WithdrawURL: at + merchant.DefaultWithdrawPath,
			RetryNotify: schedule, RetryWithdraw: schedule},
		MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret(d.apiKey.Reveal())},
	})
	return err
}

// table prints what happened.
func (d *Demo) table(ctx context.Context) error {
	stats, err := d.shop.Stats(ctx)
	if err != nil {
		return err
	}
	delivered, err := d.delivered(ctx)
	if err != nil {
		return err
	}
	d.say("")
	w := tabwriter.NewWriter(d.c.Out, 0, 0, 2, ' ', 0)
	row := func(what, value, note string) { fmt.Fprintf(w, "%s\t%s\t%s\n", what, value, note) }
	row("deposits sent", fmt.Sprint(len(d.deposits)), fmt.Sprintf("%d attempts", delivered.attempts))
	row("deposits taken", fmt.Sprint(stats.Deposits-stats.DepositsHeld), "two of them one transaction to one address")
	row("possible duplicates held", fmt.Sprint(stats.DepositsHeld), "sent under a second name; kept, not credited")
	for _, o := range d.asked {
		row("withdrawal "+o.name, o.got, o.note)
	}
	for _, t := range countersign.TypeUnknown.Values() {
		row(fmt.Sprintf("callbacks of type %d", int(t)), fmt.Sprint(delivered.all[t]),
			fmt.Sprintf("%d accepted, %s", delivered.accepted[t], t.Words()))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	d.say("")
	w = tabwriter.NewWriter(d.c.Out, 0, 0, 2, ' ', 0)
	for _, c := range d.checks {
		mark := "holds"
		if !c.holds {
			mark = "BROKEN"
		}
		row(c.name, mark, c.note)
	}
	return w.Flush()
}
