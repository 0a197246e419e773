package outbox

import (
	"context"
	"fmt"

	"countersign"
	"countersign/internal/db"
)

// FirstDue is the pending callback of a merchant's lane that is due first.
type FirstDue struct {
	Lane     countersign.Lane
	Callback string    // its id
	Due      db.Millis // it may lie ahead
}

// waitingSQL reads the first entry of the index of each lane's pending rows.
const waitingSQL = `
SELECT * FROM (SELECT lane, id, due FROM outbox WHERE merchant = $1 AND lane = 0 AND state = 'pending' ORDER BY due, id LIMIT 1) notify
UNION ALL
SELECT * FROM (SELECT lane, id, due FROM outbox WHERE merchant = $1 AND lane = 1 AND state = 'pending' ORDER BY due, id LIMIT 1) withdraw`

// Waiting gives, for each lane of a merchant with pending callbacks, the one that is due
// first.
func (o *Outbox) Waiting(ctx context.Context, merchant string) ([]FirstDue, error) {
	return db.List(ctx, o, waitingSQL, []any{merchant}, func(r db.Rows) (f FirstDue, err error) {
		err = r.Scan(&f.Lane, &f.Callback, &f.Due)
		f.Callback = joinID(merchant, f.Callback)
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

// breakersSQL reads the lanes whose breaker is not closed.
var breakersSQL = fmt.Sprintf(`
SELECT merchant, lane, failures, open_until FROM lanes WHERE failures >= %d ORDER BY merchant, lane`, BreakerThreshold)

// Breakers lists the lanes whose breaker is not closed, by merchant.
func (o *Outbox) Breakers(ctx context.Context) ([]Breaker, error) {
	return db.List(ctx, o, breakersSQL, nil, func(r db.Rows) (b Breaker, err error) {
		err = r.Scan(&b.Merchant, &b.Lane, &b.Failures, &b.OpenUntil)
		return b, err
	})
}
