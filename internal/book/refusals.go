package book

import (
	"context"
	"maps"
	"slices"

	"countersign/internal/db"
)

const (
	addRefusalsSQL = `
INSERT INTO refusals (reason, count) VALUES ($1, $2)
ON CONFLICT (reason) DO UPDATE SET count = refusals.count + excluded.count`

	countRefusalsSQL = `SELECT reason, count FROM refusals`

	lastTakenSQL = `SELECT created FROM inbox ORDER BY seq DESC LIMIT 1`
)

// LastTaken is when the last new callback was taken into the inbox, by any node; 0 if
// there is none.
func (b *Book) LastTaken(ctx context.Context) (at db.Millis, err error) {
	_, err = db.One(ctx, b, lastTakenSQL, nil, &at)
	return at, err
}

// AddRefusals adds to the numbers of refused requests, by reason, and raises alarms,
// in one transaction. A caller that repeats it after an error may count twice what
// was committed all the same.
func (b *Book) AddRefusals(ctx context.Context, counts map[string]int64, alarms []db.Alarm) error {
	return b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		for _, reason := range slices.Sorted(maps.Keys(counts)) { // in one order: two nodes must not wait for each other
			if _, err := t.Exec(ctx, addRefusalsSQL, reason, counts[reason]); err != nil {
				return err
			}
		}
		l := ledger{alarms: alarms}
		return l.write(ctx, t)
	})
}
