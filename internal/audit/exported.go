package audit

import (
	"context"
	"errors"
	"fmt"

	"countersign/internal/db"
)

// ErrGap means that an export does not continue those that were acknowledged before.
var ErrGap = errors.New("records before it were not exported")

// recordExported is the kind of records of acknowledged exports.
const recordExported = "audit.exported"

type exportedRecord struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

const (
	exportedSQL = `SELECT last FROM audit_exported WHERE id = 1`

	acknowledgeSQL = `UPDATE audit_exported SET last = $2 WHERE id = 1 AND last >= $1 - 1 AND last < $2`
)

// ExportedUpTo gives the last record of the exports that were acknowledged; 0: none was.
func ExportedUpTo(ctx context.Context, q db.Querier) (last int64, err error) {
	_, err = db.One(ctx, q, exportedSQL, nil, &last)
	return last, err
}

// Exported notes that somebody keeps an export of the records first to last, so that the
// next one may begin after it. It gives the last record of all such exports. It fails with ErrGap, and with ErrFrom if the log has fewer records.
func (l *Log) Exported(ctx context.Context, first, last int64, now db.Millis) (upto int64, err error) {
	err = l.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		head, err := readHead(ctx, t, readSizeSQL)
		if err != nil {
			return err
		}
		if last > head.size {
			return fmt.Errorf("%w: it has %d", ErrFrom, head.size)
		}
		moved, err := t.Exec(ctx, acknowledgeSQL, first, last)
		if err != nil {
			return err
		}
		if upto, err = ExportedUpTo(ctx, t); err != nil {
			return err
		}
		switch {
		case moved == 1:
			return Add(ctx, t, Record{Kind: recordExported, At: now, Data: exportedRecord{first, last}})
		case upto < last:
			return fmt.Errorf("%w: those up to %d were", ErrGap, upto)
		}
		return nil // it was acknowledged before
	})
	return upto, err
}
