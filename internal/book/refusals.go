package book

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

const lastTakenSQL = `SELECT created FROM inbox ORDER BY seq DESC LIMIT 1`

// LastTaken is when the last new callback was taken into the inbox, by any node; 0 if
// there is none.
func (b *Book) LastTaken(ctx context.Context) (at db.Millis, err error) {
	_, err = db.One(ctx, b, lastTakenSQL, nil, &at)
	return at, err
}

// RaiseAlarms raises alarms in one transaction.
func (b *Book) RaiseAlarms(ctx context.Context, alarms []client.Alarm) error {
	return b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error { return db.RaiseAlarms(ctx, t, alarms) })
}
