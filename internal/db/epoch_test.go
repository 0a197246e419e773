package db

import (
	"context"
	"errors"
	"testing"
	"time"
)

// brokenRows is a reading that breaks off before the first row, as where a server stands still.
type brokenRows struct{ err error }

func (brokenRows) Next() bool        { return false }
func (brokenRows) Scan(...any) error { return nil }
func (r brokenRows) Err() error      { return r.err }
func (brokenRows) Close() error      { return nil }

type brokenReads struct {
	Querier
	query, rows error
}

func (q brokenReads) Query(context.Context, string, ...any) (Rows, error) {
	return brokenRows{q.rows}, q.query
}

// TestEpochsThatCannotBeRead: a reading that failed is never taken for a database that was not
// restored, although no row came.
func TestEpochsThatCannotBeRead(t *testing.T) {
	stalled := errors.New("the server stands still")
	for name, q := range map[string]brokenReads{"no answer": {query: stalled}, "no row": {rows: stalled}} {
		e, err := LastEpoch(ctx, q)
		if !errors.Is(err, stalled) || !e.Open() {
			t.Errorf("%s: epoch %d, open %v, %v", name, e.Number, e.Open(), err)
		}
		if open, err := EpochIsOpen(ctx, q); !errors.Is(err, stalled) || !open {
			t.Errorf("%s: open %v, %v", name, open, err)
		}
	}
}

// TestEpochs: an epoch is open until it is reconciled, and the database while any of its epochs is.
func TestEpochs(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		s := openAt(t, url)
		want := func(number int64, open bool) {
			t.Helper()
			if e, err := LastEpoch(ctx, s); err != nil || e.Number != number || e.Open() != open {
				t.Errorf("epoch %d, open %v, %v; want %d, %v", e.Number, e.Open(), err, number, open)
			}
		}
		begin := func() int64 {
			t.Helper()
			e := must(s.BeginEpoch(ctx, nil, 0, MillisOf(time.Now()), func(context.Context, *Tx, Epoch) error { return nil }))(t)
			return e.Number
		}
		want(0, false)
		first := begin()
		want(first, true)
		second := begin()
		if second <= first {
			t.Errorf("epoch %d follows %d", second, first)
		}
		exec(t, s, `UPDATE epochs SET reconciled = 1 WHERE number = $1`, second)
		want(second, true)
		ok(t, s.Write(ctx, func(ctx context.Context, x *Tx) error {
			_, err := Reconcile(ctx, x, 2)
			return err
		}))
		want(second, false)
	})
}
