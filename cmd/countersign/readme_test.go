package main

import (
	"bytes"
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

func logsOf(dir string) (text string) {
	for _, path := range must(filepath.Glob(filepath.Join(dir, "*.log"))) {
		text += "\n" + filepath.Base(path) + ":\n" + string(must(os.ReadFile(path)))
	}
	return text
}
