package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"countersign/internal/lab/dbtest"
)

// TestSettingsPages: the page of all settings and the example of a settings file are
// those of the flags.
func TestSettingsPages(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	parser, err := newParser(streams{}, new(int))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"docs/reference/settings.md": settingsPage(parser.Model), "deploy/countersign.toml": settingsExample(parser.Model)} {
		path = filepath.Join("../..", path)
		if os.Getenv("UPDATE_SETTINGS") != "" {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not made from the flags as they are (%v): UPDATE_SETTINGS=1 go test ./cmd/countersign -run TestSettingsPages", path, err)
		}
	}
	for _, daemon := range daemons { // what the page says of the environment
		node := parser.Model.Children[slices.IndexFunc(parser.Model.Children, func(n *kong.Node) bool { return n.Name == daemon })]
		for _, f := range node.Flags {
			if env := "COUNTERSIGN_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")); f.Name != "help" && !f.Tag.Has("asks") && !slices.Contains(f.Envs, env) {
				t.Errorf("%s --%s has the variables %q, not %s", daemon, f.Name, f.Envs, env)
			}
		}
	}
}

// config returns what --settings prints.
func config(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if status := run(append(args, "--settings"), streams{in: strings.NewReader(""), out: &out, err: &errs}); status != exitDone {
		t.Fatalf("config %q: %d, %s", args, status, errs.String())
	}
	return out.String()
}

// TestExampleSettings: the example is read as it is, and with every line in force; then
// all settings that have a default keep it.
func TestExampleSettings(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	example, err := os.ReadFile("../../deploy/countersign.toml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "all.toml")
	lines := regexp.MustCompile(`(?m)^#([a-z][a-z-]* = )`)
	if err := os.WriteFile(file, lines.ReplaceAll(example, []byte("$1")), 0o600); err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile(` # (file|default)\n`)
	for _, daemon := range daemons {
		unset := config(t, daemon)
		if got := config(t, daemon, "--config", "../../deploy/countersign.toml"); got != unset {
			t.Errorf("%s: the example sets something:\n%s", daemon, got)
		}
		all := config(t, daemon, "--config", file)
		if n := strings.Count(all, "# default\n"); n != 1 { // master-key
			t.Errorf("%s: the example lacks %d settings:\n%s", daemon, n-1, all)
		}
		for line := range strings.Lines(source.ReplaceAllString(unset, "\n")) {
			if !strings.HasSuffix(line, "= \n") && !strings.HasPrefix(line, "lenient") && !strings.Contains(source.ReplaceAllString(all, "\n"), line) {
				t.Errorf("%s: the example changes %q", daemon, line)
			}
		}
	}
}
