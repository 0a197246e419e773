package store

import "context"

// rows is what database/sql and pgx have in common.
type rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// querier runs single statements, inside a transaction or outside.
type querier interface {
	exec(ctx context.Context, sql string, args ...any) (int64, error)
	query(ctx context.Context, sql string, args ...any) (rows, error)
	// batch runs statements in order; PostgreSQL gets them in one round trip.
	// It stops at the first that fails.
	batch(ctx context.Context, statements []statement) error
}

// statement is one of a batch.
type statement struct {
	sql  string
	args []any
	row  func(rows) error // called for each row; nil: the statement gives none
	n    *int64           // if not nil: gets how many rows it affected
}

// backend is an open database.
type backend interface {
	querier // reads outside a transaction
	// write runs fn in a transaction and returns after a durable commit. fn
	// may run more than once and must start afresh each time; what it leaves
	// in variables counts only where write gives nil.
	write(ctx context.Context, fn func(ctx context.Context, t *tx) error) error
	// writeUnsynced is write for what a loss of power may undo: SQLite does not
	// wait for the disk. What it wrote outlives the process at once, and the
	// machine from the next write on.
	writeUnsynced(ctx context.Context, fn func(ctx context.Context, t *tx) error) error
	ping(ctx context.Context) error
	close() error
}

// tx is a transaction.
type tx struct {
	querier
	here    [topics]bool // watchers of this node to wake after the commit
	abroad  [topics]bool // and those of other nodes
	touches []touch      // work to be told of after the commit, with PostgreSQL
}

// wake tells the watchers of topic on every node, after the commit.
func (t *tx) wake(topic Topic) { t.here[topic], t.abroad[topic] = true, true }

// wakeHere tells those of this node: it has the work in its hands already.
func (t *tx) wakeHere(topic Topic) { t.here[topic] = true }

// touch is work that an ingest adds to a lane.
type touch struct {
	merchant string
	lane     Lane
	due      Millis
}

// each calls fn for every row.
func each(ctx context.Context, q querier, sql string, args []any, fn func(rows) error) error {
	r, err := q.query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return drain(r, fn)
}

func drain(r rows, fn func(rows) error) error {
	for r.Next() {
		if err := fn(r); err != nil {
			r.Close()
			return err
		}
	}
	err := r.Err()
	if closing := r.Close(); err == nil {
		err = closing
	}
	return err
}

// one scans the first row into dest and reports whether there was one.
func one(ctx context.Context, q querier, sql string, args []any, dest ...any) (bool, error) {
	found := false
	err := each(ctx, q, sql, args, func(r rows) error {
		if found {
			return nil
		}
		found = true
		return r.Scan(dest...)
	})
	return found, err
}
