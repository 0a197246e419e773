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

// documents returns the pages of the repository.
func documents(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md", "../examples/*.md"} {
		found, err := filepath.Glob(pattern)
		ok(t, err)
		pages = append(pages, found...)
	}
	return pages
}

// TestLinks: what a document links to is there, the heading too.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	links := 0
	for _, page := range documents(t) {
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

// TestGoTestOfDocuments: each go test command of a document names a package and a test, a benchmark or a fuzz test of it.
func TestGoTestOfDocuments(t *testing.T) {
	command, word := regexp.MustCompile("`[^`\n]*\\bgo test ([^`\n]+)`"), regexp.MustCompile(`-(run|bench|fuzz) '?([A-Za-z]+)`)
	commands := 0
	for _, page := range documents(t) {
		for _, m := range command.FindAllStringSubmatch(read(t, page), -1) {
			commands++
			dir := regexp.MustCompile(`(?:^| )(\.[a-z/]*)`).FindStringSubmatch(m[1])
			if dir == nil {
				t.Errorf("%s: %q names no package", page, m[1])
				continue
			}
			source := ""
			files, _ := filepath.Glob(filepath.Join("..", strings.TrimSuffix(dir[1], "/..."), "*_test.go"))
			for _, file := range files {
				source += read(t, file)
			}
			for _, run := range word.FindAllStringSubmatch(m[1], -1) {
				kind := map[string]string{"run": "Test", "bench": "Benchmark", "fuzz": "Fuzz"}[run[1]]
				if run[2] != "XXX" && !regexp.MustCompile(`(?m)^func `+kind+`\w*`+strings.TrimPrefix(run[2], kind)).MatchString(source) {
					t.Errorf("%s: %q: there is no %s %s in %s", page, m[1], kind, run[2], dir[1])
				}
			}
		}
	}
	if commands < 16 {
		t.Errorf("%d commands were found", commands)
	}
}
