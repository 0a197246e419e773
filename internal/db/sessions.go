package db

import "context"

const (
	endSessionSQL    = `INSERT INTO ended_sessions (id, until) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	forgetSessionSQL = `DELETE FROM ended_sessions WHERE until < $1`
	sessionEndedSQL  = `SELECT 1 FROM ended_sessions WHERE id = $1`
)

// EndSession remembers that a browser's session was ended, until the time at which it ends
// by itself. It forgets the sessions whose time has come.
func (d *DB) EndSession(ctx context.Context, id string, now, until Millis) error {
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		if _, err := t.Exec(ctx, forgetSessionSQL, int64(now)); err != nil {
			return err
		}
		_, err := t.Exec(ctx, endSessionSQL, id, int64(until))
		return err
	})
}

// EndOnce is EndSession that reports whether nobody has ended it before, on any node.
func (d *DB) EndOnce(ctx context.Context, id string, now, until Millis) (first bool, err error) {
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		if _, err := t.Exec(ctx, forgetSessionSQL, int64(now)); err != nil {
			return err
		}
		n, err := t.Exec(ctx, endSessionSQL, id, int64(until))
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
