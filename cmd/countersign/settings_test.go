package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
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
	parser := must(newParser())
	for path, want := range map[string]string{"docs/reference/settings.md": settingsPage(parser.Model), "deploy/countersign.toml": settingsExample(parser.Model)} {
		path = filepath.Join("../..", path)
		if os.Getenv("UPDATE_SETTINGS") != "" {
			ok(t, os.WriteFile(path, []byte(want), 0o644))
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

// settingsAt returns the settings of a daemon with a settings file, each as a text.
func settingsAt(t *testing.T, daemon, file string) map[string]string {
	t.Helper()
	parser := must(newParser())
	if _, err := parser.Parse([]string{daemon, "--config", file}); err != nil {
		t.Fatalf("%s: %v", daemon, err)
	}
	all := map[string]string{}
	for _, f := range settingsOf(daemonOf(parser.Model, daemon)) {
		all[f.Name] = fmt.Sprint(reflect.Indirect(f.Target))
	}
	return all
}

// TestExampleSettings: the example sets nothing; with every line in force it has every setting, and all that have a
// default keep it.
func TestExampleSettings(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	const path = "../../deploy/countersign.toml"
	example := must(os.ReadFile(path))
	dir := t.TempDir()
	none, all := filepath.Join(dir, "none.toml"), filepath.Join(dir, "all.toml")
	inForce := regexp.MustCompile(`(?m)^#([a-z][a-z-]* = )`).ReplaceAll(example, []byte("$1"))
	for file, text := range map[string][]byte{none: nil, all: inForce} {
		ok(t, os.WriteFile(file, text, 0o600))
	}
	for _, daemon := range daemons {
		unset, set := settingsAt(t, daemon, none), settingsAt(t, daemon, all)
		if got := settingsAt(t, daemon, path); !maps.Equal(got, unset) {
			t.Errorf("%s: the example sets something: %v", daemon, got)
		}
		for name, value := range unset {
			if name != "master-key" && !bytes.Contains(inForce, []byte("\n"+name+" = ")) {
				t.Errorf("%s: the example lacks %s", daemon, name)
			}
			if empty := value == "" || value == "[]" || value == "<invalid reflect.Value>"; !empty && set[name] != value {
				t.Errorf("%s: the example changes %s from %q to %q", daemon, name, value, set[name])
			}
		}
	}
}
