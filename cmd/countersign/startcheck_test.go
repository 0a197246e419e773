package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/daemon"
)

// TestCheckStart: --check says what a start would do, does nothing, and its exit status says
// whether the start would succeed.
func TestCheckStart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	check := func(want int, texts ...string) {
		t.Helper()
		cmd := rekeyProcess(t)
		cmd.Args = append(cmd.Args[:1], "serve", "--check", "--data", data, "--listen", "127.0.0.1:0")
		out, err := cmd.Output()
		if (err == nil) != (want == exitDone) {
			t.Errorf("%v: %s", err, out)
		}
		var list []daemon.Finding
		if err := json.Unmarshal(out, &list); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, text := range texts {
			if !strings.Contains(string(out), text) {
				t.Errorf("it does not say %q: %s", text, out)
			}
		}
	}
	check(exitDone, "data would be made", "its tables would be made", "master.key would be made", "is free")
	if _, err := os.Stat(data); err == nil {
		t.Error("it has made the data directory")
	}
	d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0")
	check(exitFailed, "in use by another process")
	d.stop(t)
	check(exitDone, "its schema has number", "fingerprint ")
	key := filepath.Join(data, daemon.MasterKeyFile)
	if err := os.Rename(key, key+".away"); err != nil {
		t.Fatal(err)
	}
	check(exitFailed, "the master key of the database is missing")
	if err := os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	check(exitFailed, "the master key does not open this database")
	if _, err := os.Stat(key + ".next"); err == nil {
		t.Error("it has made a key")
	}
}
