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

// HeldDecided says what DecideHeld did, or would do.
type HeldDecided struct {
	Count   int64
	LeftOut int64 // possible duplicates, which are credited one by one
	Last    int64 // the highest number among all
	More    bool  // it stopped at 5,000
}

const duplicatesSQL = `
SELECT i.id FROM {list}$1{as w} CROSS JOIN {inner}inbox i WHERE i.type = 1 AND i.duplicate <> 0 AND i.id = w.value{alone}`

// withoutDuplicates takes out of list what may be the same transfer as another deposit, or as one
// that was booked before a restore: crediting all that match would pay each copy.
func (b *Book) withoutDuplicates(ctx context.Context, list []TakenDeposit) ([]TakenDeposit, error) {
	ids, doubted := make([]string, len(list)), map[string]bool{}
	for i, d := range list {
		ids[i] = d.Deposit.TrackingID
	}
	err := db.Each(ctx, b, duplicatesSQL, []any{b.Dialect().List(ids)}, func(r db.Rows) error {
		var id string
		err := r.Scan(&id)
		doubted[id] = true
		return err
	})
	return slices.DeleteFunc(list, func(d TakenDeposit) bool { return doubted[d.Deposit.TrackingID] }), err
}

// DecideHeld does what DecideDeposit does for all held deposits that f selects, with a number up
// to upTo (0: any), but credits no possible duplicate; with dryRun it only counts. It leaves out
// what was decided meanwhile. If it fails, it returns how many were decided.
func (b *Book) DecideHeld(ctx context.Context, f DepositFilter, to DepositState, by, reason string, upTo int64, dryRun bool, now db.Millis) (done HeldDecided, err error) {
	if to != DepositCredited && to != DepositRejected {
		return done, fmt.Errorf("state is %w: %q", db.ErrInvalid, to)
	}
	if db.CheckText("", by) != nil || db.CheckText("", reason) != nil {
		return done, &db.ItemError{Member: "reason", Err: db.CheckText("reason", "\x00")}
	}
	f.State = DepositHeld
	before := int64(0)
	if upTo > 0 {
		before = upTo + 1
	}
	for {
		list, next, err := b.SearchDeposits(ctx, f, decideBatch, before)
		if err != nil {
			return done, err
		}
		if len(list) > 0 {
			done.Last = max(done.Last, list[0].Seq)
		}
		if n := len(list); to == DepositCredited && n > 0 {
			if list, err = b.withoutDuplicates(ctx, list); err != nil {
				return done, err
			}
			done.LeftOut += int64(n - len(list))
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
				return done, err
			}
		}
		done.Count += decided
		if next == 0 {
			return done, nil
		}
		if done.More = !dryRun && done.Count >= decideMost; done.More {
			return done, nil
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
