package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"countersign/internal/audit"
	"countersign/internal/cli"
	"countersign/internal/lab/dbtest"
)

// runDocument runs every sh block of a document, in order and in one shell, in
// a fresh copy of the tree, as a new user would: nothing in it may have
// drifted. Only the ports are others, since those of the document may be taken.
func runDocument(t *testing.T, name string, wantBlocks int) (text []byte, out string) {
	t.Helper()
	dbtest.NotRaced(t, "what is built and run here is not watched by the detector")
	for _, program := range []string{"sh", "openssl", "split", "base64", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is not installed, and CI needs it", program)
			}
			t.Skipf("%s is not installed", program)
		}
	}
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) < wantBlocks {
		t.Fatalf("%s has %d sh blocks, want %d or more", name, len(blocks), wantBlocks)
	}
	const mark = "== end of block"
	var b strings.Builder
	for _, block := range blocks {
		b.Write(block[1])
		b.WriteString("echo; echo '" + mark + "'\n")
	}
	script := b.String()
	// The copies of the tree share what is built; a question without an order need not
	// stay open for as long as by default; then the defaults of the subcommands.
	env := []string{"GOFLAGS=-trimpath", "COUNTERSIGN_HOLD_WAIT=1s"}
	for documented, setting := range map[string]string{"127.0.0.1:8080": "COUNTERSIGN_SERVICE_API", "127.0.0.1:8090": "", "127.0.0.1:8091": "COUNTERSIGN_GATEWAY_API"} {
		here, err := dbtest.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if setting != "" {
			env = append(env, setting+"=http://"+here)
		}
		script = strings.ReplaceAll(script, documented, here)
	}
	dir := t.TempDir()
	if err := copyTree("../..", dir); err != nil {
		t.Fatal(err)
	}
	out = runScript(t, dir, script, env...)
	outputs := strings.Split(out, mark)
	if len(outputs) != len(blocks)+1 {
		t.Fatalf("%d of %d blocks ran:\n%s", len(outputs)-1, len(blocks), out)
	}
	return text, out
}

// holds fails for each of the texts that out lacks.
func holds(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

func TestReadme(t *testing.T) {
	t.Parallel()
	readme, out := runDocument(t, "README.md", 10)
	holds(t, string(readme), "127.0.0.1:8080", "127.0.0.1:8090", "127.0.0.1:8091")
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
	holds(t, out,
		`"trackingId":"17173049-0001","state":"pending"`, // the service took the deposit
		`"deposits":[{"seq":1,`,                          // the merchant has it
		`"permit": "`,                                    // the withdrawal was countersigned
		`deposit/plain`,                                  // the list of cases
		`binding    holds`,
	)
	// What the README says of the number of cases.
	claimed := regexp.MustCompile(`with (\d+) cases`).FindSubmatch(readme)
	if claimed == nil {
		t.Fatal("the README does not say how many cases there are")
	}
	if got := len(regexp.MustCompile(`(?m)^\d{3,4} `).FindAllString(out, -1)); string(claimed[1]) != strconv.Itoa(got) {
		t.Errorf("the README says %s cases, check --list lists %d", claimed[1], got)
	}
}

func TestQuickstartMerchant(t *testing.T) {
	dbtest.Whole(t, "the document of README.md stands for all")
	t.Parallel()
	_, out := runDocument(t, "docs/quickstart-merchant.md", 12)
	holds(t, out,
		`fits       --provider other`,
		`"amount":"0.0000001"`,    // the deposit is booked, exactly
		`"asSent":{"amount":1E-7`, // and kept as it came
		`"state": "confirmed"`,    // so is the withdrawal
		`1014  must    pass  other/withdrawal-not-guessed`,
	)
}

func TestQuickstartProvider(t *testing.T) {
	dbtest.Whole(t, "the document of README.md stands for all")
	t.Parallel()
	_, out := runDocument(t, "docs/quickstart-provider.md", 12)
	holds(t, out,
		`"trackingId":"d-1","state":"pending"`,
		`"decision":"confirmed"`,
		`"claim": "order-1-execution"`,
		`"state": "executed"`,
	)
}

// TestDispute: the files from both logs are good, hold the same ciphertexts, and a
// changed one is refused.
func TestDispute(t *testing.T) {
	dbtest.Whole(t, "the document of README.md stands for all")
	_, out := runDocument(t, "docs/dispute.md", 8)
	holds(t, out,
		`the same question, the same answer`,
		`order.approved  by tok_`,
		`withdrawal.released  by tok_`,
		`holder: {"claim":"`+audit.Fingerprint("wallet-7")+`"`,
		`reason: seen the contract`,
		"{\"type\":2,",
		"refused\n",
	)
	if n := strings.Count(out, "good: countersign-"); n != 2 {
		t.Errorf("%d files are good, want 2:\n%s", n, out)
	}
}

// TestReadmeGo compiles the README's Go, in a program around it.
func TestReadmeGo(t *testing.T) {
	dbtest.NotRaced(t, "what is built and run here is not watched by the detector")
	t.Parallel()
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
	endGroup := ownGroup(t, cmd)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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

// TestCommandsOfDocuments: every command line that a document, a unit or an alert shows has
// commands and flags that are there.
func TestCommandsOfDocuments(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	parser, err := newParser(streams{}, nil, serviceEnd, new(int), new(cli.Called))
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "deploy/*/*", "deploy/*"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	line := regexp.MustCompile("(?m)(?:`|^|ExecStart=)(?:[A-Z_]+=[^ `]* )*[./a-z]*\\bcountersign ([^`\n]+)")
	commands := 0
	for _, page := range pages {
		if info, err := os.Stat(page); err != nil || info.IsDir() || filepath.Base(page) == "CHANGELOG.md" || filepath.Ext(page) == ".go" {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		whole := strings.ReplaceAll(string(text), "\\\n", " ")
		for _, m := range line.FindAllStringSubmatch(whole, -1) {
			if commands++; m[1] == "request binding 1" { // a text of the protocol
				continue
			}
			if err := knownCommand(parser.Model.Node, strings.Fields(m[1])); err != nil {
				t.Errorf("%s: countersign %s: %v", page, m[1], err)
			}
		}
	}
	if commands < 150 {
		t.Errorf("%d commands were found", commands)
	}
}

// knownCommand says which word of a command line is neither a command nor a flag.
func knownCommand(node *kong.Node, words []string) error {
	for i, word := range words {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		switch {
		case strings.ContainsAny(word[:1], "|<>&;…"):
			return nil
		case strings.HasPrefix(word, "--"):
			flags := slices.Concat(node.AllFlags(false)...)
			if node.DefaultCmd != nil {
				flags = append(flags, node.DefaultCmd.Flags...)
			}
			if !slices.ContainsFunc(flags, func(f *kong.Flag) bool { return f.Name == name }) {
				return fmt.Errorf("%s has no flag --%s", node.FullPath(), name)
			}
		case len(node.Children) > 0:
			at := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
			if at < 0 && i > 0 && node.DefaultCmd != nil {
				return nil // an argument of the default command
			}
			if at < 0 {
				return fmt.Errorf("%s has no command %s", node.FullPath(), word)
			}
			node = node.Children[at]
		}
	}
	return nil
}
