package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/reconcile"
)

// checkAll compares both ends with each other and with what was added, by the means of countersign reconcile, and
// checks what that does not look at.
func (d *Demo) checkAll(ctx context.Context) error {
	found, err := d.reconcile(ctx)
	if err != nil {
		return err
	}
	agree, note := d.onlyHeld(found)
	d.check("both ends have every deposit and withdrawal, to the last digit", agree, note)
	right, wrong := 0, []string{}
	for _, o := range d.asked {
		if o.got == string(o.want) {
			right++
		} else {
			wrong = append(wrong, fmt.Sprintf("%s is %s, not %s", o.name, o.got, o.want))
		}
	}
	d.check("every withdrawal decided as it must be", len(wrong) == 0,
		strings.Join(append([]string{fmt.Sprintf("%d of %d", right, len(d.asked))}, wrong...), ", "))
	decisions, err := d.api.Decisions(ctx, client.FeedOptions{Limit: 1000})
	if err != nil {
		return err
	}
	whole := len(decisions.Items) == len(d.asked)
	for i, e := range decisions.Items {
		whole = whole && e.Seq == int64(i)+1
	}
	d.check("feed of decisions: one each, no gap", whole, fmt.Sprint(len(decisions.Items)))
	return nil
}

// reconcile returns what the service, the merchant and a file of what was added disagree on.
func (d *Demo) reconcile(ctx context.Context) (found []reconcile.Finding, err error) {
	var added strings.Builder
	lines := json.NewEncoder(&added)
	for _, n := range d.deposits {
		err = errors.Join(err, lines.Encode(reconcile.Line{TrackingID: n.TrackingID, Symbol: n.Symbol, Amount: n.Amount,
			TxID: n.TxID, ChainName: n.ChainName, ToAddress: n.ToAddress}))
	}
	for _, o := range d.asked {
		err = errors.Join(err, lines.Encode(reconcile.Line{CallBackID: o.callBackID}))
	}
	file := filepath.Join(d.dir, "added.ndjson")
	if err := errors.Join(err, os.WriteFile(file, []byte(added.String()), 0o600)); err != nil {
		return nil, err
	}
	return found, reconcile.Remote(ctx, d.api, reconcile.Config{Added: file, Merchant: merchantID, There: d.shop,
		Epoch: func(string, client.Epoch) {}, Now: db.MillisOf(time.Now()),
		Report: func(f reconcile.Finding) error { found = append(found, f); return nil }})
}

// onlyHeld reports whether nothing was found but that one of two names for one transfer does not count.
func (d *Demo) onlyHeld(found []reconcile.Finding) (holds bool, note string) {
	var list []string
	for _, f := range found {
		list = append(list, fmt.Sprint(f.Finding, " ", f.TrackingID, f.CallBackID))
	}
	first, again := d.deposits[0].TrackingID, d.deposits[len(d.deposits)-1].TrackingID
	return len(found) == 1 && found[0].Finding == reconcile.SentNotCounting &&
		(found[0].TrackingID == first || found[0].TrackingID == again), strings.Join(list[:min(3, len(list))], ", ")
}

// delivered is what became of the callbacks, by type.
type delivered struct {
	all, accepted map[countersign.Type]int
	attempts      int // of deposits
}

// delivered returns what became of the callbacks.
func (d *Demo) delivered(ctx context.Context) (delivered, error) {
	out := delivered{all: map[countersign.Type]int{}, accepted: map[countersign.Type]int{}}
	for c, err := range client.All(ctx, d.api.Callbacks, client.CallbackFilter{}) {
		if err != nil {
			return out, err
		}
		out.all[c.Type]++
		if c.State == client.CallbackAccepted {
			out.accepted[c.Type]++
		}
		if c.Type == countersign.TypeDeposited {
			out.attempts += c.Attempt
		}
	}
	return out, nil
}
