package store

import (
	"context"
	"fmt"

	"countersign"
)

// FillAccepted keeps callbacks as they are when the first attempt at each, a,
// has been accepted at now: what Ingest, Claim and Settle leave, without the
// way there. It is for measuring beside many of them. All or none; an event
// that is there already is a *ConflictError.
func (s *Store) FillAccepted(ctx context.Context, items []NewCallback, a Attempt, now Millis) error {
	batch := make([]newRow, len(items))
	for i, item := range items {
		row, err := s.newRow(i, item, now)
		if err == nil && item.Type == countersign.TypeRequestWithdraw {
			err = &ItemError{Item: i, Member: "type", Err: fmt.Errorf("type 2 is %w: it has a withdrawal", ErrInvalid)}
		}
		if err == nil {
			err = s.knownMerchant(ctx, i, item.Merchant)
		}
		if err != nil {
			return err
		}
		batch[i] = row
	}
	a.Number = 1
	return s.db.write(ctx, func(ctx context.Context, t *tx) error {
		inserted, err := s.insertCallbacks(ctx, t, batch, now)
		if err != nil {
			return err
		}
		changes := laneChanges{}
		args := make([]any, 0, insertAttempts.n*len(batch))
		for i := range batch {
			n := &batch[i]
			if !inserted[i] {
				return &ConflictError{Item: n.item, Member: eventMember(n.Type), Reason: "is there already"}
			}
			b := settling{Settlement: Settlement{Merchant: n.Merchant, Attempt: a}, id: n.id, state: CallbackAccepted, now: now}
			args = b.attempt(args, false)
			changes.of(n.Merchant, n.Type.Lane()).ended(CallbackAccepted)
		}
		if err := t.batch(ctx, insertAttempts.statements(args, nil)); err != nil {
			return err
		}
		return s.changeLanes(ctx, t, changes, now)
	})
}

// Tidy does at once what filling a PostgreSQL database within seconds leaves the
// server to do in the background, minutes long; rows that come as in life leave
// none of it. It is for benchmarks. With SQLite there is nothing to do.
func (s *Store) Tidy(ctx context.Context) error {
	db, ok := s.db.(*postgresDB)
	if !ok {
		return nil
	}
	if _, err := db.pool.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return fmt.Errorf("vacuuming: %w", db.explain(err))
	}
	_, _ = db.pool.Exec(ctx, "CHECKPOINT") // where the role may
	return nil
}
