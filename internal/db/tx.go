package db

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Rows are the rows of a query: the methods that database/sql and pgx share.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// Querier runs single statements, inside a transaction or outside.
type Querier interface {
	// Exec returns the number of rows that the statement affected.
	Exec(ctx context.Context, sql string, args ...any) (int64, error)
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
	// Batch runs statements in order and stops at the first that fails. PostgreSQL gets them in one round trip.
	Batch(ctx context.Context, statements []Statement) error
}

// Statement is one statement of a batch.
type Statement struct {
	SQL  string
	Args []any
	Row  func(Rows) error // called for each row; nil: the statement returns none
	N    *int64           // if not nil, set to the number of affected rows
}

// backend is an open database of one kind.
type backend interface {
	Querier // reads outside a transaction
	work
}

// work is all of a backend but its reads.
type work interface {
	// write is DB.Write, or DB.WriteUnsynced.
	write(ctx context.Context, unsynced bool, fn func(ctx context.Context, t *Tx) error) error
	// views returns reads with separate connections; see DB.ForLists.
	views() Querier
	// Ping checks that the database answers.
	Ping(ctx context.Context) error
	// gone returns ErrGone if the database's files were removed or replaced.
	gone() error
	// Close ends background work and closes the database. Waiting calls fail with ErrClosed.
	Close() error
}

// Tx is a transaction.
type Tx struct {
	Querier
	concurrent bool                    // there are concurrent writers
	later      []func(context.Context) // set by Later
	here       topicSet                // watchers of this node to wake after the commit
	abroad     topicSet                // watchers of other nodes to wake, too
	counts     map[string]int64        // changes of stored counts, to be written before the commit
	records    []LogRecord             // records of the audit log, to be written before the commit
}

// Wake wakes the watchers of topic on every node after the commit.
func (t *Tx) Wake(topic Topic) {
	t.here.add(topic)
	t.abroad.add(topic)
}

// WakeHere wakes only this node's watchers of topic, after the commit.
func (t *Tx) WakeHere(topic Topic) { t.here.add(topic) }

// Later calls fn after the commit and before any watcher wakes, if there are concurrent writers. It is for rows that
// many transactions change. If they were changed inside the transaction, they would stay locked until the commit. A
// crash in between loses the call. The context of fn ends after five seconds.
func (t *Tx) Later(fn func(context.Context)) { t.later = append(t.later, fn) }

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

// One scans the first row of a query into dest and reports whether there was one. Without a dest it only reports.
func One(ctx context.Context, q Querier, sql string, args []any, dest ...any) (bool, error) {
	found := false
	err := Each(ctx, q, sql, args, func(r Rows) error {
		first := !found
		found = true
		if !first || len(dest) == 0 {
			return nil
		}
		return r.Scan(dest...)
	})
	return found, err
}

// Find returns the one row of a query. It returns ErrNotFound if there is none.
func Find[T any](ctx context.Context, q Querier, sql string, args []any, scan func(Rows) (T, error)) (v T, err error) {
	found := false
	err = Each(ctx, q, sql, args, func(r Rows) (err error) {
		found = true
		v, err = scan(r)
		return err
	})
	if err == nil && !found {
		err = ErrNotFound
	}
	return v, err
}

// List returns all rows of a query.
func List[T any](ctx context.Context, q Querier, sql string, args []any,
	scan func(Rows) (T, error)) (list []T, err error) {
	err = Each(ctx, q, sql, args, func(r Rows) error {
		v, err := scan(r)
		list = append(list, v)
		return err
	})
	return list, err
}

// EachPage calls fn for each item of all pages of a list. page returns the items after a cursor and the next cursor,
// which is zero at the end.
func EachPage[T any, C comparable](page func(cursor C) (list []T, next C, err error), fn func(T) error) error {
	for cursor, more := *new(C), true; more; more = cursor != *new(C) {
		list, next, err := page(cursor)
		if err != nil {
			return err
		}
		for _, v := range list {
			if err := fn(v); err != nil {
				return err
			}
		}
		cursor = next
	}
	return nil
}

// LogRecord is what a transaction adds to the audit log of its end.
type LogRecord struct {
	Body     []byte   // what is hashed
	Subjects []string // ids by which the record is found
}

// Record adds r to the audit log as part of t. End.Keep stores the records of a transaction right before its commit.
func (t *Tx) Record(r LogRecord) { t.records = append(t.records, r) }

// Insert inserts many rows with few statements, because a statement costs more than a row. It has one prepared
// statement for each size.
type Insert struct {
	params int // of a row
	sizes  []int
	texts  func() []string // by size
}

// NewInsert returns an Insert for text, an INSERT of one row whose parameters are all in VALUES, in order. sizes are
// the other numbers of rows that one statement inserts, the largest first. The texts are made when rows are first
// inserted, so a command that inserts nothing starts without them.
func NewInsert(text string, sizes ...int) *Insert {
	head, tail, _ := strings.Cut(text, "VALUES ")
	row, tail, _ := strings.Cut(tail, ")")
	in := &Insert{params: strings.Count(row, "$"), sizes: append(slices.Clone(sizes), 1)}
	in.texts = sync.OnceValue(func() (texts []string) {
		for _, size := range in.sizes {
			rows := make([]string, size)
			for i := range rows {
				rows[i] = placeholder.ReplaceAllStringFunc(row, func(p string) string {
					k, _ := strconv.Atoi(p[1:])
					return "$" + strconv.Itoa(i*in.params+k)
				}) + ")"
			}
			texts = append(texts, head+"VALUES "+strings.Join(rows, ", ")+tail)
		}
		return texts
	})
	return in
}

// Statements returns as few statements as the sizes allow that insert the rows. args holds the parameters of all
// rows, one row after another.
func (in *Insert) Statements(args []any, row func(Rows) error) []Statement {
	var list []Statement
	for at, size := range in.sizes {
		for k := size * in.params; len(args) >= k; args = args[k:] {
			list = append(list, Statement{SQL: in.texts()[at], Args: args[:k:k], Row: row})
		}
	}
	return list
}
