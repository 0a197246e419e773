package outbox

import (
	"context"
	"fmt"
	"time"

	"countersign/client"
	"countersign/internal/db"
)

// Quota limits how much a token may add. The zero Quota has no limit.
type Quota struct {
	Token  string
	Hourly int64 // the most new callbacks in an hour of UTC, over all nodes of the database; 0: no limit
}

// QuotaError means that a batch exceeds a Quota.
type QuotaError struct {
	Quota Quota
	Left  int64     // how many may still be added in this hour
	Fresh int64     // how many of the batch are new
	Now   db.Millis // when it was refused
	Until db.Millis // the end of the hour
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the token adds at most %d deposits an hour: %d are left until %s, and the request has %d new ones",
		e.Quota.Hourly, e.Left, e.Until.Time().UTC().Format(time.RFC3339), e.Fresh)
}

const (
	// The row stays locked until the commit, so that two nodes cannot take the same share.
	spendQuotaSQL = `
INSERT INTO added (token, hour, n) SELECT $1, CAST($2 AS BIGINT), CAST($3 AS BIGINT) WHERE CAST($3 AS BIGINT) <= CAST($4 AS BIGINT)
ON CONFLICT (token, hour) DO UPDATE SET n = added.n + excluded.n WHERE added.n + excluded.n <= $4`

	spentQuotaSQL = `SELECT n FROM added WHERE token = $1 AND hour = $2`

	// The previous hour stays, because a node whose clock is behind may still count in it.
	forgetQuotaSQL = `DELETE FROM added WHERE token = $1 AND hour < $2 - 1`
)

// spend counts the new callbacks of a batch. It runs last in its transaction, because it makes other batches of the
// token wait.
func (q Quota) spend(ctx context.Context, t *db.Tx, done []client.Accepted, now db.Millis) error {
	fresh := int64(0)
	for i := range done {
		if !done[i].Duplicate {
			fresh++
		}
	}
	if q.Hourly == 0 || fresh == 0 {
		return nil
	}
	hour := int64(now) / time.Hour.Milliseconds()
	var n, spent int64
	err := t.Batch(ctx, []db.Statement{
		{SQL: spendQuotaSQL, Args: []any{q.Token, hour, fresh, q.Hourly}, N: &n},
		{SQL: forgetQuotaSQL, Args: []any{q.Token, hour}},
		{SQL: spentQuotaSQL, Args: []any{q.Token, hour}, Row: func(r db.Rows) error { return r.Scan(&spent) }}})
	if err != nil || n == 1 {
		return err
	}
	return &QuotaError{Quota: q, Left: q.Hourly - spent, Fresh: fresh, Now: now,
		Until: db.Millis((hour + 1) * time.Hour.Milliseconds())}
}
