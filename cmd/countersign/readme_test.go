package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// TestReadmeGo compiles the README's Go, in a package around it: what is no program is not linked.
func TestReadmeGo(t *testing.T) {
	dbtest.NotRaced(t, "what is built and run here is not watched by the detector")
	t.Parallel()
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(page(t, "README.md"))
	if block == nil {
		t.Fatal("the README has no Go")
	}
	program := `package readme

import (
	"context"
	"database/sql"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
	"countersign/merchant/sqlinbox"
)

var (
	serviceKey          *envelope.Key
	apiKey, callbackKey countersign.APIKey
	db                  *sql.DB
	ledger              interface{ Credit(context.Context, *sql.Tx, merchant.Deposit) error }
	orders              map[string]struct {
		TenantUserID string
		Details      countersign.Details
	}
)

func _(ctx context.Context) {
` + block[1] + `
	_, _ = h, err
}
`
	file := filepath.Join(t.TempDir(), "readme.go")
	ok(t, os.WriteFile(file, []byte(program), 0o600))
	if out, err := exec.Command("go", "build", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// runScript runs text and then ends what it left in the background.
func runScript(t *testing.T, dir, text string, env ...string) string {
	t.Helper()
	cmd := exec.Command("sh", "-e", "-c", text)
	cmd.Dir = dir
	// Settings of the machine must not decide; a group of its own lets the
	// daemons be ended with it.
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "COUNTERSIGN_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	endGroup := ownGroup(t, cmd)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	ok(t, cmd.Start())
	t.Cleanup(endGroup)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out.Bytes(), logsOf(dir))
		}
	case <-time.After(wholeRun(t)):
		endGroup()
		<-done
		t.Fatalf("it hangs:\n%s%s", out.Bytes(), logsOf(dir))
	}
	return out.String()
}

func logsOf(dir string) string {
	var text strings.Builder
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err.Error()
	}
	for _, path := range logs {
		b, err := os.ReadFile(path)
		text.WriteString("\n" + filepath.Base(path) + ":\n")
		if err != nil {
			text.WriteString(err.Error())
		}
		text.Write(b)
	}
	return text.String()
}

// copyTree copies what a fresh checkout has. What git ignores stays behind: the session of
// README.md may have been typed here before. Without git all files are copied.
func copyTree(from, to string) error {
	script := `git -c safe.directory=* ls-files --cached --others --exclude-standard 2>/dev/null || find . -type f`
	list := exec.Command("sh", "-c", script)
	list.Dir = from
	names, err := list.Output()
	if err != nil {
		return err
	}
	for name := range strings.Lines(string(names)) {
		name = strings.TrimSuffix(name, "\n")
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) { // deleted and not committed yet
			continue
		}
		if err != nil {
			return err
		}
		at := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
