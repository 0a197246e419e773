package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/internal/lab/dbtest"
)

// A fenced block of a page is marked in its first line:
//
//	```sh session FIXTURE      commands; each must end with status 0
//	```console session FIXTURE commands after "$ ", and what each prints; a last line
//	                           "exit status 1" where it fails
//	```sh not run: REASON      commands that no test can run
//
// The session blocks of a page with one fixture are one run of one shell, in order, in a new
// directory. In what is printed "…" stands for any text within a line, and a line "…" for
// any lines. 127.0.0.1 with a port stands for a free one.

// block is a fenced block of a page.
type block struct {
	page     string
	line     int    // of its first line
	language string // "sh"
	fixture  string // of a session block
	reason   string // why no test runs the block
	text     string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

func (b block) isShell() bool {
	return slices.Contains([]string{"sh", "console", "bash", "shell", "zsh"}, b.language)
}

var blockMark = regexp.MustCompile("^```(\\w*)(?: session (.*)| not run: (.*)|.*)$")

// readBlocks finds the fenced blocks of a page.
func readBlocks(t *testing.T, name string) []block {
	t.Helper()
	var blocks []block
	var open *block
	indent := ""
	for i, line := range strings.Split(page(t, name), "\n") {
		bare := strings.TrimLeft(line, " ")
		mark := blockMark.FindStringSubmatch(bare)
		switch {
		case open == nil && mark != nil:
			indent = line[:len(line)-len(bare)]
			open = &block{page: name, line: i + 1, language: mark[1], fixture: mark[2], reason: mark[3]}
		case open != nil && mark != nil:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		t.Errorf("%v is not closed", open)
	}
	return blocks
}

// documents are the pages whose commands are run.
func documents(t *testing.T) []string {
	t.Helper()
	var pages []string
	for _, pattern := range []string{"README.md", "examples/README.md", "docs/*.md", "docs/*/*.md"} {
		for _, page := range must(filepath.Glob(filepath.Join("../..", pattern))) {
			pages = append(pages, strings.TrimPrefix(filepath.ToSlash(page), "../../"))
		}
	}
	return pages
}

// TestBlocksOfDocuments: every block says what language it has, and every block of commands
// is a session or says why it is not run.
func TestBlocksOfDocuments(t *testing.T) {
	sessions, marked := 0, 0
	for _, name := range documents(t) {
		marked += len(regexp.MustCompile("(?m)^ *```\\w+ session ").FindAllString(page(t, name), -1))
		for _, b := range readBlocks(t, name) {
			switch {
			case b.language == "":
				t.Errorf("%v: name the language of the block: sh for commands, text for what is none", b)
			case !b.isShell() || b.reason != "":
			case fixtures[b.fixture].setup != nil:
				sessions++
			default:
				t.Errorf("%v: commands that nothing runs: mark them \"session\" and one of %v, or \"not run: REASON\"", b, slices.Sorted(maps.Keys(fixtures)))
			}
		}
	}
	if sessions != marked || sessions < 75 {
		t.Errorf("%d session blocks were found, of %d", sessions, marked)
	}
}

// everyday is the session that a person waits for: it builds the program and has both ends at work. The others are run
// by the whole check.
const everyday = "docs/provider/README.md checkout"

// TestDocuments runs the sessions of all pages. What they print is compared where a page
// shows it; expected has more.
func TestDocuments(t *testing.T) {
	dbtest.NotRaced(t, "what is built and run here is not watched by the detector")
	t.Parallel()
	for _, program := range []string{"sh", "sed", "openssl", "split", "base64", "curl"} {
		needs(t, program)
	}
	for _, page := range documents(t) {
		sessions := map[string][]block{}
		for _, b := range readBlocks(t, page) {
			if name := b.fixture; name != "" {
				sessions[name] = append(sessions[name], b)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(sessions)) {
			t.Run(strings.TrimSuffix(page, ".md")+"/"+name, func(t *testing.T) {
				if page+" "+name != everyday {
					dbtest.Whole(t, "other sessions take time")
				}
				t.Parallel()
				out := runSession(t, name, sessions[name])
				if check := expected[page+" "+name]; check != nil {
					check(t, out)
				}
			})
		}
	}
	for session := range expected {
		if page, _, _ := strings.Cut(session, " "); !slices.Contains(documents(t), page) {
			t.Errorf("there is no page %s", page)
		}
	}
}

// needs skips a test without a program, but in CI.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed, and CI needs it", program)
		}
		t.Skipf("%s is not installed", program)
	}
}

