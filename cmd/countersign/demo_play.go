package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"countersign"
	"countersign/internal/admin"
	"countersign/internal/store"
	"countersign/merchant"
)

// play is what happens in a demo, from the registration to the table.
func (d *demo) play(ctx context.Context) error {
	if err := d.register(ctx); err != nil {
		return fmt.Errorf("registering the merchant: %w", err)
	}
	d.say("service    %s  (SQLite, RSA %d bit)", d.service.URL(), d.Bits)
	d.say("merchant   %s  (the gateway, SQLite)", d.gateway.CallbackURL())
	if d.Faults {
		d.say("faults     for %v the merchant drops, delays and lies; retries must make up for it", d.FaultTime)
	}
	if err := d.deliver(ctx); err != nil {
		return fmt.Errorf("delivering deposits: %w", err)
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
	if d.Stay {
		d.say("\nBoth ends stay up until Ctrl-C. The service's API: %s, token in %s", d.service.URL(), d.service.TokenFile())
		d.say("The merchant's API: %s, token in %s", d.gateway.URL(), d.gateway.TokenFile())
		<-ctx.Done()
	}
	for _, c := range d.checks {
		if !c.holds {
			return errors.New("not everything held")
		}
	}
	return nil
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.std.out, format+"\n", args...) }

// progress shows how far something is, on a terminal only.
func (d *demo) progress(what string, done, all int) {
	f, ok := d.std.err.(*os.File)
	if !ok {
		return
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	fmt.Fprintf(f, "\r\x1b[K%s %d/%d", what, done, all)
	if done == all {
		fmt.Fprint(f, "\r\x1b[K")
	}
}

func (d *demo) register(ctx context.Context) error {
	private, err := d.key.PrivatePEM()
	if err != nil {
		return err
	}
	schedule := &admin.Schedule{Delays: []admin.Duration{0, admin.Duration(time.Second)}, Every: admin.Duration(2 * time.Second)}
	_, err = d.api.CreateMerchant(ctx, admin.NewMerchant{
		ID: demoMerchantID, Name: "the merchant of the demo", APIKey: admin.Secret(d.apiKey.Reveal()),
		Key:         &admin.KeySpec{PrivateKey: admin.Secret(private)},
		NotifyURL:   d.gateway.CallbackURL() + merchant.DefaultNotifyPath,
		WithdrawURL: d.gateway.CallbackURL() + merchant.DefaultWithdrawPath,
		Retry:       &admin.Retry{Notify: schedule, Withdraw: schedule},
	})
	return err
}

// readDeposits gives the embedded deposits, repeated under new names.
func (d *demo) readDeposits() ([]admin.NewDeposit, error) {
	f, err := demoDeposits.Open("demodata/deposits.jsonl")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var once []admin.NewDeposit
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var n admin.NewDeposit
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return nil, err
		}
		n.Merchant = demoMerchantID
		once = append(once, n)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	var list []admin.NewDeposit
	for round := range d.Repeat {
		for _, n := range once {
			if round > 0 {
				n.TrackingID += fmt.Sprintf("-%d", round+1)
				n.TxID += fmt.Sprintf("-%d", round+1)
			}
			list = append(list, n)
		}
	}
	return list, nil
}

// deliver tells the merchant of all deposits and of one of them twice, under a
// second name, and waits until all are accepted.
func (d *demo) deliver(ctx context.Context) error {
	list, err := d.readDeposits()
	if err != nil {
		return err
	}
	again := list[0]
	again.TrackingID, again.TxIndex = "told-again", -1
	list = append(list, again)
	for _, n := range list {
		d.sent[n.TrackingID] = n.Amount
		if d.sums[n.Symbol], err = d.sums[n.Symbol].Add(n.Amount); err != nil {
			return err
		}
	}
	for batch := range slices.Chunk(list, 100) {
		if _, err := d.api.AddDeposits(ctx, batch...); err != nil {
			return err
		}
	}
	for {
		open, done, err := d.queue(ctx)
		if err != nil {
			return err
		}
		d.progress("deposits", int(done), len(list))
		if open == 0 {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// queue says how many callbacks are still open and how many have ended.
func (d *demo) queue(ctx context.Context) (open, done int64, err error) {
	stats, err := d.api.Stats(ctx)
	for _, l := range stats.Lanes {
		switch store.CallbackState(l.State) {
		case store.CallbackPending, store.CallbackSending:
			open += l.Count
		default:
			done += l.Count
		}
	}
	return open, done, err
}

func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// table prints what happened.
func (d *demo) table(ctx context.Context) error {
	stats, err := d.gateway.Book().Stats(ctx)
	if err != nil {
		return err
	}
	times, err := d.times(ctx)
	if err != nil {
		return err
	}
	attempts, err := d.attempts(ctx)
	if err != nil {
		return err
	}
	d.say("")
	w := tabwriter.NewWriter(d.std.out, 0, 0, 2, ' ', 0)
	row := func(what, value, note string) { fmt.Fprintf(w, "%s\t%s\t%s\n", what, value, note) }
	row("deposits sent", fmt.Sprint(len(d.sent)), fmt.Sprintf("%d attempts", attempts))
	row("deposits taken", fmt.Sprint(stats.Deposits-stats.DepositsHeld), "two of them one transaction to one address")
	row("possible duplicates held", fmt.Sprint(stats.DepositsHeld), "told under a second name; kept, not credited")
	for _, o := range d.asked {
		row("withdrawal "+o.name, o.got, o.note)
	}
	row("callbacks/s", fmt.Sprintf("%.0f", times.rate), "both ends, RSA and both databases on this machine")
	row("from ingest to settled", fmt.Sprintf("%v p50, %v p99", times.p50, times.p99), "a burst: the last waits for all before it")
	if err := w.Flush(); err != nil {
		return err
	}
	d.say("")
	w = tabwriter.NewWriter(d.std.out, 0, 0, 2, ' ', 0)
	for _, c := range d.checks {
		mark := "holds"
		if !c.holds {
			mark = "BROKEN"
		}
		row(c.name, mark, c.note)
	}
	return w.Flush()
}

// demoTimes are what the service's database says of the deposits.
type demoTimes struct {
	rate     float64
	p50, p99 time.Duration
}

func (d *demo) times(ctx context.Context) (demoTimes, error) {
	var waits []time.Duration
	var first, last time.Time
	for c, err := range d.api.AllCallbacks(ctx, admin.CallbackFilter{Type: int(countersign.TypeDeposited)}) {
		if err != nil {
			return demoTimes{}, err
		}
		created, settled := c.Created.Time(), c.Settled.Time()
		waits = append(waits, settled.Sub(created))
		if first.IsZero() || created.Before(first) {
			first = created
		}
		if settled.After(last) {
			last = settled
		}
	}
	if len(waits) == 0 {
		return demoTimes{}, io.ErrUnexpectedEOF
	}
	slices.Sort(waits)
	at := func(p int) time.Duration { return waits[min(len(waits)-1, len(waits)*p/100)] }
	return demoTimes{rate: float64(len(waits)) / max(last.Sub(first).Seconds(), 0.001), p50: at(50), p99: at(99)}, nil
}

func (d *demo) attempts(ctx context.Context) (n int, err error) {
	for c, err := range d.api.AllCallbacks(ctx, admin.CallbackFilter{Type: int(countersign.TypeDeposited)}) {
		if err != nil {
			return 0, err
		}
		n += c.Attempt
	}
	return n, nil
}

// join lists texts for a note.
func join(texts []string) string { return strings.Join(texts, ", ") }
