package db

import (
	"context"
	"slices"
	"time"
)

// Node is a process that uses a database.
type Node struct {
	ID      string // random, of one run
	Name    string
	Version string
	Started Millis
	Seen    Millis // when it last wrote its row
}

const (
	// NodeSilent is how long after its last row a node counts as silent: it was killed, or cannot reach the database.
	NodeSilent = 30 * time.Second

	// nodeForgotten is how long the row of a silent node is kept, in milliseconds.
	nodeForgotten Millis = 24 * 3_600_000

	beatSQL = `
INSERT INTO nodes (id, name, version, started, seen) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO UPDATE SET seen = excluded.seen`

	forgetNodesSQL = `DELETE FROM nodes WHERE seen < $1`

	leaveSQL = `DELETE FROM nodes WHERE id = $1`

	nodesSQL = `SELECT id, name, version, started, seen FROM nodes ORDER BY name, started, id`
)

// Beat writes the row of a running node. It removes rows of silent nodes after a day, or at once in a database that
// only one process uses at a time. It returns ErrMasterKey if the master key was replaced since the node opened the
// database. Rekey refuses while a node is listed, so after its first Beat a node seals nothing under a replaced key.
func (d *DB) Beat(ctx context.Context, n Node) error {
	before := n.Seen - nodeForgotten
	if !d.dialect.Shared {
		before = n.Seen
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		err := t.Batch(ctx, []Statement{
			{SQL: beatSQL, Args: []any{n.ID, n.Name, n.Version, int64(n.Started), int64(n.Seen)}},
			{SQL: forgetNodesSQL, Args: []any{int64(before)}},
		})
		if err != nil {
			return err
		}
		return d.key.Opens(ctx, t)
	})
}

// LeaveNode deletes the row of a node that stops.
func (d *DB) LeaveNode(ctx context.Context, id string) error {
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		_, err := t.Exec(ctx, leaveSQL, id)
		return err
	})
}

// Nodes returns the nodes of the database by name, including silent ones. It leaves out a silent node if another node
// of the same name started after it was last seen.
func (d *DB) Nodes(ctx context.Context, now Millis) ([]Node, error) {
	list, err := readNodes(ctx, d)
	all := slices.Clone(list)
	return slices.DeleteFunc(list, func(n Node) bool {
		return n.Silent(now) && slices.ContainsFunc(all, func(m Node) bool {
			return m.ID != n.ID && m.Name == n.Name && m.Started > n.Seen
		})
	}), err
}

// Silent reports whether n was killed or cannot reach the database.
func (n Node) Silent(now Millis) bool { return now-n.Seen >= Millis(NodeSilent.Milliseconds()) }

func readNodes(ctx context.Context, q Querier) ([]Node, error) {
	return List(ctx, q, nodesSQL, nil, func(r Rows) (n Node, err error) {
		err = r.Scan(&n.ID, &n.Name, &n.Version, &n.Started, &n.Seen)
		return n, err
	})
}

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
	return One(ctx, d, sessionEndedSQL, []any{id})
}
