package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// shell runs a subcommand in this process as a shell would.
func shell(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	status = run(args, streams{in: strings.NewReader(stdin), out: &out, err: &errOut})
	return status, out.String(), errOut.String()
}

// mustShell is shell for what must succeed; it decodes the JSON answer.
func mustShell(t *testing.T, v any, stdin string, args ...string) {
	t.Helper()
	tellingShell(t, v, stdin, args...)
}

// tellingShell is mustShell that gives what was written to standard error.
func tellingShell(t *testing.T, v any, stdin string, args ...string) string {
	t.Helper()
	status, out, errOut := shell(t, stdin, args...)
	if status != exitDone {
		t.Fatalf("countersign %s: status %d\n%s%s", strings.Join(args, " "), status, out, errOut)
	}
	if v == nil {
		return errOut
	}
	if err := json.Unmarshal([]byte(out), v); err != nil {
		t.Fatalf("countersign %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return errOut
}

// TestServeByHand does what a new user does: start with nothing, make a
// merchant, send a deposit, ask for a withdrawal, look, stop, start again.
func TestServeByHand(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	for _, name := range []string{daemon.MasterKeyFile, tokenFile, daemon.DatabaseFile} {
		info, err := os.Stat(filepath.Join(data, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	secret := adminToken(t, data)
	waitUntil(t, "the name of the first token's file", d.output.String, func() bool {
		return strings.Contains(d.output.String(), "are new here\" file="+filepath.Join(data, tokenFile))
	})
	if out := d.output.String(); strings.Contains(out, secret) {
		t.Errorf("the token is in the log:\n%s", out)
	}
	firstLine := readyLine.FindString(d.output.String())
	if !strings.Contains(firstLine, d.url) || !strings.Contains(firstLine, "database=sqlite version=") {
		t.Errorf("the first log line %q does not name the port and the database", firstLine)
	}
	api := []string{"--api", d.url, "--data", data}

	m := newRecorder(t)
	var made struct{ PublicKey, APIKey, ID, State string }
	mustShell(t, &made, "", append([]string{"merchants", "add", "shop", "key.bits=1024", "apiKey=" + testAPIKey.Reveal(),
		"finalCodes=2000-2999", "notifyUrl=" + m.URL + "/n", "withdrawUrl=" + m.URL + "/w"}, api...)...)
	if made.ID != "shop" || made.State != "active" {
		t.Fatalf("made %+v", made)
	}
	m.setKey(t, made.PublicKey)
	var shown map[string]any
	mustShell(t, &shown, "", append([]string{"merchants", "show", "shop"}, api...)...)
	if b := fmt.Sprint(shown); strings.Contains(b, made.PublicKey) || strings.Contains(b, testAPIKey.Reveal()) {
		t.Errorf("a key is shown again: %s", b)
	}

	var w struct{ ID, State, Decision string }
	order := orderOf("W77")
	mustShell(t, new(any), fmt.Sprintf(`{"merchant":"shop","callBackId":"W77","tenantUserId":"7","details":{"address":%q,"chainName":"TRON","symbol":"USDT","amount":%q}}`,
		order.Address, order.Amount), append([]string{"withdrawals", "add", "-"}, api...)...)
	await(t, d, func() bool {
		mustShell(t, &w, "", append([]string{"withdrawals", "show", "shop/W77"}, api...)...)
		return w.Decision == "confirmed"
	})
	var permit struct {
		Permit    string
		Duplicate bool
	}
	mustShell(t, &permit, "", append([]string{"withdrawals", "release", "shop/W77", "claim=a"}, api...)...)
	if permit.Duplicate {
		t.Error("the first release is marked as a repetition")
	}
	if status, _, errOut := shell(t, "", append([]string{"withdrawals", "release", w.ID, "claim=b"}, api...)...); status != exitFailed || !strings.Contains(errOut, "409") {
		t.Errorf("the second claim: status %d, %s", status, errOut)
	}
	var waiting struct{ State, Notice string }
	mustShell(t, &waiting, "", append([]string{"api", "reportWaiting", w.ID, "for=fees"}, api...)...)
	if waiting.State != "released" || waiting.Notice == "" {
		t.Errorf("waiting: %+v", waiting)
	}
	mustShell(t, &w, `{"permit":"`+permit.Permit+`","executed":{"txId":"0xdone"}}`, append([]string{"api", "reportOutcome", w.ID, "-d", "@-"}, api...)...)
	if w.State != "executed" {
		t.Errorf("state %s", w.State)
	}
	var line struct {
		State string
		Type  int
	}
	await(t, d, func() bool {
		mustShell(t, &line, "", append([]string{"callbacks", "list", "type=3"}, api...)...)
		return line.State == "accepted"
	})

	if status := d.stop(t); status != exitDone {
		t.Fatalf("it ended with status %d:\n%s", status, d.output)
	}
	for _, secret := range []string{testAPIKey.Reveal(), made.PublicKey, permit.Permit} {
		if strings.Contains(d.output.String(), secret) {
			t.Errorf("a secret is in the log:\n%s", d.output)
		}
	}

	// The same directory again: no new token, the same withdrawal, the same permit.
	again := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0")
	if strings.Contains(again.output.String(), "first token") {
		t.Error("the second start made a token")
	}
	first := permit.Permit
	mustShell(t, &permit, "", "withdrawals", "release", w.ID, "claim=a", "--api", again.url, "--data", data)
	if !permit.Duplicate {
		t.Error("the repeated release is not marked")
	}
	if permit.Permit != first {
		t.Errorf("the permit changed from %s to %s", first, permit.Permit)
	}
}

// await polls until ok, for what another process does in its own time.
func await(t *testing.T, d *process, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wholeRun(t)); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not happen:\n%s", d.output)
		}
	}
}

// TestStartRefuses: what cannot work is said at the start, by name.
func TestStartRefuses(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	open := filepath.Join(dir, "open")
	damaged := filepath.Join(dir, "damaged")
	badToken := filepath.Join(dir, "token")
	for path, content := range map[string]string{file: "x", filepath.Join(open, daemon.MasterKeyFile): strings.Repeat("ab", 32),
		filepath.Join(damaged, daemon.MasterKeyFile): "abcd", filepath.Join(badToken, tokenFile): "hello"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(open, daemon.MasterKeyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		want   string
		status int
		args   []string
	}{
		{"data directory", exitFailed, []string{"--data", file}},
		{"can be read by others", exitFailed, []string{"--data", open}},
		{"64 hexadecimal digits", exitFailed, []string{"--data", damaged}},
		{"does not hold a token", exitFailed, []string{"--data", badToken}},
		{"chmod 600 " + filepath.Join(open, daemon.MasterKeyFile), exitFailed, []string{"--data", open}},
		{"listening on", exitFailed, []string{"--data", filepath.Join(dir, "a"), "--listen", "256.0.0.1:1"}},
		{"listening on 28190: it names no port: write :28190", exitFailed, []string{"--data", filepath.Join(dir, "a"), "--listen", "28190"}},
		{"below 0", exitFailed, []string{"--data", filepath.Join(dir, "b"), "--exchange-timeout=-1s"}},
		{"retain-days", exitFailed, []string{"--data", filepath.Join(dir, "b"), "--retain-days", "36501"}},
		{"retain-days", exitFailed, []string{"--data", filepath.Join(dir, "b"), "--retain-days=-1"}},
		{"opening the database", exitFailed, []string{"--data", filepath.Join(dir, "c"), "--db", "postgres://127.0.0.1:1/none?connect_timeout=1"}},
		{"log-level", exitUsage, []string{"--log-level", "loud"}},
		{"log-format", exitUsage, []string{"--log-format", "xml"}},
	} {
		status, out, errOut := shell(t, "", append([]string{"serve", "--listen", "127.0.0.1:0"}, tt.args...)...)
		if status != tt.status || !strings.Contains(errOut, tt.want) {
			t.Errorf("serve %v: status %d, want %d and %q\n%s%s", tt.args, status, tt.status, tt.want, out, errOut)
		}
		if out != "" {
			t.Errorf("serve %v failed and printed %q", tt.args, out)
		}
	}
	for _, data := range []string{"a", "b", "c"} {
		if _, err := os.Stat(filepath.Join(dir, data, tokenFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a start that failed left a token in %s: %v", data, err)
		}
	}
}

// TestSettings: flags come before the environment, that before the file, and
// the file before the defaults.
func TestSettings(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	file := filepath.Join(t.TempDir(), "settings.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Too many approvals fail the start and are named, which shows what was taken without a server.
	out := func(args ...string) string {
		t.Helper()
		_, _, errOut := shell(t, "", append([]string{"--config", file, "serve", "--data", t.TempDir()}, args...)...)
		return errOut
	}
	write("[serve]\nchange-approvals = 12\n")
	if got := out(); !strings.Contains(got, "--change-approvals is 12") {
		t.Errorf("from the file: %s", got)
	}
	t.Setenv("COUNTERSIGN_CHANGE_APPROVALS", "13")
	if got := out(); !strings.Contains(got, "--change-approvals is 13") {
		t.Errorf("the environment before the file: %s", got)
	}
	if got := out("--change-approvals", "14"); !strings.Contains(got, "--change-approvals is 14") {
		t.Errorf("a flag before the environment: %s", got)
	}
	for text, want := range map[string]string{
		"[serve]\nlisen = \"x\"\n":                "serve has no setting lisen",
		"[sevre]\nlisten = \"x\"\n":               "there is no subcommand sevre",
		"listen = \"x\"\n":                        "listen is not a table",
		"[serve\n":                                "settings file",
		"[serve]\nlisten = 5":                     "--listen: [serve] of the settings file has a value that is not a text: write it in quotes",
		"[serve]\ndb = true":                      "--db: [serve] of the settings file has a value that is not a text",
		"[gateway.profile]\nbinding = \"seen\"\n": "gateway has no setting profile",
	} {
		write(text)
		if got := out(); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
