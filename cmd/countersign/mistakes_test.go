package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestFirstMistakes: no command ends in a panic or succeeds at the first mistakes of an
// installation, and each says what is the matter.
func TestFirstMistakes(t *testing.T) {
	parser := must(newParser())
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"file": "x", "bad.toml": "= 1", "garbage/countersign.db": "no database\n", "garbage/master.key": "no key\n"} {
		ok(t, os.MkdirAll(filepath.Dir(name), 0o700))
		ok(t, os.WriteFile(name, []byte(text), 0o600))
	}
	mistakes := []struct {
		name, flag, value, env string
	}{
		{"nothing is there", "", "", ""},
		{"the data directory is a file", "data", "file", ""},
		{"the database is no database", "data", "garbage", ""},
		{"there is no such settings file", "config", "none.toml", ""},
		{"the settings file is no TOML", "config", "bad.toml", ""},
		{"the token's file is missing", "token", "@none", ""},
		{"nobody listens there", "api", "http://127.0.0.1:1", ""},
		{"the URL is none", "api", "::", ""},
		{"the database cannot be reached", "db", "postgres://127.0.0.1:1/x?connect_timeout=1", ""},
		{"the master key is none", "data", "new", "COUNTERSIGN_MASTER_KEY=x"},
	}
	// These serve or measure until they are stopped; what they take at the start is checked with --check,
	// where they have it.
	without := []string{"demo", "listen", "bench"}
	// Commands that only call an operation are of a few types, and one of each is tried.
	tried := map[string]bool{}
	for _, command := range parser.Model.Leaves(true) {
		words := strings.Fields(command.FullPath())[1:]
		words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "<") || strings.HasPrefix(w, "[") })
		if slices.Contains(without, words[0]) {
			continue
		}
		flags := map[string]*kong.Flag{}
		for _, group := range command.AllFlags(false) {
			for _, f := range group {
				flags[f.Name] = f
			}
		}
		for _, m := range mistakes {
			kind := command.Target.Type().String() + m.name
			if flags["api"] != nil && flags["token"] != nil && m.flag != "" {
				kind = "a call: " + m.name
			}
			if m.flag != "" && flags[m.flag] == nil || tried[kind] {
				continue
			}
			tried[kind] = true
			args := slices.Clone(words)
			for _, p := range command.Positional {
				if words[0] == "api" && p.Name == "operation" {
					args = append(args, "self") // without one it lists them, which needs nobody
				} else if p.Required {
					args = append(args, "none")
				}
			}
			for _, f := range flags {
				if f.Required && f.Name != m.flag {
					args = append(args, "--"+f.Name+"=none")
				}
			}
			if flags["check"] != nil {
				args = append(args, "--check")
			}
			if m.flag != "" {
				args = append(args, "--"+m.flag+"="+m.value)
			}
			if flags["api"] != nil && m.flag != "api" {
				args = append(args, "--api=http://127.0.0.1:1")
			}
			t.Run(strings.Join(words, " ")+", "+m.name, func(t *testing.T) {
				if name, value, found := strings.Cut(m.env, "="); found {
					t.Setenv(name, value)
				}
				status, out, errOut := shell(t, "", args...)
				said := out + errOut
				if status == exitDone && m.flag != "" {
					t.Errorf("%q succeeds:\n%s", args, said)
				}
				if status != exitDone && !strings.Contains(errOut, "countersign: ") || strings.Contains(said, "goroutine ") || strings.Contains(said, "nil pointer") || strings.Contains(said, "%!") {
					t.Errorf("%q says, with status %d:\n%s", args, status, said)
				}
			})
		}
	}
}
