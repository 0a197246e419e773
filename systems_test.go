package countersign_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"countersign/internal/lab/dbtest"
)

// TestOtherSystems: every package and its tests pass the type checker for the systems that the
// README names. The checker reads sources; go vet would compile all dependencies for each
// system first, which takes minutes.
func TestOtherSystems(t *testing.T) {
	dbtest.Whole(t, "this test checks all dependencies four times")
	dbtest.NotRaced(t, "it has no state to share")
	ours := func(p *packages.Package) bool {
		return p.PkgPath == "countersign" || strings.HasPrefix(p.PkgPath, "countersign/")
	}
	// Most files are those of every system, so each is read once.
	files, parsed := token.NewFileSet(), map[string]*ast.File{}
	parse := func(t *testing.T, p *packages.Package, name string) *ast.File {
		if f := parsed[name]; f != nil {
			return f
		}
		f := must(parser.ParseFile(files, name, nil, parser.SkipObjectResolution))(t)
		if !ours(p) {
			// Bodies of functions of dependencies are not what is checked here.
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					fn.Body = nil
				}
			}
		}
		parsed[name] = f
		return f
	}
	for _, system := range []string{"darwin/arm64", "windows/amd64", "freebsd/amd64", "linux/arm64"} {
		t.Run(system, func(t *testing.T) {
			goos, goarch, _ := strings.Cut(system, "/")
			list, err := packages.Load(&packages.Config{
				Mode:  packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedModule,
				Tests: true,
				Dir:   ".",
				Env:   append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+goos, "GOARCH="+goarch),
			}, "./...")
			ok(t, err)
			seen, checked := 0, map[*packages.Package]*types.Package{}
			packages.Visit(list, nil, func(p *packages.Package) { // what p imports came before it
				if strings.HasSuffix(p.ID, ".test") {
					return // the main function that go test writes
				}
				if p.PkgPath == "unsafe" {
					checked[p] = types.Unsafe
					return
				}
				config := types.Config{
					Importer:         importer(func(path string) *types.Package { return checked[p.Imports[path]] }),
					Sizes:            types.SizesFor("gc", goarch),
					IgnoreFuncBodies: !ours(p),
					Error:            func(error) {},
				}
				if p.Module != nil && p.Module.GoVersion != "" {
					config.GoVersion = "go" + p.Module.GoVersion
				}
				if ours(p) {
					seen++
					for _, e := range p.Errors {
						t.Error(e)
					}
					config.Error = func(err error) { t.Error(err) }
				}
				var source []*ast.File
				for _, name := range p.GoFiles {
					source = append(source, parse(t, p, name))
				}
				checked[p], _ = config.Check(p.PkgPath, files, source, nil)
			})
			if seen < 50 {
				t.Errorf("only %d packages were checked", seen)
			}
		})
	}
}

// importer gives the package that a path means, or nil.
type importer func(path string) *types.Package

func (i importer) Import(path string) (*types.Package, error) {
	if p := i(path); p != nil {
		return p, nil
	}
	return nil, os.ErrNotExist
}
