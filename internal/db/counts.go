package db

import (
	"cmp"
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

// Count changes the stored count name by n as part of t. A single writer adds up the changes of the transactions that
// it commits together. With concurrent writers, the next batch of t takes them along.
func (t *Tx) Count(name string, n int64) {
	if t.counts == nil {
		t.counts = map[string]int64{}
	}
	t.counts[name] += n
}

// Batch runs statements as Querier.Batch does, with concurrent writers together with the counts that changed until now.
func (t *Tx) Batch(ctx context.Context, statements []Statement) error {
	if t.concurrent {
		statements = append(t.takeCounts(), statements...)
	}
	return t.Querier.Batch(ctx, statements)
}

// takeCounts returns the statements that write what Count has collected.
func (t *Tx) takeCounts() (list []Statement) {
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		if n := t.counts[name]; n != 0 {
			list = append(list, Statement{SQL: addCountSQL, Args: []any{name, n}})
		}
	}
	clear(t.counts)
	return list
}

// finish writes the counts and records of a transaction at its end.
func (t *Tx) finish(ctx context.Context, end End) error {
	err := t.Querier.Batch(ctx, t.takeCounts())
	if err != nil || len(t.records) == 0 || end.Keep == nil {
		return err
	}
	return end.Keep(ctx, t, t.records)
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
		for name, n := range sums {
			t.Count(name, n)
		}
		return nil
	})
}

// A feed is a table whose rows are numbered without gaps, in the order in which their transactions commit. Its last
// number is a row of the table feeds. A transaction that takes the next number waits for the commit of the
// transaction that took the previous one. So a transaction takes its numbers last, and all transactions take the
// numbers of several feeds in the same order.
const (
	lockFeedSQL  = `SELECT last_seq FROM feeds WHERE name = $1{lock}`
	writeFeedSQL = `UPDATE feeds SET last_seq = $2 WHERE name = $1`
	feedEndSQL   = `SELECT last_seq FROM feeds WHERE name = $1`
	lastSeqsSQL  = `SELECT name, last_seq FROM feeds`
)

// LockFeed returns the last number of a feed and keeps the feed locked until t ends.
func LockFeed(ctx context.Context, t *Tx, feed string) (seq int64, err error) {
	_, err = One(ctx, t, lockFeedSQL, []any{feed}, &seq)
	return seq, err
}

// EndFeed returns the statement that stores seq as the last number of a feed that t has locked.
func EndFeed(feed string, seq int64) Statement {
	return Statement{SQL: writeFeedSQL, Args: []any{feed, seq}}
}

// FeedEnd returns the last number of a feed.
func FeedEnd(ctx context.Context, q Querier, feed string) (seq int64, err error) {
	_, err = One(ctx, q, feedEndSQL, []any{feed}, &seq)
	return seq, err
}

// LastSeqs returns the last number of each feed.
func LastSeqs(ctx context.Context, q Querier) (map[string]int64, error) {
	return numbers(ctx, q, lastSeqsSQL)
}

// FeedOf returns the entries of a feed after a number that belong to the given owners, at most limit. read returns
// those of one owner, in order and at most limit. next is the number to continue after. It may be beyond entries of
// other owners, which are left out.
func FeedOf[T any](ctx context.Context, q Querier, feed string, owners []string, after int64, limit int,
	seq func(T) int64, read func(owner string) ([]T, error)) (list []T, next int64, err error) {
	// The end is read first, because an entry that is appended meanwhile may be missing for one owner.
	end, err := FeedEnd(ctx, q, feed)
	if err != nil {
		return nil, after, err
	}
	for _, owner := range owners {
		part, err := read(owner)
		if err != nil {
			return nil, after, err
		}
		list = append(list, part...)
	}
	list = slices.DeleteFunc(list, func(v T) bool { return seq(v) > end })
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(seq(a), seq(b)) })
	if len(list) >= limit {
		list = list[:limit]
		return list, seq(list[limit-1]), nil
	}
	return list, max(after, end), nil
}
