package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

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
		// It fits the data directory: a start takes it for the database that was there.
		d = must(Storage{Dir: dir, DB: to}.open(t.Context(), slog.New(slog.DiscardHandler), endOf(gateway)))
		ok(t, d.Close())
	}
}
