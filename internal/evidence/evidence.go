// Package evidence is what the records of an audit log say: their kinds and members, of the
// service and of the merchant's end. Logs that exist hold them, and items of some are made
// again from rows to prove them: members may be added, and none changed or taken away.
package evidence

import (
	"context"
	"slices"
	"strings"

	"countersign/internal/audit"
	"countersign/internal/db"
)

// BodiesPurged: bodies of records of this log, by a walk that a record of the kind
// audit.RecordPurging began.
const BodiesPurged = "audit.purged"

// ServiceSettles and GatewaySettles are the kinds of records that are about one thing which
// comes to an end, and with a dot at the end all kinds that begin so: bodies of these may be
// purged after it (--retain-audit). All other records say why the present is as it is.
var (
	ServiceSettles = []string{"withdrawal.", AttemptsSettled, CallbacksResent, CallbacksSentAgain}
	GatewaySettles = []string{"order.", "withdrawal.", "deposit.", "forward.", "address.changed", CallbacksTaken, CursorMoved}
)

// Settles reports whether a kind is one of such a list.
func Settles(list []string, kind string) bool {
	return slices.ContainsFunc(list, func(k string) bool { return k == kind || strings.HasSuffix(k, ".") && strings.HasPrefix(kind, k) })
}

// Add adds a record about one merchant, callback, withdrawal or order as part of t.
func Add(ctx context.Context, t *db.Tx, kind, id string, now db.Millis, data any) error {
	return audit.Add(ctx, t, audit.Record{Kind: kind, At: now, About: []string{id}, Data: data})
}

// Purged tells of rows that were purged because they were settled long ago.
type Purged struct {
	Rows   int64 `json:"purged"`
	Before int64 `json:"before"` // when they were settled, in milliseconds since 1970
}
