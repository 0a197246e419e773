package db

import "context"

// Rows is what a query gives. It is what database/sql and pgx have in common.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// Querier runs single statements, inside a transaction or outside.
type Querier interface {
	// Exec gives how many rows the statement affected.
	Exec(ctx context.Context, sql string, args ...any) (int64, error)
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
	// Batch runs statements in order; PostgreSQL gets them in one round trip.
	// It stops at the first that fails.
	Batch(ctx context.Context, statements []Statement) error
}

// Statement is one of a batch.
type Statement struct {
	SQL  string
	Args []any
	Row  func(Rows) error // called for each row; nil: the statement gives none
	N    *int64           // if not nil: gets how many rows it affected
}

// backend is one kind of database, open.
type backend interface {
	Querier // reads outside a transaction
	// Write runs fn in a transaction and returns after a durable commit. fn
	// may run more than once and must start afresh each time; what it leaves
	// in variables counts only where Write gives nil.
	Write(ctx context.Context, fn func(ctx context.Context, t *Tx) error) error
	// WriteUnsynced is Write for what a loss of power may undo: SQLite does not
	// wait for the disk. What it wrote outlives the process at once, and the
	// machine from the next Write on.
	WriteUnsynced(ctx context.Context, fn func(ctx context.Context, t *Tx) error) error
	// Ping checks that the database answers.
	Ping(ctx context.Context) error
	// Close ends background work and closes the database. Calls that still wait
	// fail with ErrClosed.
	Close() error
}

// Tx is a transaction.
type Tx struct {
	Querier
	deferred bool        // Later waits for the commit
	later    []Statement // what Later was given
	here     topicSet    // watchers of this node to wake after the commit
	abroad   topicSet    // and those of other nodes
}

// Wake tells the watchers of topic on every node, after the commit.
func (t *Tx) Wake(topic Topic) {
	t.here.add(topic)
	t.abroad.add(topic)
}

// WakeHere tells those of this node: it has the work in its hands already.
func (t *Tx) WakeHere(topic Topic) { t.here.add(topic) }

// Later runs a statement on a row that many transactions want and none should
// hold up to its commit. Where writers run beside each other it runs right after
// the commit, before any watcher is woken, in a transaction that does not wait
// for the disk; a crash in between loses it. Elsewhere it runs at once, as part of t.
func (t *Tx) Later(ctx context.Context, sql string, args ...any) error {
	if !t.deferred {
		_, err := t.Exec(ctx, sql, args...)
		return err
	}
	t.later = append(t.later, Statement{SQL: sql, Args: args})
	return nil
}

// Each calls fn for every row.
func Each(ctx context.Context, q Querier, sql string, args []any, fn func(Rows) error) error {
	r, err := q.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return drain(r, fn)
}

func drain(r Rows, fn func(Rows) error) error {
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

// One scans the first row into dest and reports whether there was one.
func One(ctx context.Context, q Querier, sql string, args []any, dest ...any) (bool, error) {
	found := false
	err := Each(ctx, q, sql, args, func(r Rows) error {
		if found {
			return nil
		}
		found = true
		return r.Scan(dest...)
	})
	return found, err
}
