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
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"countersign/internal/lab/dbtest"
)

// TestReadmeGo compiles the README's Go, in a package around it: what is no program is not linked.
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
	cmd := exec.Command("go", "build", "-overlay", overlay, "./readme")
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

// TestCommandsOfDocuments: every command line that a document, a unit or an alert shows has commands and flags that are
// there. In the text of a page one with arguments is whole, so that who types it with values of their own is not refused.
func TestCommandsOfDocuments(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	parser, err := newParser()
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "deploy/*/*", "deploy/*"} {
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
	span, quoted := regexp.MustCompile("`(?:countersign )?([a-z][^`\n…<>|&;]*)`"), regexp.MustCompile(`"[^"]*"`)
	tried := 0
	for _, page := range documents(t) {
		text, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range span.FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(quoted.ReplaceAllString(m[1], "TEXT"))
			node, err := commandNode(words)
			if err != nil {
				t.Fatal(err)
			}
			args := words[len(strings.Fields(strings.TrimPrefix(node.Path(), "countersign"))):]
			if len(args) == 0 || strings.HasPrefix(args[0], "--") || strings.Contains(m[1], " /etc/") || len(node.Children) > 0 || len(node.Positional) == 0 {
				continue
			}
			if _, err := parser.Parse(words); err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
			}
			tried++
		}
	}
	if tried < 20 {
		t.Errorf("%d commands with arguments were found", tried)
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
			if !slices.ContainsFunc(flags, func(f *kong.Flag) bool {
				return f.Name == name || f.Tag.Negatable != "" && "no-"+f.Name == name
			}) {
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
