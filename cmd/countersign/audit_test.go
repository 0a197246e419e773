package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExportsAreAcknowledged: each export begins after the last one that was acknowledged,
// and none is acknowledged that is not whole.
func TestExportsAreAcknowledged(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0", "--retain", "90d")
	at := []string{"--api", d.url, "--data", data}
	ask := func(args ...string) string {
		t.Helper()
		status, out, errOut := shell(t, "", append(args, at...)...)
		if status != exitDone {
			t.Fatalf("%q: %s", args, errOut)
		}
		return out
	}
	key := strings.TrimSpace(ask("audit", "key"))
	path := filepath.Join(dir, "export")
	export := func() string {
		t.Helper()
		text := ask("audit", "export", "--new")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return text
	}
	first := export()
	if !strings.Contains(first, `"retain":"2160h0m0s"`) {
		t.Errorf("the log does not tell of the setting: %s", first)
	}
	if err := os.WriteFile(path, []byte(first[:len(first)-10]), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errOut := shell(t, "", append([]string{"audit", "acknowledge", path, "--key", key}, at...)...); status == exitDone || !strings.Contains(errOut, "cut off") {
		t.Errorf("an export that is cut off: %d %s", status, errOut)
	}
	if again := export(); !strings.HasPrefix(again, strings.SplitAfter(first, "\n")[0]) {
		t.Errorf("the export does not begin where the first did: %s", again)
	}
	if out := ask("audit", "acknowledge", path, "--key", key); !strings.HasPrefix(out, "records up to 2 are exported") {
		t.Errorf("acknowledged: %s", out)
	}
	if next := export(); !strings.Contains(next, `"first":3`) || !strings.Contains(next, `"kind":"audit.exported"`) {
		t.Errorf("the next export: %s", next)
	}
	mustShell(t, nil, "", "audit", "verify", path, "--key", key)
}
