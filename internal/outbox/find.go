package outbox

import (
	"context"
	"fmt"

	"countersign/internal/db"
)

// newestAttempts is of how many of the newest callbacks CallbacksWith looks at accepted attempts.
const newestAttempts = 5000

var (
	failedWithSQL = `SELECT merchant, callback FROM attempts WHERE accepted = 0 AND request_uuid = $1 LIMIT 50`

	// The attempts of each callback are looked up by their key: as a join, PostgreSQL would read
	// the whole table.
	acceptedWithSQL = fmt.Sprintf(`
SELECT c.merchant, c.id FROM (SELECT merchant, id FROM callbacks ORDER BY id DESC, merchant DESC LIMIT %d) c
WHERE (SELECT MAX(a.number) FROM attempts a WHERE a.merchant = c.merchant AND a.callback = c.id AND a.accepted = 1 AND a.request_uuid = $1) IS NOT NULL LIMIT 50`, newestAttempts)
)

// CallbacksWith returns the ids of the callbacks that have an attempt with a requestUUID: any that
// was not accepted, and accepted ones of the newest 5,000 callbacks.
func (o *Outbox) CallbacksWith(ctx context.Context, requestUUID string) (ids []string, err error) {
	if db.CheckText("", requestUUID) != nil {
		return nil, nil
	}
	for _, text := range []string{failedWithSQL, acceptedWithSQL} {
		err := db.Each(ctx, o, text, []any{requestUUID}, func(r db.Rows) error {
			var merchant, id string
			err := r.Scan(&merchant, &id)
			ids = append(ids, joinID(merchant, id))
			return err
		})
		if err != nil || len(ids) > 0 {
			return ids, err
		}
	}
	return nil, nil
}
