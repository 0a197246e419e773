package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestIndexOfDocuments: docs/README.md names every page.
func TestIndexOfDocuments(t *testing.T) {
	index := read(t, "../docs/README.md")
	pages, err := filepath.Glob("../docs/*/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		if name := strings.TrimPrefix(filepath.ToSlash(page), "../docs/"); !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not name %s", name)
		}
	}
}

// TestLinks: what a document links to is there, the heading too.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	links := 0
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md", "../examples/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
				if strings.Contains(m[1], ":") { // another place
					continue
				}
				links++
				to := page
				if m[1] != "" {
					to = filepath.Join(filepath.Dir(page), m[1])
				}
				if _, err := os.Stat(to); err != nil {
					t.Errorf("%s links to %s, which is not there", page, m[1])
					continue
				}
				if m[2] == "" {
					continue
				}
				if !slices.Contains(headings(read(t, to)), m[2]) {
					t.Errorf("%s links to %s#%s: no heading gives that", page, m[1], m[2])
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links were found", links)
	}
}

// headings returns what a link to a heading of the page has after "#", for each.
func headings(page string) (anchors []string) {
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		anchors = append(anchors, strings.ReplaceAll(regexp.MustCompile(`[^\pL\pN_ -]`).ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return anchors
}

// TestGoTestOfDocuments: each go test command of a document runs a test or benchmark that is
// there. go test takes the name of a package for an argument of the tests if it comes
// after one of their own flags.
func TestGoTestOfDocuments(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md", "../examples/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	command := regexp.MustCompile("`[^`\n]*\\bgo test ([^`\n]+)`")
	commands := 0
	for _, page := range pages {
		for _, m := range command.FindAllStringSubmatch(read(t, page), -1) {
			commands++
			checkCommand(t, page, strings.ReplaceAll(m[1], `\|`, "|")) // as a cell of a table has it
		}
	}
	if commands < 15 {
		t.Errorf("%d commands were found", commands)
	}
}

func checkCommand(t *testing.T, page, command string) {
	t.Helper()
	goFlags := []string{"-v", "-benchmem", "-run", "-bench", "-benchtime", "-count", "-timeout", "-tags", "-fuzz"}
	var dir, foreign string
	runs := map[string]string{} // patterns by the kind of function
	words := strings.Fields(strings.ReplaceAll(command, "'", ""))
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "."):
			if dir = filepath.Join("..", strings.TrimSuffix(word, "/...")); foreign != "" {
				t.Errorf("%s: %q: %s comes after %s, which is not a flag of go test", page, command, word, foreign)
			}
		case strings.HasPrefix(word, "-") && !slices.Contains(goFlags, word):
			foreign = word
		case word == "-run" || word == "-bench" || word == "-fuzz":
			if kind := map[string]string{"-run": "Test", "-bench": "Benchmark", "-fuzz": "Fuzz"}[word]; i+1 < len(words) && words[i+1] != "XXX" {
				runs[kind], _, _ = strings.Cut(words[i+1], "/")
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || dir == "" || len(files) == 0 {
		t.Errorf("%s: %q names no package with tests", page, command)
	}
	for kind, pattern := range runs {
		named, err := regexp.Compile(pattern)
		if err != nil {
			t.Errorf("%s: %q: %v", page, command, err)
			continue
		}
		function := regexp.MustCompile(`(?m)^func (` + kind + `\w*)\(`)
		if !slices.ContainsFunc(files, func(file string) bool {
			return slices.ContainsFunc(function.FindAllStringSubmatch(read(t, file), -1), func(m []string) bool { return named.MatchString(m[1]) })
		}) {
			t.Errorf("%s: %q: no %s of the package is meant by %q", page, command, kind, pattern)
		}
	}
}
