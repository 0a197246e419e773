package db

import "context"

// LogRecord is what a transaction adds to the audit log of its end.
type LogRecord struct {
	Body     []byte   // what is hashed
	Subjects []string // ids that the record is found by
}

// Record adds r to the audit log as part of t. The records of a transaction are kept
// right before its commit, by End.Keep.
func (t *Tx) Record(r LogRecord) { t.records = append(t.records, r) }

// finish writes what is left to the end of a transaction.
func (t *Tx) finish(ctx context.Context, end End) error {
	if err := t.writeCounts(ctx); err != nil || len(t.records) == 0 || end.Keep == nil {
		return err
	}
	return end.Keep(ctx, t, t.records)
}
