package countersign_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wordsAfter returns the words in backquotes that follow begin on its line of CONTRIBUTING.md.
func wordsAfter(t *testing.T, begin string) (words []string) {
	page := must(os.ReadFile("CONTRIBUTING.md"))(t)
	_, rest, found := strings.Cut(string(page), begin)
	line, _, _ := strings.Cut(rest, "\n")
	for _, m := range regexp.MustCompile("`([a-z ]+)`").FindAllStringSubmatch(line, -1) {
		words = append(words, m[1])
	}
	if !found || len(words) == 0 {
		t.Fatalf("CONTRIBUTING.md has no words after %q", begin)
	}
	return words
}

var (
	notOurs   = regexp.MustCompile(`^(internal/lab|examples|docs)/|_test\.go$`) // that are not the product
	nameParts = regexp.MustCompile(`[A-Z]+(?:[a-z0-9]+|$)|[a-z0-9]+|[A-Z]+`)
)

// TestPlainWords: the names and comments of the product and its tables have no private words, and no function's comment
// says that it gives something: it returns it.
func TestPlainWords(t *testing.T) {
	everywhere := wordsAfter(t, "**Private words**")
	inNames := append(wordsAfter(t, "**Not in names**"), everywhere...)
	inComments := regexp.MustCompile(`(?i)\b(?:` + strings.Join(everywhere, "|") + `)\b`)
	checkName := func(at, name string) {
		for _, part := range nameParts.FindAllString(name, -1) {
			if slices.Contains(inNames, strings.ToLower(part)) {
				t.Errorf("%s: name %s without %q", at, name, part)
			}
		}
	}
	checkText := func(at, text string) {
		if w := inComments.FindString(text); w != "" {
			t.Errorf("%s: write %q in a plain word", at, w)
		}
	}
	comments, tables := 0, 0
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		slashed := filepath.ToSlash(path)
		switch {
		case err != nil || d.IsDir():
			return err
		case strings.HasSuffix(path, ".sql"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			tables++
			for line := range strings.Lines(string(text)) {
				names, comment, _ := strings.Cut(line, "--")
				checkText(path, comment)
				for _, name := range regexp.MustCompile(`\w+`).FindAllString(names, -1) {
					checkName(path, name)
				}
			}
			return nil
		case !strings.HasSuffix(path, ".go") || notOurs.MatchString(slashed):
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, c := range f.Comments {
			comments++
			checkText(set.Position(c.Pos()).String(), c.Text())
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				checkName(set.Position(n.Pos()).String(), n.Name)
			case *ast.FuncDecl:
				r := n.Type.Results
				if strings.HasPrefix(n.Doc.Text(), n.Name.Name+" gives ") && r != nil && fmt.Sprint(r.List[0].Type) != "error" {
					t.Errorf("%s: %s returns, reports or is something", set.Position(n.Pos()), n.Name.Name)
				}
			}
			return true
		})
		return nil
	})
	ok(t, err)
	if comments < 4000 || tables < 5 {
		t.Errorf("%d comments and %d files of tables were found", comments, tables)
	}
}
