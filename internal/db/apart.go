package db

import "context"

// apartConns is how many connections the reads of DB.Apart have together.
const apartConns = 4

// Apart gives d with separate connections for reads outside transactions; all callers of
// Apart share those few. Whole lists are read on them, so that they never take a
// connection from the work. Transactions still use those of d.
func (d *DB) Apart() *DB {
	a := *d
	a.backend = apart{d.backend, d.backend.views()}
	return &a
}

type apart struct {
	backend
	reads Querier
}

func (a apart) Query(ctx context.Context, sql string, args ...any) (Rows, error) {
	return a.reads.Query(ctx, sql, args...)
}

func (a apart) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	return a.reads.Exec(ctx, sql, args...)
}

func (a apart) Batch(ctx context.Context, statements []Statement) error {
	return a.reads.Batch(ctx, statements)
}
