package outbox

import (
	"context"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// FillAccepted keeps callbacks in the state that Ingest, Claim and Settle leave when
// the first attempt at each, a, was accepted at now. It is for benchmarks with many
// settled callbacks. It keeps all or none; a known event is a *ConflictError.
func (o *Outbox) FillAccepted(ctx context.Context, items []NewCallback, a Attempt, now db.Millis) error {
	batch, err := o.newRows(ctx, items, now)
	if err != nil {
		return err
	}
	a.Number = 1
	return o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		inserted, _, err := o.insertCallbacks(ctx, t, batch, now)
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
			b := settling{Settlement: Settlement{Merchant: n.Merchant, Attempt: a}, id: n.id, state: client.CallbackAccepted, now: now}
			args = b.attempt(args, false)
			changes.ended(n.Merchant, n.Type.Lane(), client.CallbackAccepted)
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
