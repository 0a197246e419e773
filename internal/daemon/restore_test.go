package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// serviceIn is the database of a service in dir.
func serviceIn(dir string) Place {
	return Place{Storage: Storage{Dir: dir}, Log: slog.New(slog.DiscardHandler)}
}

// once starts a service in dir, raises an alarm in its database, and stops it.
func once(t *testing.T, dir string, alarm client.AlarmKind) error {
	t.Helper()
	s := serviceAt(dir)
	if err := s.Open(t.Context()); err != nil {
		return err
	}
	if alarm != "" {
		if err := s.Outbox().RaiseAlarm(t.Context(), client.Alarm{Kind: alarm, First: db.MillisOf(time.Now())}); err != nil {
			t.Error(err)
		}
		if err := s.journal.Started(t.Context(), nil); err != nil { // Run does it, where it is not stopped before
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return s.Run(ctx)
}

// A database that is put back by hand is refused; restored, it goes on, in an epoch
// that is later than every one that was in use here.
func TestRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, backup, byHand := filepath.Join(dir, DatabaseFile), filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "copy")
	ok(t, once(t, dir, "first"))
	held, err := Backup(t.Context(), dir, backup)
	if err != nil || held.End != "service" || held.Feeds["alarms"] != 1 {
		t.Fatalf("%+v, %v", held, err)
	}
	whole := must(os.ReadFile(file))
	ok(t, os.WriteFile(byHand, whole, 0o600))
	ok(t, once(t, dir, "second"))
	for name, from := range map[string]string{"a copy": byHand, "a backup": backup} {
		b := must(os.ReadFile(from))
		ok(t, os.WriteFile(file, b, 0o600))
		if err := once(t, dir, ""); !errors.Is(err, ErrOlder) {
			t.Errorf("%s put back by hand: %v", name, err)
		}
	}
	if _, err := serviceIn(dir).Restore(t.Context(), backup, false); err == nil {
		t.Error("a database was replaced unasked")
	}
	last := int64(0)
	for range 3 { // the same backup again
		r := must(serviceIn(dir).Restore(t.Context(), backup, true))
		if r.Epoch <= last || r.Ends["alarms"] != 1 {
			t.Errorf("restored %+v after epoch %d", r, last)
		}
		last = r.Epoch
		if _, err := os.Stat(r.Kept); err != nil {
			t.Error(err)
		}
		if err := once(t, dir, "third"); err != nil {
			t.Error(err)
		}
	}
	ok(t, os.Remove(filepath.Join(dir, MasterKeyFile)))
	if _, err := serviceIn(dir).Restore(t.Context(), backup, true); !errors.Is(err, ErrNoMasterKey) {
		t.Errorf("without the master key: %v", err)
	}
	if left, _ := filepath.Glob(file + ".restoring*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestAnotherLog: a database whose log was begun anew, with a key of its own, does not pass as the one
// that was in use.
func TestAnotherLog(t *testing.T) {
	dir := t.TempDir()
	ok(t, once(t, dir, "first"))
	dbtest.Exec(t, filepath.Join(dir, DatabaseFile), `DELETE FROM audit_key`)
	if err := once(t, dir, ""); !errors.Is(err, db.ErrAnother) || !strings.Contains(err.Error(), CheckpointFile) {
		t.Errorf("a log with another key: %v", err)
	}
	ok(t, os.Remove(filepath.Join(dir, CheckpointFile)))
	if err := once(t, dir, "second"); err != nil {
		t.Errorf("where it is meant: %v", err)
	}
}
