package countersign_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"countersign/internal/lab/dbtest"
)

// TestOtherSystems: every package and its tests pass the type checker for the systems that the
// README names. The checker reads sources, which takes ten seconds a system; go vet would
// compile all dependencies for each first, which takes minutes.
func TestOtherSystems(t *testing.T) {
	dbtest.Whole(t, "this test reads all dependencies four times")
	dbtest.NotRaced(t, "it has no state to share")
	for _, system := range []string{"darwin/arm64", "windows/amd64", "freebsd/amd64", "linux/arm64"} {
		t.Run(system, func(t *testing.T) {
			goos, goarch, _ := strings.Cut(system, "/")
			list, err := packages.Load(&packages.Config{
				Mode:  packages.LoadAllSyntax,
				Tests: true,
				Dir:   ".",
				Env:   append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+goos, "GOARCH="+goarch),
				// Bodies of functions of dependencies are not what is checked here.
				ParseFile: func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
					f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
					if f != nil && strings.Contains(name, "@v") {
						for _, d := range f.Decls {
							if fn, ok := d.(*ast.FuncDecl); ok {
								fn.Body = nil
							}
						}
					}
					return f, err
				},
			}, "./...")
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			packages.Visit(list, nil, func(p *packages.Package) {
				if p.PkgPath != "countersign" && !strings.HasPrefix(p.PkgPath, "countersign/") {
					return
				}
				seen++
				for _, e := range p.Errors {
					t.Error(e)
				}
			})
			if seen < 50 {
				t.Errorf("only %d packages were checked", seen)
			}
		})
	}
}