// A session is a script that reads each block as it is due, so that the fixture may say in
// the file "names" (lines of sed) what stands on the page for a name that is known only then.
const (
	blockHead   = "== block "
	commandHead = "== command "
)

// runSession runs the blocks with the fixture and gives all that was printed.
func runSession(t *testing.T, name string, blocks []block) string {
	t.Helper()
	f := fixtures[name]
	if f.setup == nil {
		t.Fatalf("%v: there is no fixture %q", blocks[0], name)
	}
	dir := t.TempDir()
	preparation := f.setup(t, dir)
	here := map[string]string{}
	const private = ".session"
	ok(t, os.Mkdir(filepath.Join(dir, private), 0o700))
	write := func(file, text string) {
		ok(t, os.WriteFile(filepath.Join(dir, private, file), []byte(text), 0o600))
	}
	write("names", "")
	var script strings.Builder
	script.WriteString("names=" + filepath.Join(dir, private, "names") + "\n" + awaiting)
	script.WriteString(withFreePorts(t, preparation, here) + "\n")
	shown := map[string]string{} // by the number of its command, what the page shows
	for i, b := range blocks {
		text := withFreePorts(t, b.text, here)
		onlyThisMachine(t, b, text, preparation)
		if b.language == "console" {
			text = console(t, b, text, shown)
		}
		file := fmt.Sprintf("block-%d", i)
		write(file, text)
		fmt.Fprintf(&script, "cd %q; printf '\\n%s%s\\n'\nsed -f \"$names\" %[4]s/%[5]s > %[4]s/now\n. %[4]s/now\n", dir, blockHead, b, filepath.Join(dir, private), file)
	}
	// The copies of the tree share what is built; a question without an order need not stay open for as long as by
	// default; then where commands ask that take no token, and so no address, from a data directory.
	env := []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath -ldflags=-s", "COUNTERSIGN_HOLD_WAIT=1s"}
	for documented, setting := range map[string]string{"127.0.0.1:8080": "COUNTERSIGN_SERVICE_API", "127.0.0.1:8091": "COUNTERSIGN_GATEWAY_API"} {
		if here[documented] != "" && !f.several {
			env = append(env, setting+"=http://"+here[documented])
		}
	}
	out := runScript(t, dir, script.String(), env...)
	if n := strings.Count(out, blockHead); n != len(blocks) {
		t.Errorf("%d of %d blocks ran:\n%s", n, len(blocks), out)
	}
	names := must(os.ReadFile(filepath.Join(dir, private, "names")))
	for line := range strings.Lines(string(names)) {
		if part := strings.Split(strings.TrimSpace(line), "#"); len(part) == 4 {
			for number, text := range shown {
				shown[number] = strings.ReplaceAll(text, part[1], part[2])
			}
		}
	}
	compare(t, out, shown)
	return out
}

var loopbackPort = regexp.MustCompile(`127\.0\.0\.1:\d{4,5}`)

// withFreePorts puts free ports in the place of those of the text, the same ones for the
// same ones.
func withFreePorts(t *testing.T, text string, here map[string]string) string {
	t.Helper()
	return loopbackPort.ReplaceAllStringFunc(text, func(documented string) string {
		if here[documented] == "" {
			addr := must(dbtest.FreePort())
			here[documented] = addr
		}
		return here[documented]
	})
}

