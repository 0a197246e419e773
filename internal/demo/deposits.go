package demo

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"time"

	"countersign/client"
	"countersign/internal/db"
)

// The deposits of the demo are real ones; deposits/README.md says which.
//
//go:embed deposits/deposits.jsonl
var embedded []byte

// readDeposits returns the embedded deposits.
func (d *Demo) readDeposits() ([]client.NewDeposit, error) {
	var list []client.NewDeposit
	for line := range bytes.Lines(embedded) {
		var n client.NewDeposit
		if err := json.Unmarshal(line, &n); err != nil {
			return nil, err
		}
		n.Merchant = merchantID
		list = append(list, n)
	}
	return list, nil
}

// deliver sends all deposits to the merchant, one of them twice under a second name, and waits until all are accepted.
func (d *Demo) deliver(ctx context.Context) error {
	list, err := d.readDeposits()
	if err != nil {
		return err
	}
	again := list[0]
	again.TrackingID, again.TxIndex = "told-again", -1
	d.deposits = append(list, again)
	for batch := range slices.Chunk(d.deposits, 100) {
		if _, err := d.api.AddDeposits(ctx, batch...); err != nil {
			return err
		}
	}
	return d.settled(ctx, func(done int64) { d.progress("deposits", int(done), len(d.deposits)) })
}

// settled waits until no callback is open. If progress is not nil, it is called with the number that have ended.
func (d *Demo) settled(ctx context.Context, progress func(done int64)) error {
	for {
		stats, err := d.api.Stats(ctx)
		if err != nil {
			return err
		}
		var open, done int64
		for _, l := range stats.Lanes {
			if l.State == client.CallbackPending || l.State == client.CallbackSending {
				open += l.Count
			} else {
				done += l.Count
			}
		}
		if progress != nil {
			progress(done)
		}
		if open == 0 {
			return nil
		}
		if !db.Sleep(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}
