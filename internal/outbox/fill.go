package outbox

import (
	"context"
	"fmt"

	"countersign"
	"countersign/internal/db"
)

// FillAccepted keeps callbacks in the state that Ingest, Claim and Settle leave when
// the first attempt at each, a, was accepted at now. It is for benchmarks with many
// settled callbacks. It keeps all or none; a known event is a *ConflictError.
func (o *Outbox) FillAccepted(ctx context.Context, items []NewCallback, a Attempt, now db.Millis) error {
	batch := make([]newRow, len(items))
	for i, item := range items {
		row, err := o.newRow(i, item, now)
		if err == nil && item.Type == countersign.TypeRequestWithdraw {
			err = &db.ItemError{Item: i, Member: "type", Err: fmt.Errorf("type 2 is %w: it has a withdrawal", db.ErrInvalid)}
		}
		if err == nil {
			err = o.knownMerchant(ctx, i, item.Merchant)
		}
		if err != nil {
			return err
		}
		batch[i] = row
	}
	a.Number = 1
	return o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		inserted, err := o.insertCallbacks(ctx, t, batch, now)
		if err != nil {
			return err
		}
		changes := laneChanges{}
		var fresh [laneCount]int64
		args := make([]any, 0, attemptParams*len(batch))
		for i := range batch {
			n := &batch[i]
			if !inserted[i] {
				return &db.ConflictError{Item: n.item, Member: eventMember(n.Type), Reason: "is there already"}
			}
			b := settling{Settlement: Settlement{Merchant: n.Merchant, Attempt: a}, id: n.id, state: CallbackAccepted, now: now}
			args = b.attempt(args, false)
			changes.of(n.Merchant, n.Type.Lane()).ended(CallbackAccepted)
			fresh[n.Type.Lane()]++
		}
		statements := insertAttempts.Statements(args, nil)
		for lane, n := range fresh {
			statements = t.Counted(statements, countOfLane(countersign.Lane(lane)), n)
		}
		if err := t.Batch(ctx, statements); err != nil {
			return err
		}
		return o.changeLanes(ctx, t, changes, now)
	})
}
