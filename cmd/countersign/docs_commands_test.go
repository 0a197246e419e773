package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"

	"countersign/internal/api"
	"countersign/internal/lab/dbtest"
)

// elsewhere are commands of the pages that no session runs, and what runs them.
var elsewhere = map[string]string{
	"bench": "TestDemo, which measures less",
	"demo":  "TestDemo",
}

// mention is a command line that a file shows or names.
type mention struct {
	where string
	words []string
	ran   bool // by a session of a page
	prose bool // it stands in the text of a page, whole if it has arguments
}

var (
	inBlock   = regexp.MustCompile(`(?m)(^(?:[$>] )?(?:[A-Z_]+=\S* )*|[ \t(|"'])[./a-z]*\bcountersign ([^\n|>]+)`)
	inProse   = regexp.MustCompile("`(countersign |)([a-z][^`\n]*)`")
	inFile    = regexp.MustCompile("(?m)(?:`|^|ExecStart=)[./a-z]*\\bcountersign ([^`\n]+)")
	inMessage = regexp.MustCompile(`(?:\(|, |countersign )([a-z]+(?: [A-Za-z-]+)+)`)
	quoted    = regexp.MustCompile(`"[^"]*"`)
	goText    = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")
)

// mentions returns the command lines in a file of the repository.
func mentions(t *testing.T, file string) (all []mention) {
	t.Helper()
	add := func(where, text string, ran, prose bool) {
		all = append(all, mention{where, strings.Fields(quoted.ReplaceAllString(text, "TEXT")), ran, prose})
	}
	text := page(t, file)
	switch filepath.Ext(file) {
	case ".go":
		for _, literal := range goText.FindAllString(text, -1) {
			for _, m := range inMessage.FindAllStringSubmatch(literal, -1) {
				add(file, m[1], false, false)
			}
		}
	case ".md":
		for _, b := range readBlocks(t, file) {
			text = strings.Replace(text, b.text, "", 1)
			for _, m := range inBlock.FindAllStringSubmatch(strings.ReplaceAll(b.text, "\\\n", " "), -1) {
				// Within a line it may be an argument of another program.
				if c, _ := commandOf(strings.Fields(m[2])); b.isShell() && (c != "" || !strings.Contains(" \t(|\"'", m[1]) || m[1] == "") {
					add(b.String(), m[2], b.fixture != "", false)
				}
			}
		}
		for _, m := range inProse.FindAllStringSubmatch(text, -1) {
			// Without the program's name a command of one word may be another word.
			if c, _ := commandOf(strings.Fields(m[2])); m[1] != "" || strings.Contains(c, " ") {
				add(file, m[2], false, true)
			}
		}
	default:
		for _, m := range inFile.FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
			add(file, m[1], false, false)
		}
	}
	return all
}

// TestCommandsOfDocuments: every command line that a document, a unit, an alert or a text of the program names has
// words, flags and an operation that are there. In the text of a page one with arguments is whole, so that who types it
// with values of their own is not refused. A session of some page runs each command that a page of docs/ names.
func TestCommandsOfDocuments(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	shown, parsed, runs, named := 0, 0, map[string]bool{}, map[string]string{}
	for _, file := range repository(t, ":(glob)*.md", "docs/*.md", "examples/README.md", "deploy", ":!*.go", ":!CHANGELOG.md") {
		for _, m := range mentions(t, file) {
			if strings.Join(m.words, " ") == "request binding 1" { // a text of the protocol
				continue
			}
			shown++
			if err := m.known(); err != nil {
				t.Errorf("%s: countersign %s: %v", m.where, strings.Join(m.words, " "), err)
			}
			command, args := commandOf(m.words)
			if runs[command] = runs[command] || m.ran; !m.ran && strings.HasPrefix(file, "docs/") {
				named[command] = m.where
			}
			if !m.prose || len(args) == 0 || strings.HasPrefix(args[0], "--") || strings.ContainsAny(strings.Join(args, " "), "…<>|&;") ||
				slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "/etc/") }) {
				continue
			}
			parsed++
			if _, err := must(commands()).Parse(m.words); err != nil {
				t.Errorf("%s: %s: %v", m.where, strings.Join(m.words, " "), err)
			}
		}
	}
	if delete(named, ""); shown < 150 || parsed < 20 || len(named) < 39 { // of the fifty that there are
		t.Errorf("%d command lines were found, %d of them whole, and %d commands are named", shown, parsed, len(named))
	}
	for c, where := range named {
		if !runs[c] && elsewhere[c] == "" {
			t.Errorf("no session of a page runs %q (%s)", c, where)
		}
	}
	for c := range elsewhere {
		if runs[c] || named[c] == "" {
			t.Errorf("%q needs no exception", c)
		}
	}
}

// TestCommandsInMessages: a command that a text of the program names, in brackets or after its name, exists as well.
func TestCommandsInMessages(t *testing.T) {
	// Words of a sentence that begin as a command does.
	prose := []string{"token in", "withdrawals and", "audit key", "audit log", "alarms of", "merchants with", "api lists", "api OPERATION", "api --", "deposits of",
		"gateway API", "deposits before", "deposits FROM", "deposits that"}
	top, tried := must(commands()).Model.Children, 0
	for _, file := range repository(t, "client/*.go", "internal/*.go", "cmd/*.go", ":!*_test.go", ":!internal/lab") {
		for _, m := range mentions(t, file) {
			if slices.Contains(prose, strings.Join(m.words[:2], " ")) || !slices.ContainsFunc(top, func(n *kong.Node) bool { return n.Name == m.words[0] }) {
				continue
			}
			tried++
			if command, _ := commandOf(m.words); command == "" || m.known() != nil {
				t.Errorf("%s names a command that there is not: %v", file, m.words)
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d commands were found", tried)
	}
}

// repository returns the files of the repository that git lists for patterns.
func repository(t *testing.T, patterns ...string) []string {
	t.Helper()
	files := must(exec.Command("git", append([]string{"-C", "../..", "ls-files"}, patterns...)...).Output())
	return strings.Fields(string(files))
}

var commands = sync.OnceValues(newParser)

// commandOf returns the command that words begin with, or "" if that is a group or none, and the words that follow.
func commandOf(words []string) (command string, args []string) {
	node := must(commands()).Model.Node
	for ; len(words) > 0; words = words[1:] {
		at := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == words[0] })
		if at < 0 {
			break
		}
		node = node.Children[at]
	}
	if node.Parent == nil || len(node.Children) > 0 && node.DefaultCmd == nil {
		return "", words
	}
	return strings.TrimPrefix(node.Path(), "countersign "), words
}

// known says which word of the command line is no command, no flag or no operation.
func (m mention) known() error {
	node := must(commands()).Model.Node
	for i, word := range m.words {
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
		case i == 1 && node.Name == "api" && name != strings.ToUpper(name):
			if !slices.ContainsFunc(slices.Concat(operations(serviceEnd), operations(gatewayEnd)), func(o api.Operation) bool { return o.ID == word }) {
				return fmt.Errorf("there is no operation %s", word)
			}
		}
	}
	return nil
}
