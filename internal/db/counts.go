package db

import (
	"context"
	"maps"
	"slices"
)

// Both ends store counts of rows in the table counts (name, n). Each read of /metrics and of the console's first page
// uses them. COUNT over an index of 200,000 rows took 74 to 147 ms on SQLite and 68 to 116 ms on PostgreSQL, and
// grows with the rows. The stored counts took 0.1 to 1.1 ms.
//
// A count changes in the transaction that changes its rows. It is the sum of its rows in counts. With concurrent
// writers, each transaction inserts a row of its own, because transactions that change the same row would wait for
// each other's commits. FoldCounts replaces many rows by one.
const (
	addCountSQL   = `INSERT INTO counts (name, n) VALUES ($1, $2){adding}`
	readCountsSQL = `SELECT name, n FROM ` + CountsSQL + ` kept`
	manyCountsSQL = `SELECT COUNT(*) FROM (SELECT 1 FROM counts LIMIT 1000) AS found`
	takeCountsSQL = `DELETE FROM counts RETURNING name, n`

	manyCounts = 1000 // rows that FoldCounts replaces
)

// CountsSQL is an item of FROM: the stored counts, as name and n.
const CountsSQL = `(SELECT name, CAST(SUM(n) AS BIGINT) AS n FROM counts GROUP BY name)`

// Counted changes the stored count name by n as part of t. With concurrent writers it appends the statement to list
// and returns it. A single writer instead adds up the changes of the transactions that it commits together.
func (t *Tx) Counted(list []Statement, name string, n int64) []Statement {
	switch {
	case n == 0:
		return list
	case t.deferred:
		return append(list, Statement{SQL: addCountSQL, Args: []any{name, n}})
	}
	t.count(name, n)
	return list
}

// Count is Counted for a caller without a list of statements.
func (t *Tx) Count(ctx context.Context, name string, n int64) error {
	return t.Batch(ctx, t.Counted(nil, name, n))
}

func (t *Tx) count(name string, n int64) {
	if t.counts == nil {
		t.counts = map[string]int64{}
	}
	t.counts[name] += n
}

// writeCounts writes the changes that count has added up.
func (t *Tx) writeCounts(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		if _, err := t.Exec(ctx, addCountSQL, name, t.counts[name]); err != nil {
			return err
		}
	}
	return nil
}

// Counts returns the stored counts.
func Counts(ctx context.Context, q Querier) (map[string]int64, error) {
	return numbers(ctx, q, readCountsSQL)
}

// numbers returns the sums, by name, of the rows (name, number) of the query text.
func numbers(ctx context.Context, q Querier, text string) (map[string]int64, error) {
	sums := map[string]int64{}
	err := Each(ctx, q, text, nil, func(r Rows) error {
		var name string
		var n int64
		err := r.Scan(&name, &n)
		sums[name] += n
		return err
	})
	return sums, err
}

// FoldCounts keeps reads of stored counts cheap although every transaction adds a row. It does nothing while there
// are few rows. Several nodes may call it at once.
func (d *DB) FoldCounts(ctx context.Context) error {
	if !d.dialect.ConcurrentWriters {
		return nil
	}
	var rows int64
	if _, err := One(ctx, d, manyCountsSQL, nil, &rows); err != nil || rows < manyCounts {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		sums, err := numbers(ctx, t, takeCountsSQL)
		if err != nil {
			return err
		}
		var list []Statement
		for _, name := range slices.Sorted(maps.Keys(sums)) {
			list = t.Counted(list, name, sums[name])
		}
		return t.Batch(ctx, list)
	})
}
