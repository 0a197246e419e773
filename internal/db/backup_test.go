package db

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// A copy of the file alone is refused, whenever it was made, for a restore too: its log is
// missing. One whose log another program has copied in after a crash is whole, and a backup of a
// crashed one does not copy it in.
func TestCopiedWithoutLog(t *testing.T) {
	path := dbtest.SQLite(t)
	d := openAt(t, path)
	for n, when := range []string{"before the log was copied", "while it is being copied"} {
		fill(t, d, n*fillRows)
		if n == 1 {
			ok(t, d.Write(ctx, markIncomplete(true)))
			dbtest.Query(t, path, `PRAGMA wal_checkpoint(PASSIVE)`)
		}
		alone := dbtest.SQLite(t)
		copyFile(t, path, alone)
		for _, restoring := range []bool{false, true} {
			dbtest.Fails(Open(ctx, Config{URL: alone, Keys: testKeys, Used: true, Restoring: restoring}, testEnd))(t, ErrBroken, "")
		}
		crashed := copied(t, path)
		if _, err := Backup(ctx, crashed, filepath.Join(t.TempDir(), "copy")); err != nil {
			t.Error(err)
		}
		if err := openUsed(t, crashed); err != nil {
			t.Errorf("with its log, %s: %v", when, err)
		}
		if rows := dbtest.Query(t, crashed, `SELECT COUNT(*) FROM things`); rows[0] != fmt.Sprint((n+1)*fillRows) {
			t.Errorf("%s rows", rows)
		}
	}
	ok(t, d.Write(ctx, markIncomplete(false)))
	merged := copied(t, path)
	dbtest.Query(t, merged, `SELECT COUNT(*) FROM things`)
	if _, err := os.Stat(merged + "-wal"); err == nil {
		t.Fatal("the other program left the log")
	}
	if err := openUsed(t, merged); err != nil {
		t.Errorf("another program has copied the log: %v", err)
	}
	ok(t, d.Close())
	if err := openUsed(t, path); err != nil {
		t.Errorf("after a clean end: %v", err)
	}
}

// A backup beside steady writes ends, is as of one moment, is of its owner alone, and
// opens only to be restored.
func TestBackup(t *testing.T) {
	path := dbtest.SQLite(t)
	d := openAt(t, path)
	fill(t, d, 0)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := fillRows; ; i += fillRows {
			select {
			case <-stop:
				return
			default:
				fill(t, d, i)
			}
		}
	})
	to := filepath.Join(t.TempDir(), "copy")
	time.Sleep(50 * time.Millisecond)
	_, err := Backup(ctx, path, to)
	close(stop)
	writers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(ctx, path, to); err == nil {
		t.Error("a backup was overwritten")
	}
	if info := must(os.Stat(to))(t); info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if left := must(filepath.Glob(to + "*"))(t); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	for range 2 {
		if err := openUsed(t, to); !errors.Is(err, ErrOlder) {
			t.Errorf("opened without restoring: %v", err)
		}
	}
	for range 2 { // a restoring that died is done again
		r := must(Open(ctx, Config{URL: to, Keys: testKeys, Used: true, Restoring: true}, testEnd))(t)
		var n, last int
		must(One(ctx, r, `SELECT COUNT(*), MAX(CAST(name AS INTEGER)) FROM things`, nil, &n, &last))(t)
		if n < fillRows || last != n-1 {
			t.Errorf("%d rows up to %d", n, last)
		}
		ok(t, r.Close())
	}
}
