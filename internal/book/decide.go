package book

import (
	"context"
	"fmt"
	"slices"

	"countersign/internal/db"
)

// The bounds of DecideHeld: how many deposits one transaction decides, so that others do not wait
// long, and how many one call does.
const (
	decideBatch = 100
	decideMost  = 5000
)

// DecideHeld does what DecideDeposit does for all held deposits that f selects, with a number up
// to upTo (0: any), and gives how many and the highest number; with dryRun it only counts. It
// leaves out what was decided meanwhile. more is true if it stopped at 5,000. If it fails, it
// gives the number that were decided.
func (b *Book) DecideHeld(ctx context.Context, f DepositFilter, to DepositState, by, reason string, upTo int64, dryRun bool, now db.Millis) (n, last int64, more bool, err error) {
	if to != DepositCredited && to != DepositRejected {
		return 0, 0, false, fmt.Errorf("state is %w: %q", db.ErrInvalid, to)
	}
	if db.CheckText("", by) != nil || db.CheckText("", reason) != nil {
		return 0, 0, false, &db.ItemError{Member: "reason", Err: db.CheckText("reason", "\x00")}
	}
	f.State = DepositHeld
	before := int64(0)
	if upTo > 0 {
		before = upTo + 1
	}
	for {
		list, next, err := b.SearchDeposits(ctx, f, decideBatch, before)
		if err != nil {
			return n, last, false, err
		}
		if len(list) > 0 {
			last = max(last, list[0].Seq)
		}
		decided := int64(len(list))
		if !dryRun && len(list) > 0 {
			slices.Reverse(list) // in the order in which they came
			for i := range list {
				d := &list[i]
				d.State, d.Decided, d.DecidedBy, d.Reason = to, now, by, reason
			}
			err := b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) (err error) {
				if err = checkReconciled(ctx, t); err == nil {
					decided, err = decideDeposits(ctx, t, list)
				}
				return err
			})
			if err != nil {
				return n, last, false, err
			}
		}
		n += decided
		if next == 0 {
			return n, last, false, nil
		}
		if !dryRun && n >= decideMost {
			return n, last, true, nil
		}
		before = next
	}
}

// decideDeposits decides as list says, in the order of its numbers, and gives how many it decided. It
// leaves what is not held any more: another was faster. What the deposits say is read again.
func decideDeposits(ctx context.Context, t *db.Tx, list []TakenDeposit) (int64, error) {
	var held []TakenDeposit
	var statements []db.Statement
	for _, decision := range list {
		statements = append(statements, db.Statement{SQL: lockDepositSQL, Args: []any{decision.Seq}, Row: func(r db.Rows) error {
			d, err := scanDeposit(r)
			if err == nil && d.State == DepositHeld {
				d.State, d.Decided, d.DecidedBy, d.Reason = decision.State, decision.Decided, decision.DecidedBy, decision.Reason
				held = append(held, d)
			}
			return err
		}})
	}
	if err := t.Batch(ctx, statements); err != nil || len(held) == 0 {
		return 0, err
	}
	l := ledger{}
	if err := l.decide(ctx, t, held); err != nil {
		return 0, err
	}
	return int64(len(held)), l.write(ctx, t)
}