var hostOfURL = regexp.MustCompile(`\b(?:https?|wss?)://(?:[^/@\s"']*@)?([^/:\s"'?]+)`)

// onlyThisMachine fails for a session that may call another machine. Names below .example
// are nobody's: a merchant may be made with one, and is not reached. For others the fixture
// has a name of its own.
func onlyThisMachine(t *testing.T, b block, text, preparation string) {
	t.Helper()
	for _, m := range hostOfURL.FindAllStringSubmatch(text, -1) {
		if host := m[1]; host != "127.0.0.1" && host != "localhost" && !strings.HasSuffix(host, ".example") && !strings.Contains(preparation, "#"+m[0]) {
			t.Fatalf("%v is a session and names the host %s", b, host)
		}
	}
}

const failed = "exit status "

// console makes a script of the commands of a block. What each shall print is put into shown.
func console(t *testing.T, b block, text string, shown map[string]string) string {
	t.Helper()
	const status = "status=$?; [ $status = 0 ] || echo " + failed + "$status\n"
	var script strings.Builder
	script.WriteString("set +e\n")
	number, goesOn := "", false
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		command, is := strings.CutPrefix(line, "$ ")
		switch {
		case goesOn:
			command = strings.TrimPrefix(line, "> ")
		case is:
			number = fmt.Sprintf("%s:%d", b.page, b.line+1+i)
			shown[number] = ""
			if script.Len() > len("set +e\n") {
				script.WriteString(status)
			}
			fmt.Fprintf(&script, "printf '\\n%s%s\\n'\n", commandHead, number)
		case number == "":
			t.Fatalf("%v: the block does not begin with a command after \"$ \"", b)
		default:
			shown[number] += line + "\n"
			continue
		}
		goesOn = strings.HasSuffix(command, `\`)
		script.WriteString(command + "\n")
	}
	return script.String() + status + "set -e\n"
}

// compare holds what commands printed to what the page shows.
func compare(t *testing.T, out string, shown map[string]string) {
	t.Helper()
	printed := map[string]string{}
	for _, part := range strings.Split(out, "\n== ") {
		head, text, _ := strings.Cut(part, "\n")
		if number, is := strings.CutPrefix(head, strings.TrimPrefix(commandHead, "== ")); is {
			printed[number] = text
		}
	}
	for _, number := range slices.Sorted(maps.Keys(shown)) {
		got, ran := printed[number]
		if want := shown[number]; !ran || !printsAs(want, got) {
			t.Errorf("%s: the page shows\n%s\nand it printed\n%s", number, want, got)
		}
	}
}

// printsAs says whether text is what a page shows as shown.
func printsAs(shown, text string) bool {
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for line := range strings.Lines(strings.TrimSpace(shown) + "\n") {
		if line = strings.TrimSpace(line); line == "…" {
			pattern.WriteString(`(?:.*\n)*`)
			continue
		}
		for i, part := range strings.Split(line, "…") {
			if i > 0 {
				pattern.WriteString(`.*`)
			}
			// Columns are as wide as what stands in them.
			for j, word := range strings.Fields(part) {
				if j > 0 || (i > 0 && strings.HasPrefix(part, " ")) {
					pattern.WriteString(`[ \t]+`)
				}
				pattern.WriteString(regexp.QuoteMeta(word))
			}
			if part != "" && strings.HasSuffix(part, " ") && strings.TrimSpace(part) != "" {
				pattern.WriteString(`[ \t]*`)
			}
		}
		pattern.WriteString(`\n`)
	}
	pattern.WriteString(`\z`)
	if strings.Contains(lastLine(text), failed) && lastLine(text) != lastLine(shown) { // not by "…"
		return false
	}
	var lines strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		lines.WriteString(strings.TrimSpace(line) + "\n")
	}
	return regexp.MustCompile(pattern.String()).MatchString(lines.String())
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}
