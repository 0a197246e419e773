package db

import (
	"context"
	"testing"
)

// TestForLists: reads that keep every connection of ForLists keep none of the others, and
// transactions go on.
func TestForLists(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		s := openAt(t, url)
		lists := s.ForLists()
		var open []Rows
		for range listConns {
			r, err := lists.Query(ctx, `SELECT name FROM meta`)
			if err != nil || !r.Next() {
				t.Fatal(err)
			}
			open = append(open, r)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if r, err := lists.Query(gone, `SELECT name FROM meta`); err == nil {
			r.Close()
			t.Error("there is a connection more")
		}
		var name string
		if found, err := One(ctx, s, `SELECT name FROM meta`, nil, &name); err != nil || !found {
			t.Errorf("a read beside: %v", err)
		}
		for _, w := range []*DB{s, lists} {
			if err := w.Write(ctx, func(ctx context.Context, t *Tx) error { return nil }); err != nil {
				t.Errorf("a transaction beside: %v", err)
			}
		}
		for _, r := range open {
			r.Close()
		}
		if _, err := lists.Exec(ctx, `DELETE FROM meta`); err == nil {
			t.Error("a list can write")
		}
	})
}
