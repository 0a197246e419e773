package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"countersign/internal/lab/dbtest"
)

// TestGroupCommit hands the writer a group in which some fail, panic or lose the whole transaction: the others are not
// disturbed, and who is told that something was done has it.
func TestGroupCommit(t *testing.T) {
	s := openAt(t, dbtest.SQLite(t))
	exec(t, s, `CREATE TABLE numbers (n INTEGER PRIMARY KEY) STRICT`)
	db := s.backend.(*sqliteDB)
	stop, lost := errors.New("stop"), errors.New("disk full")
	gone, leave := context.WithCancel(ctx)
	leave()
	group := make([]*writeRequest, 40)
	for i := range group {
		c := ctx
		if i%8 == 5 {
			c = gone
		}
		group[i] = &writeRequest{ctx: c, done: make(chan error, 1), fn: func(ctx context.Context, t *Tx) error {
			if _, err := t.Exec(ctx, `INSERT INTO numbers (n) VALUES ($1)`, i); err != nil {
				return err
			}
			switch i % 8 {
			case 2: // loses the whole transaction, as SQLite does when a disk is full
				_, err := t.Exec(ctx, "ROLLBACK")
				return errors.Join(err, lost)
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
	wants := map[int]error{2: lost, 3: stop, 5: context.Canceled}
	for i, r := range group {
		var n int
		kept := must(One(ctx, s, `SELECT n FROM numbers WHERE n = $1`, []any{i}, &n))(t)
		err := <-r.done
		fails := i%8 >= 2 && i%8 <= 6
		if kept == fails || fails != (err != nil) || !errors.Is(err, wants[i%8]) && wants[i%8] != nil || i%8 == 4 && !strings.Contains(err.Error(), "panic") {
			t.Errorf("%d: %v, kept %v", i, err, kept)
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
