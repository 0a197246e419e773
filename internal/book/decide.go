package book

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

// decideBatch is how many deposits one transaction decides. It keeps the waits of other transactions short.
const decideBatch = 100

const doubtedSQL = `SELECT 1 FROM inbox WHERE type = 1 AND id = $1 AND duplicate <> 0`

// Doubted reports whether a deposit may be the same transfer as another deposit, or as one that was booked before a
// restore. Do not credit such a deposit together with all other held ones: every copy would be credited.
func (b *Book) Doubted(ctx context.Context, trackingID string) (bool, error) {
	var one int64
	return db.One(ctx, b, doubtedSQL, []any{trackingID}, &one)
}

// decideDeposits stores the decisions of list in the order of their numbers. It reads the deposits again and skips
// those that are no longer held.
func decideDeposits(ctx context.Context, t *db.Tx, list []client.DepositEntry) error {
	var held []client.DepositEntry
	var statements []db.Statement
	for _, decision := range list {
		statements = append(statements, db.Statement{SQL: lockDepositSQL, Args: []any{decision.Seq},
			Row: func(r db.Rows) error {
				d, err := scanDeposit(r)
				if err == nil && d.State == client.DepositHeld {
					d.State, d.Decided, d.DecidedBy, d.Reason = decision.State, decision.Decided, decision.DecidedBy, decision.Reason
					held = append(held, d)
				}
				return err
			}})
	}
	if err := t.Batch(ctx, statements); err != nil || len(held) == 0 {
		return err
	}
	l := ledger{}
	if err := l.decide(ctx, t, held); err != nil {
		return err
	}
	return l.write(ctx, t)
}
