package db

import "context"

const (
	endSessionSQL    = `INSERT INTO ended_sessions (id, until) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	forgetSessionSQL = `DELETE FROM ended_sessions WHERE until < $1`
	sessionEndedSQL  = `SELECT 1 FROM ended_sessions WHERE id = $1`
)

// EndSession records that a browser's session was ended. It keeps the record until the session would have ended by
// itself, and deletes records of sessions that have. It reports whether this is the first call for the session on any
// node.
func (d *DB) EndSession(ctx context.Context, id string, now, until Millis) (first bool, err error) {
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		var n int64
		err := t.Batch(ctx, []Statement{{SQL: forgetSessionSQL, Args: []any{int64(now)}},
			{SQL: endSessionSQL, Args: []any{id, int64(until)}, N: &n}})
		first = n == 1
		return err
	})
	return first, err
}

// SessionEnded reports whether EndSession ended the session.
func (d *DB) SessionEnded(ctx context.Context, id string) (bool, error) {
	var is int
	return One(ctx, d, sessionEndedSQL, []any{id}, &is)
}
