package journal

import (
	"context"
	"time"

	"countersign/internal/db"
)

// The pace at which the records of logs that were dropped are removed.
const (
	removeMost  = 100 // records in a transaction
	removeRest  = 10  // a pause is so many times as long as that took
	removeIdle  = time.Minute
	removeLeast = 10 * time.Millisecond
)

const (
	droppedRecordsSQL = `SELECT seq, body FROM audit_records WHERE seq <= $1 ORDER BY seq LIMIT CAST($2 AS BIGINT)`

	removeSubjectSQL = `DELETE FROM audit_subjects WHERE subject = $1 AND seq = $2`

	removeRecordsSQL = `DELETE FROM audit_records WHERE seq <= $1`

	removeCheckpointsSQL = `
DELETE FROM audit_checkpoints WHERE size IN (SELECT size FROM audit_checkpoints WHERE size < $1 ORDER BY size LIMIT 1000)`

	removeCosignedSQL = `DELETE FROM audit_cosigned WHERE size < $1`
)

// removeDropped removes what was dropped until ctx ends, in small transactions beside the load.
// Several nodes may do it, and one that dies leaves nothing half done.
func (l *Log) removeDropped(ctx context.Context) {
	for {
		began := time.Now()
		more, err := l.RemoveSome(ctx)
		wait := max(removeLeast, removeRest*time.Since(began))
		if err != nil && ctx.Err() == nil {
			l.c.Log.Error("records that were dropped were not removed", "error", err.Error())
		}
		if err != nil || !more {
			wait = removeIdle
		}
		rest := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

// RemoveSome removes some of what was dropped. It reports whether there may be more.
func (l *Log) RemoveSome(ctx context.Context) (more bool, err error) {
	closed, err := l.closed(ctx)
	gone := closed.dropped()
	if err != nil || gone.last == 0 {
		return false, err
	}
	var statements []db.Statement
	var last int64
	err = db.Each(ctx, l.lists, droppedRecordsSQL, []any{gone.last, removeMost}, func(r db.Rows) error {
		var record []byte
		if err := r.Scan(&last, &record); err != nil {
			return err
		}
		entry, err := Read(record)
		if err != nil {
			return nil // somebody changed it: by what it was found stays
		}
		for _, id := range entry.About {
			statements = append(statements, db.Statement{SQL: removeSubjectSQL, Args: []any{subjectOf(id), last}})
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	var n int64
	if last > 0 {
		statements = append(statements, db.Statement{SQL: removeRecordsSQL, Args: []any{last}, N: &n})
	} else { // the head of what was dropped stays
		statements = append(statements, db.Statement{SQL: removeCheckpointsSQL, Args: []any{gone.last}, N: &n}, db.Statement{SQL: removeCosignedSQL, Args: []any{gone.last}})
	}
	err = l.c.DB.WriteUnsynced(ctx, func(ctx context.Context, t *db.Tx) error { return t.Batch(ctx, statements) })
	return n > 0, err
}
