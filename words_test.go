package countersign_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// privateWords are words of which a reader cannot know what they mean here.
var privateWords = regexp.MustCompile(`\b(?:told|kin|apart|aside|deeds|aged|hear|as far as|how far)\b`)

// TestPlainWords: the comments of the public packages have no private words, and no
// function's comment says that it gives something: it returns it.
func TestPlainWords(t *testing.T) {
	comments := 0
	for _, pattern := range []string{"*.go", "envelope/*.go", "merchant/*.go", "merchant/*/*.go", "client/*.go", "countersigntest/*.go", "conformance/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range f.Comments {
				comments++
				if w := privateWords.FindString(c.Text()); w != "" {
					t.Errorf("%s: write %q in a plain word", set.Position(c.Pos()), w)
				}
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Doc.Text(), fn.Name.Name+" gives ") {
					t.Errorf("%s: %s returns, reports or is something", set.Position(fn.Pos()), fn.Name.Name)
				}
			}
		}
	}
	if comments < 1000 {
		t.Errorf("%d comments were found", comments)
	}
}
