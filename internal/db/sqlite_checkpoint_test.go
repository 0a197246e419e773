package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// TestLogBeginsAnew: the log is copied beside the writer, and does not grow for
// as long as the writer has something to write.
func TestLogBeginsAnew(t *testing.T) {
	path := dbtest.SQLite(t)
	logBeginsAnew(t, path, openAt(t, path))
}

// TestStalledReader: a reader that goes no further is ended, and the log does not grow
// behind it.
func TestStalledReader(t *testing.T) {
	path := dbtest.SQLite(t)
	s := openAt(t, path)
	s.backend.(*sqliteDB).readMost = 100 * time.Millisecond
	keep(t, s, "a")
	keep(t, s, "b")
	rows := must(s.Query(ctx, `SELECT name FROM things`))(t)
	defer rows.Close()
	if !rows.Next() && !errors.Is(rows.Err(), context.DeadlineExceeded) { // a slow machine is late here already
		t.Fatal(rows.Err())
	}
	logBeginsAnew(t, path, s)
	if rows.Next() || !errors.Is(rows.Err(), context.DeadlineExceeded) {
		t.Errorf("the reader goes on: %v", rows.Err())
	}
}

func logBeginsAnew(t *testing.T, path string, s *DB) {
	t.Helper()
	look := must(openSQLiteConn(ctx, s.dialect, "file:"+path))(t)
	t.Cleanup(func() { look.close() })
	things := NewInsert(`INSERT INTO things (name, content) VALUES ($1, $2)`, 100, 10)
	most, grown := 0, 0 // pages seen after a round, and the most that a round added
	for round := 0; ; round++ {
		ok(t, s.Write(ctx, func(ctx context.Context, x *Tx) error {
			var args []any
			for i := range 200 {
				args = append(args, fmt.Sprintf("%d-%d", i*7919%1000, 200*round+i), strings.Repeat("x", 400))
			}
			return x.Batch(ctx, things.Statements(args, nil))
		}))
		var busy, size, copied int
		must(One(ctx, look, "PRAGMA wal_checkpoint(NOOP)", nil, &busy, &size, &copied))(t)
		if size < most/2 {
			break // it has begun anew
		}
		if grown = max(grown, size-most); size > most {
			most = size
		}
		if most >= 2*checkpointAt {
			t.Fatalf("the log has %d pages, and was not copied", most)
		}
	}
	if most+grown < checkpointAt { // it may begin anew within a round
		t.Errorf("begun anew after %d pages, want %d at least", most, checkpointAt)
	}
	if file := must(os.Stat(path + "-wal"))(t); file.Size() < int64(most)*4096 {
		t.Errorf("the log's file has %d bytes, with %d pages in it", file.Size(), most)
	}
}
