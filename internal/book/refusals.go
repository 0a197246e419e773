package book

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

const lastTakenSQL = `SELECT created FROM inbox ORDER BY seq DESC LIMIT 1`

// LastTaken returns when any node last took a new callback into the inbox. It returns 0 if none did.
func (b *Book) LastTaken(ctx context.Context) (at db.Millis, err error) {
	_, err = db.One(ctx, b, lastTakenSQL, nil, &at)
	return at, err
}

// RaiseAlarms raises alarms in one transaction.
func (b *Book) RaiseAlarms(ctx context.Context, alarms []client.Alarm) error {
	return b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error { return db.RaiseAlarms(ctx, t, alarms) })
}
