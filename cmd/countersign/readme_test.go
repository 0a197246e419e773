package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"countersign/internal/db/dbtest"
)

// TestReadme runs every sh block of the README, in order and in one shell, in
// a fresh copy of the tree, as a new user would: nothing in it may have
// drifted. Only the ports are others, since those of the README may be taken.
func TestReadme(t *testing.T) {
	for _, program := range []string{"sh", "openssl", "split", "base64", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is not installed, and CI needs it", program)
			}
			t.Skipf("%s is not installed", program)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) < 10 {
		t.Fatalf("the README has %d sh blocks", len(blocks))
	}
	const mark = "== end of block"
	var script strings.Builder
	for _, b := range blocks {
		script.Write(b[1])
		script.WriteString("echo; echo '" + mark + "'\n")
	}
	text := script.String()
	var env []string // the defaults of the shell's subcommands
	for readme, setting := range map[string]string{"127.0.0.1:8080": "COUNTERSIGN_SERVICE_API", "127.0.0.1:8090": "", "127.0.0.1:8091": "COUNTERSIGN_GATEWAY_API"} {
		here, err := dbtest.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if setting != "" {
			env = append(env, setting+"=http://"+here)
		}
		if !strings.Contains(text, readme) {
			t.Errorf("the README does not use %s", readme)
		}
		text = strings.ReplaceAll(text, readme, here)
	}
	dir := t.TempDir()
	if err := copyTree("../..", dir); err != nil {
		t.Fatal(err)
	}
	out := runScript(t, dir, text, env...)
	outputs := strings.Split(out, mark)
	if len(outputs) != len(blocks)+1 {
		t.Fatalf("%d of %d blocks ran:\n%s", len(outputs)-1, len(blocks), out)
	}

	deposit, err := os.ReadFile("../../testdata/deposit.json")
	if err != nil {
		t.Fatal(err)
	}
	// The message comes back, through our opener, through OpenSSL and in the
	// explanation, with another requestUUID and nothing else changed.
	head, _, _ := strings.Cut(string(deposit), `"requestUUID"`)
	if got := strings.Count(out, head); got != 3 {
		t.Errorf("the sample deposit was printed %d times, want 3:\n%s", got, out)
	}
	for _, want := range []string{
		`"trackingId":"17173049-0001","state":"pending"`, // the service took the deposit
		`"deposits":[{"seq":1,`,                          // the merchant has it
		`"permit": "`,                                    // the withdrawal was countersigned
		`deposit/plain`,                                  // the list of cases
		`binding    holds`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	// What the README says of the number of cases.
	claimed := regexp.MustCompile(`with (\d+) cases`).FindSubmatch(readme)
	if claimed == nil {
		t.Fatal("the README does not say how many cases there are")
	}
	if got := len(regexp.MustCompile(`(?m)^\d{3,4} `).FindAllString(out, -1)); string(claimed[1]) != strconv.Itoa(got) {
		t.Errorf("the README says %s cases, check --list lists %d", claimed[1], got)
	}
}

// TestReadmeGo compiles the README's Go, in a program around it.
func TestReadmeGo(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	if block == nil {
		t.Fatal("the README has no Go")
	}
	program := `package main

import (
	"context"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

var (
	serviceKey          *envelope.Key
	apiKey, callbackKey countersign.APIKey
	inbox               merchant.Inbox
	ledger              interface{ Credit(context.Context, merchant.Deposit) error }
	orders              map[string]struct {
		TenantUserID string
		Details      countersign.Details
	}
)

func main() {
` + string(block[1]) + `
	_, _ = h, err
}
`
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "readme", "main.go"): file}})
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{file: []byte(program), overlay: replace} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-overlay", overlay, "-o", filepath.Join(dir, "out"), "./readme")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out.Bytes(), logsOf(dir))
		}
	case <-time.After(5 * time.Minute):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
		t.Fatalf("it hangs:\n%s%s", out.Bytes(), logsOf(dir))
	}
	return out.String()
}

func logsOf(dir string) string {
	var text strings.Builder
	for _, name := range []string{"serve.log", "gateway.log"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		text.WriteString("\n" + name + ":\n")
		if err != nil {
			text.WriteString(err.Error())
		}
		text.Write(b)
	}
	return text.String()
}

// copyTree copies what a checkout has, without the repository's own data.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (d.Name() == ".git" || strings.HasPrefix(d.Name(), "countersign-")):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
}
