// Package evidence is what the records of an audit log say: their kinds and members, of the
// service and of the merchant's end. Logs that exist hold them, and items of some are made
// again from rows to prove them: members may be added, and none changed or taken away.
package evidence

import (
	"context"

	"countersign/internal/audit"
	"countersign/internal/db"
)

// Add adds a record about one merchant, callback, withdrawal or order as part of t.
func Add(ctx context.Context, t *db.Tx, kind, id string, now db.Millis, data any) error {
	return audit.Add(ctx, t, audit.Record{Kind: kind, At: now, About: []string{id}, Data: data})
}

// Purged tells of rows that were purged because they were settled long ago.
type Purged struct {
	Rows   int64 `json:"purged"`
	Before int64 `json:"before"` // when they were settled, in milliseconds since 1970
}
