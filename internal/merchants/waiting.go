package merchants

import (
	"context"

	"countersign"
	"countersign/internal/db"
)

// First is the pending callback of a merchant's lane that is due first.
type First struct {
	Lane     countersign.Lane
	Callback string    // its id
	Due      db.Millis // it may lie ahead
}

// waitingSQL reads the first entry of the index of each lane's pending rows.
const waitingSQL = `
SELECT * FROM (SELECT lane, id, due FROM outbox WHERE merchant = $1 AND lane = 0 AND state = 'pending' ORDER BY due, id LIMIT 1) notify
UNION ALL
SELECT * FROM (SELECT lane, id, due FROM outbox WHERE merchant = $1 AND lane = 1 AND state = 'pending' ORDER BY due, id LIMIT 1) withdraw`

// Waiting gives, for each lane with pending callbacks, the one that is due first.
func Waiting(ctx context.Context, q db.Querier, merchant string) ([]First, error) {
	return db.List(ctx, q, waitingSQL, []any{merchant}, func(r db.Rows) (f First, err error) {
		err = r.Scan(&f.Lane, &f.Callback, &f.Due)
		f.Callback = merchant + "." + f.Callback
		return f, err
	})
}

// Breaker is a merchant's lane whose breaker is open or half open: then OpenUntil has
// passed, and the lane tries one exchange at a time.
type Breaker struct {
	Merchant  string
	Lane      countersign.Lane
	Failures  int
	OpenUntil db.Millis
}

// BreakersSQL reads the lanes whose breaker is not closed. 5 is pace.BreakerThreshold.
const BreakersSQL = `
SELECT merchant, lane, failures, open_until FROM lanes WHERE failures >= 5 ORDER BY merchant, lane`

// Breakers lists the lanes whose breaker is not closed, by merchant.
func Breakers(ctx context.Context, q db.Querier) ([]Breaker, error) {
	return db.List(ctx, q, BreakersSQL, nil, func(r db.Rows) (b Breaker, err error) {
		err = r.Scan(&b.Merchant, &b.Lane, &b.Failures, &b.OpenUntil)
		return b, err
	})
}
