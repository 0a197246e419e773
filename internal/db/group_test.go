package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"countersign/internal/lab/dbtest"
)

// TestGroupCommit hands the writer a group in which some fail and one panics:
// the others are not disturbed.
func TestGroupCommit(t *testing.T) {
	s := openAt(t, dbtest.SQLite(t))
	exec(t, s, `CREATE TABLE numbers (n INTEGER PRIMARY KEY) STRICT`)
	db := s.backend.(*sqliteDB)
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
		group[i] = &writeRequest{ctx: c, done: make(chan error, 1), fn: func(ctx context.Context, t *Tx) error {
			if _, err := t.Exec(ctx, `INSERT INTO numbers (n) VALUES ($1)`, i); err != nil {
				return err
			}
			switch i % 8 {
			case 3:
				return stop
			case 4:
				panic("oh")
			case 6: // fails in the database
				_, err := t.Exec(ctx, `INSERT INTO numbers (n) VALUES ($1)`, i)
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
		kept, readErr := One(ctx, s, `SELECT n FROM numbers WHERE n = $1`, []any{i}, &n)
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
	<-db.copied
	db.writeGroup(group)
	// As before, so that the test's end can close it.
	db.closing, db.closed, db.copied = make(chan struct{}), make(chan struct{}), make(chan struct{})
	go db.run()
	go db.copyLog()
}

// TestWholeGroupLost: a request that loses the whole transaction, as SQLite does when a disk is full, loses no other:
// who is told that something was done has it.
func TestWholeGroupLost(t *testing.T) {
	s := openAt(t, dbtest.SQLite(t))
	db := s.backend.(*sqliteDB)
	group := make([]*writeRequest, 7)
	for i := range group {
		group[i] = &writeRequest{ctx: ctx, done: make(chan error, 1), fn: func(ctx context.Context, t *Tx) error {
			if i == 3 {
				t.Exec(ctx, "ROLLBACK")
				return errors.New("disk full")
			}
			_, err := t.Exec(ctx, `INSERT INTO things (name, content) VALUES ($1, '')`, fmt.Sprint(i))
			return err
		}}
	}
	runGroup(db, group)
	for i, r := range group {
		var name string
		kept := must(One(ctx, s, `SELECT name FROM things WHERE name = $1`, []any{fmt.Sprint(i)}, &name))(t)
		if err := <-r.done; (err == nil) != (i != 3) || kept != (i != 3) {
			t.Errorf("%d: %v, kept %v", i, err, kept)
		}
	}
}

// TestGroupSync: a group waits for the disk if one of it asks for that, and only
// claims of the notify lane do not.
func TestGroupSync(t *testing.T) {
	s := openAt(t, dbtest.SQLite(t))
	db := s.backend.(*sqliteDB)
	asked := 0
	synchronous := func(ctx context.Context, t *Tx) (level int64, err error) {
		asked++ // SQLite answers while it prepares: each time another text
		_, err = One(ctx, t, fmt.Sprintf("PRAGMA synchronous -- %d", asked), nil, &level)
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
			group[i] = &writeRequest{ctx: ctx, done: make(chan error, 1), unsynced: u, fn: func(ctx context.Context, t *Tx) error {
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
}
