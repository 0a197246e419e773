package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"countersign/internal/journal"
)

// answering is a service whose API answers, and which does nothing else.
func answering(t *testing.T, dir string) *Service {
	t.Helper()
	s := serviceAt(dir)
	ok(t, s.Open(t.Context()))
	t.Cleanup(func() { ok(t, s.Close()) })
	run(t, s.api.Run)
	return s
}

// TestUnwritableDirectory: a daemon whose data directory cannot be written is not ready, says why there and in its
// figures, and is ready again when it can.
func TestUnwritableDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := answering(t, dir)
	path := filepath.Join(dir, CheckpointFile)
	inTheWay := func() { // root writes to every directory, but no file takes the place of one that is not empty
		_ = os.Remove(path) // the first may not be there yet
		if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
			t.Error(err)
		}
	}
	away := func() { _ = os.RemoveAll(path) }
	if os.Geteuid() != 0 {
		inTheWay = func() { _ = os.Chmod(dir, 0o500) }
		away = func() { _ = os.Chmod(dir, 0o700) }
	}
	inTheWay()
	defer away()
	is := func(status int, text, figure string) {
		t.Helper()
		must(s.end.c.holdOnce(t.Context(), s.db, s.journal, journal.Held{}))
		if got, body := get(t, s.URL()+"/readyz"); got != status || !strings.Contains(body, text) {
			t.Errorf("/readyz: %d %s, not %d with %q", got, body, status, text)
		}
		if _, figures := get(t, s.URL()+"/metrics"); !strings.Contains(figures, figure) {
			t.Errorf("the figures lack %q", figure)
		}
	}
	is(http.StatusServiceUnavailable, "the data directory cannot be written: ", "\ncountersign_database_writable 0\n")
	away()
	is(http.StatusOK, "ready", "\ncountersign_database_writable 1\n")
	var held journal.Held
	if b, err := os.ReadFile(path); err != nil || json.Unmarshal(b, &held) != nil {
		t.Errorf("the checkpoint is not kept again: %v", err)
	}
}

// TestTakenPort: a start says which daemon has its port, if it is one of this project, and --check says the same; of its
// own daemon that runs --check says so, and checks the rest.
func TestTakenPort(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := answering(t, dir)
	address := strings.TrimPrefix(s.URL(), "http://")
	other := must(NewService(ServiceConfig{Common: Common{Storage: Storage{Dir: filepath.Join(t.TempDir(), "data")}}, Listen: address}))
	want := fmt.Sprintf("a countersign service, version %q, answers at %s", Version, address)
	if err := other.Open(t.Context()); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), want) {
		t.Errorf("the start says %v, not %s", err, want)
	}
	finding := func(list []Finding, what string) Finding {
		for _, f := range list {
			if f.What == what {
				return f
			}
		}
		t.Errorf("nothing is said of %s", what)
		return Finding{}
	}
	if f := finding(other.Check(t.Context()), "api"); f.OK || !strings.Contains(f.Text, want) {
		t.Errorf("--check says %+v", f)
	}
	same := must(NewService(ServiceConfig{Common: Common{Storage: Storage{Dir: dir}}, Listen: address}))
	list := same.Check(t.Context())
	for _, f := range list {
		if !f.OK {
			t.Errorf("of the daemon that runs: %+v", f)
		}
	}
	for what, text := range map[string]string{"database": "the daemon at " + s.URL() + " has it and runs", "api": "is in use, while the daemon at " + s.URL() + " runs", "master key": "fingerprint"} {
		if f := finding(list, what); !strings.Contains(f.Text, text) {
			t.Errorf("%s: %q, not %q", what, f.Text, text)
		}
	}
	// Of a program that is none of ours nothing is said.
	foreign := must(net.Listen("tcp", "127.0.0.1:0"))
	go func() {
		_ = http.Serve(foreign, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"info":{"title":"other"}}`)) }))
	}()
	defer foreign.Close()
	other = must(NewService(ServiceConfig{Common: Common{Storage: Storage{Dir: filepath.Join(t.TempDir(), "data")}}, Listen: foreign.Addr().String()}))
	if err := other.Open(t.Context()); !errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "countersign") {
		t.Errorf("of a foreign program: %v", err)
	}
}
