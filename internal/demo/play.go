package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"countersign"
	"countersign/client"
	"countersign/merchant"
)

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

func (d *Demo) say(format string, args ...any) { fmt.Fprintf(d.c.Out, format+"\n", args...) }

// progress reports how much of a stage is done.
func (d *Demo) progress(what string, done, all int) {
	if done == all {
		d.c.Progress("")
		return
	}
	d.c.Progress(fmt.Sprintf("%s %d/%d", what, done, all))
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
			Retry: &client.Retry{Notify: schedule, Withdraw: schedule}},
		MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret(d.apiKey.Reveal())},
	})
	return err
}

// queue returns the numbers of callbacks that are open and that have ended.
func (d *Demo) queue(ctx context.Context) (open, done int64, err error) {
	stats, err := d.api.Stats(ctx)
	for _, l := range stats.Lanes {
		switch client.CallbackState(l.State) {
		case client.CallbackPending, client.CallbackSending:
			open += l.Count
		default:
			done += l.Count
		}
	}
	return open, done, err
}

// pause waits. It returns an error if ctx ends first.
func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
	row("callbacks/s", fmt.Sprintf("%.0f", float64(len(delivered.waits))/max(delivered.last.Sub(delivered.first).Seconds(),
		0.001)), "both ends, RSA and both databases on this machine")
	row("from ingest to settled", fmt.Sprintf("%v p50, %v p99", delivered.at(50), delivered.at(99)),
		"a burst: the last waits for all before it")
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

// join joins texts for a note.
func join(texts []string) string { return strings.Join(texts, ", ") }
