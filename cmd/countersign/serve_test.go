package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"

	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// shell runs a subcommand in this process as a shell would.
func shell(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	status = runHere(args, streams{in: strings.NewReader(stdin), out: &out, err: &errOut})
	return status, out.String(), errOut.String()
}

// parsers are those that no command line uses at present: making one takes longer than most commands.
var parsers = sync.Pool{New: func() any { return must(newParser()) }}

// runHere is run with one of parsers.
func runHere(args []string, std streams) int {
	p := parsers.Get().(*parser)
	status := p.run(args, std)
	if p.status >= 0 { // a help hides flags
		return status
	}
	p.line = commandLine{}
	_ = kong.Visit(p.Model, func(v kong.Visitable, next kong.Next) error {
		switch v := v.(type) {
		case *kong.Node:
			v.Active = false
		case *kong.Value:
			v.Active, v.Set = false, false
		}
		return next(nil)
	})
	parsers.Put(p)
	return status
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

// sharedService is a service in this process for tests that call it with names of their own: its flags, its URL and its
// data directory.
type sharedService struct {
	flags     []string
	url, data string
	stop      func()
}

var startShared = sync.OnceValues(func() (*sharedService, error) {
	data, err := os.MkdirTemp("", "countersign-shared-")
	if err != nil {
		return nil, err
	}
	s, err := daemon.NewService(daemon.ServiceConfig{Common: daemon.Common{Storage: daemon.Storage{Dir: data}}, Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true})
	if err == nil {
		err = s.Open(context.Background())
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	shared = &sharedService{[]string{"--api", s.URL(), "--data", data}, s.URL(), data, func() { cancel(); <-ended; _ = os.RemoveAll(data) }}
	return shared, nil
})

var shared *sharedService // once it is started; TestMain stops it

func theService(t *testing.T) *sharedService {
	t.Helper()
	s, err := startShared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// await polls until ok, for what another process does in its own time.
func await(t *testing.T, d *process, ok func() bool) {
	t.Helper()
	waitUntil(t, "what another process does in its own time", d.output.String, ok)
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
		{"the database is incomplete", exitFailed, []string{"--data", damaged}},
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
