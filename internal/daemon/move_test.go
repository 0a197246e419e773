package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// TestMoveBrokenOff: a move that ends before the commit leaves an empty target, and one that ends
// before the file has its other name is finished by the next; nothing is copied twice.
func TestMoveBrokenOff(t *testing.T) {
	t.Parallel()
	for _, gateway := range []bool{false, true} {
		dir, to := filepath.Join(t.TempDir(), "data"), dbtest.Postgres(t)
		d := must(Storage{Dir: dir}.open(t.Context(), slog.New(slog.DiscardHandler), endOf(gateway)))
		ok(t, d.Close())
		p := Place{Storage: Storage{Dir: dir, DB: to}, Gateway: gateway, Log: slog.New(slog.DiscardHandler)}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := p.Move(ended); err == nil {
			t.Error("a move without time was made")
		}
		func() {
			defer func() { _ = recover() }()
			broken := p
			broken.step = func(string) { panic("killed") }
			_, err := broken.Move(t.Context())
			t.Errorf("it was not broken off: %v", err)
		}()
		must(os.Stat(filepath.Join(dir, DatabaseFile)))
		first, err := p.Move(t.Context())
		if err != nil || first.Rows == 0 {
			t.Fatalf("%+v, %v", first, err)
		}
		again := func() (m MovedDatabase, err error) {
			file := filepath.Join(dir, DatabaseFile)
			ok(t, os.Rename(file+".moved", file))
			return p.Move(t.Context())
		}
		if second, err := again(); err != nil || second.Digest != first.Digest {
			t.Errorf("the same rows again: %+v, %v", second, err)
		}
		// It fits the data directory: a start takes it for the database that was there.
		d = must(Storage{Dir: dir, DB: to}.open(t.Context(), slog.New(slog.DiscardHandler), endOf(gateway)))
		must(d.Exec(t.Context(), `UPDATE feeds SET last_seq = last_seq + 1 WHERE name = 'alarms'`))
		ok(t, d.Close())
		// As many rows as in the file, and one of them is another.
		if _, err := again(); !errors.Is(err, db.ErrTargetUsed) {
			t.Errorf("another row was taken for that of the file: %v", err)
		}
	}
}
