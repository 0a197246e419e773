package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/countersigntest"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// TestCheckStart: --check says what a start would do, does nothing, and its exit status says
// whether the start would succeed.
func TestCheckStart(t *testing.T) {
	t.Parallel()
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	data := filepath.Join(t.TempDir(), "data")
	check := func(want int, texts ...string) {
		t.Helper()
		status, out, errOut := shell(t, "", "serve", "--check", "--data", data, "--listen", "127.0.0.1:0")
		if status != want || !json.Valid([]byte(out)) {
			t.Errorf("status %d: %s%s", status, out, errOut)
		}
		for _, text := range texts {
			if !strings.Contains(out, text) {
				t.Errorf("it does not say %q: %s", text, out)
			}
		}
	}
	check(exitDone, "data would be made", "its tables would be made", "master.key would be made", "is free")
	if _, err := os.Stat(data); err == nil {
		t.Error("it has made the data directory")
	}
	d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0")
	check(exitDone, "the daemon at "+d.url+" has it and runs")
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
}

// TestFailedStartAsJSON: with --log-format json, whatever ends a start is a line of JSON:
// who collects the log reads nothing else.
func TestFailedStartAsJSON(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := file("key", countersigntest.NewService(t).MerchantKey().PublicBase64(), 0o664)
	config := file("settings.toml", "[serve]\nlog-format = \"json\"\nlisten = \"nonsense\"\n", 0o600)
	for _, c := range []struct {
		args []string
		want string // in the last line
	}{
		{[]string{"gateway", "--log-format", "json"}, "--service-key is missing"},
		{[]string{"gateway", "--log-format=json", "--nonsense"}, "unknown flag --nonsense"},
		{[]string{"gateway", "--log-format", "json", "--service-key", key}, "--api-key is missing"},
		{[]string{"gateway", "--log-format", "json", "--service-key", key, "--api-key", "k", "--policy", filepath.Join(dir, "none")}, "can be read by others"},
		{[]string{"gateway", "--log-format", "json", "--learn", "--service-key", "none", "--api-key", "k"}, "none"},
		{[]string{"serve", "--config", config, "--data", filepath.Join(dir, "data")}, "listening on nonsense"},
		{[]string{"relay", "run", "--log-format", "json", "--from", "nonsense", "--data", dir}, ""},
	} {
		status, _, errOut := shell(t, "", c.args...)
		var last struct{ Level, Msg, Error string }
		for line := range strings.Lines(errOut) {
			last.Level, last.Msg, last.Error = "", "", ""
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Errorf("%v: %q is no JSON", c.args, line)
			}
		}
		if status == exitDone || last.Level != "ERROR" || last.Msg != "stopped by an error" || last.Error == "" || !strings.Contains(last.Error, c.want) {
			t.Errorf("%v: status %d, ends with %+v, want %q", c.args, status, last, c.want)
		}
	}
}
