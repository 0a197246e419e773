package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"countersign/internal/store/storetest"
)

// TestGroupCommit hands the writer a group in which some fail and one panics:
// the others are not disturbed.
func TestGroupCommit(t *testing.T) {
	s := openAt(t, storetest.SQLite(t))
	exec(t, s, `CREATE TABLE things (n INTEGER PRIMARY KEY) STRICT`)
	db := s.db.(*sqliteDB)
	stop := errors.New("stop")
	gone, leave := context.WithCancel(ctx)
	leave()
	const callers = 40
	errs := make([]error, callers)
	group := make([]*writeRequest, callers)
	for i := range callers {
		c := ctx
		if i%8 == 5 {
			c = gone
		}
		group[i] = &writeRequest{ctx: c, done: make(chan error, 1), fn: func(ctx context.Context, t *tx) error {
			if _, err := t.exec(ctx, `INSERT INTO things (n) VALUES ($1)`, i); err != nil {
				return err
			}
			switch i % 8 {
			case 3:
				return stop
			case 4:
				panic("oh")
			case 6: // fails in the database
				_, err := t.exec(ctx, `INSERT INTO things (n) VALUES ($1)`, i)
				return err
			}
			return nil
		}}
	}
	runGroup(db, group)
	for i, r := range group {
		errs[i] = <-r.done
	}
	for i, err := range errs {
		var n int
		kept, readErr := one(ctx, s.db, `SELECT n FROM things WHERE n = $1`, []any{i}, &n)
		if readErr != nil {
			t.Fatal(readErr)
		}
		switch i % 8 {
		case 3:
			if !errors.Is(err, stop) || kept {
				t.Errorf("%d: %v, kept %v", i, err, kept)
			}
		case 4:
			if err == nil || !strings.Contains(err.Error(), "panic") || kept {
				t.Errorf("%d: %v, kept %v", i, err, kept)
			}
		case 5:
			if !errors.Is(err, context.Canceled) || kept {
				t.Errorf("%d: %v, kept %v", i, err, kept)
			}
		case 6:
			if err == nil || kept {
				t.Errorf("%d: %v, kept %v", i, err, kept)
			}
		default:
			if err != nil || !kept {
				t.Errorf("%d: %v, kept %v", i, err, kept)
			}
		}
	}
}

// runGroup stops the writer, commits group in its place and starts it again.
func runGroup(db *sqliteDB, group []*writeRequest) {
	close(db.closing)
	<-db.closed
	db.writeGroup(group)
	// As before, so that the test's end can close it.
	db.closing, db.closed = make(chan struct{}), make(chan struct{})
	go db.run()
}

// TestWholeGroupLost: where the transaction itself is lost, nobody is told that
// something was done.
func TestWholeGroupLost(t *testing.T) {
	s := openAt(t, storetest.SQLite(t))
	exec(t, s, `CREATE TABLE things (n INTEGER PRIMARY KEY) STRICT`)
	db := s.db.(*sqliteDB)
	group := make([]*writeRequest, 3)
	for i := range group {
		group[i] = &writeRequest{ctx: ctx, done: make(chan error, 1), fn: func(ctx context.Context, t *tx) error {
			if i == 1 { // as SQLite itself does when a disk is full
				t.exec(ctx, "ROLLBACK")
				return fmt.Errorf("disk full")
			}
			_, err := t.exec(ctx, `INSERT INTO things (n) VALUES ($1)`, i)
			return err
		}}
	}
	runGroup(db, group)
	for i, r := range group {
		if err := <-r.done; err == nil {
			t.Errorf("%d was said to be done", i)
		}
	}
	var n int
	if found, err := one(ctx, s.db, `SELECT n FROM things`, nil, &n); found || err != nil {
		t.Errorf("kept %d, %v", n, err)
	}
}

// TestCallerGone: a caller that gives up while others are at work has changed
// nothing.
func TestCallerGone(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			s := openAt(t, d.url(t))
			addMerchants(t, s, 1, nil)
			gone, leave := context.WithCancel(ctx)
			leave()
			if _, err := s.Ingest(gone, []NewCallback{deposit("m0", "a", 1)}, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if list, _, err := s.Callbacks(ctx, CallbackFilter{}, 10, ""); err != nil || len(list) != 0 {
				t.Errorf("%d are there, %v", len(list), err)
			}
		})
	}
}

// TestGroupSync: a group waits for the disk if one of it asks for that, and only
// claims of the notify lane do not.
func TestGroupSync(t *testing.T) {
	s := openAt(t, storetest.SQLite(t))
	db := s.db.(*sqliteDB)
	asked := 0
	synchronous := func(ctx context.Context, t *tx) (level int64, err error) {
		asked++ // SQLite answers while it prepares: each time another text
		_, err = one(ctx, t, fmt.Sprintf("PRAGMA synchronous -- %d", asked), nil, &level)
		return level, err
	}
	const normal, full = 1, 2
	for _, c := range []struct {
		unsynced []bool
		want     int64
	}{
		{[]bool{false}, full}, {[]bool{true}, normal}, {[]bool{true, true}, normal}, {[]bool{true, false}, full},
		{[]bool{true}, normal}, {[]bool{false, true, true}, full}, {[]bool{false}, full},
	} {
		var got []int64
		group := make([]*writeRequest, len(c.unsynced))
		for i, u := range c.unsynced {
			group[i] = &writeRequest{ctx: ctx, done: make(chan error, 1), unsynced: u, fn: func(ctx context.Context, t *tx) error {
				level, err := synchronous(ctx, t)
				got = append(got, level)
				return err
			}}
		}
		runGroup(db, group)
		for i, r := range group {
			if err := <-r.done; err != nil || got[i] != c.want {
				t.Errorf("%v: %d, %v, want %d", c.unsynced, got, err, c.want)
			}
		}
	}

	// What each call asks for, by what its commit left behind.
	level := func(what string, call func() error) int64 {
		t.Helper()
		if err := call(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if db.unsynced {
			return normal
		}
		return full
	}
	addMerchants(t, s, 1, nil)
	if got := level("ingest", func() error { _, err := s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1)}, 1); return err }); got != full {
		t.Errorf("ingest: %d", got)
	}
	claim := ClaimRequest{Lane: LaneNotify, Node: "n", Now: 1, LeaseUntil: 60_001, Max: 5}
	var claimed []Claimed
	if got := level("claim", func() (err error) { claimed, err = s.Claim(ctx, claim); return err }); got != normal || len(claimed) != 1 {
		t.Fatalf("a claim of the notify lane: %d, %v", got, claimed)
	}
	if got := level("settle", func() error { _, err := s.Settle(ctx, []Settlement{settlementOf(claimed[0])}, 2); return err }); got != full {
		t.Errorf("settle: %d", got)
	}
	claim.Lane = LaneWithdraw
	if got := level("claim", func() error { _, err := s.Claim(ctx, claim); return err }); got != full {
		t.Errorf("a claim of the withdraw lane: %d", got)
	}
}
