package countersign_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// house is the map of the packages: what of this module, and what of others,
// each of them may import. ARCHITECTURE.md says why it is so. A package that
// is not listed has no place in the house.
var house = map[string]struct{ ours, others []string }{
	"countersign":              {ours: []string{"countersign/internal/web"}},
	"countersign/internal/web": {},
	"countersign/envelope": {
		ours:   []string{"countersign/internal/web"},
		others: []string{"filippo.io/bigmod", "github.com/dunglas/httpsfv"},
	},
	"countersign/internal/db": {
		ours:   []string{"countersign/client"},
		others: []string{"github.com/jackc/pgx/v5", "modernc.org/sqlite", "golang.org/x/sys"},
	},
	"countersign/internal/lab/dbtest": {others: []string{"github.com/go-sql-driver/mysql", "github.com/google/go-cmp", "github.com/jackc/pgx/v5", "modernc.org/sqlite"}},
	"countersign/internal/lab/endtest": {
		ours:   []string{"countersign/client", "countersign/internal/api", "countersign/internal/db", "countersign/internal/lab/dbtest"},
		others: []string{"github.com/danielgtaylor/huma/v2", "github.com/jackc/pgx/v5"},
	},
	"countersign/internal/journal": {
		ours:   []string{"countersign", "countersign/client", "countersign/envelope", "countersign/internal/db"},
		others: []string{"golang.org/x/mod"},
	},
	"countersign/internal/outbox": {ours: []string{"countersign", "countersign/client", "countersign/envelope", "countersign/internal/journal", "countersign/internal/db"}},
	"countersign/internal/book":   {ours: []string{"countersign", "countersign/client", "countersign/merchant", "countersign/internal/journal", "countersign/internal/db", "countersign/internal/policy"}},
	"countersign/internal/dispatch": {
		ours:   []string{"countersign", "countersign/client", "countersign/envelope", "countersign/internal/web", "countersign/internal/db", "countersign/internal/outbox"},
		others: []string{"code.dny.dev/ssrf"},
	},
	"countersign/client": {ours: []string{"countersign", "countersign/envelope"}, others: []string{"golang.org/x/mod"}},
	"countersign/internal/api": {
		ours:   []string{"countersign", "countersign/client", "countersign/internal/journal", "countersign/internal/web", "countersign/internal/db"},
		others: []string{"github.com/coreos/go-oidc/v3", "github.com/danielgtaylor/huma/v2", "golang.org/x/oauth2", "golang.org/x/time"},
	},
	"countersign/internal/admin": {
		ours: []string{"countersign", "countersign/client", "countersign/envelope", "countersign/internal/api", "countersign/internal/journal", "countersign/internal/web", "countersign/internal/db",
			"countersign/internal/outbox"},
		others: []string{"github.com/danielgtaylor/huma/v2"},
	},
	"countersign/merchant":          {ours: []string{"countersign", "countersign/envelope", "countersign/internal/web"}},
	"countersign/merchant/sqlinbox": {ours: []string{"countersign", "countersign/merchant"}},
	"countersign/countersigntest": {
		ours: []string{"countersign", "countersign/envelope", "countersign/merchant"},
	},
	"countersign/conformance": {
		ours: []string{"countersign", "countersign/client", "countersign/envelope", "countersign/merchant", "countersign/countersigntest"},
	},
	"countersign/internal/policy": {
		ours:   []string{"countersign", "countersign/client"},
		others: []string{"github.com/BurntSushi/toml"},
	},
	"countersign/internal/gateway": {
		ours: []string{"countersign", "countersign/client", "countersign/envelope", "countersign/merchant", "countersign/internal/journal", "countersign/internal/web", "countersign/internal/book", "countersign/internal/api",
			"countersign/internal/db", "countersign/internal/policy"},
		others: []string{"github.com/BurntSushi/toml", "github.com/danielgtaylor/huma/v2", "golang.org/x/time"},
	},
	"countersign/internal/reconcile": {ours: []string{"countersign", "countersign/client", "countersign/internal/book", "countersign/internal/db", "countersign/internal/outbox",
		"countersign/internal/web"}},
	"countersign/internal/relay": {
		ours:   []string{"countersign/client", "countersign/internal/db", "countersign/internal/web"},
		others: []string{"github.com/jackc/pgx/v5", "github.com/prometheus/client_golang"},
	},
	"countersign/examples/go": {
		ours: []string{"countersign", "countersign/envelope", "countersign/merchant", "countersign/merchant/sqlinbox"}, others: []string{"modernc.org/sqlite"},
	},
	"countersign/examples/verify-ethereum": {ours: []string{"countersign", "countersign/merchant"}},
	"countersign/internal/console":         {ours: []string{"countersign", "countersign/client", "countersign/internal/web"}},
	"countersign/internal/daemon": {
		ours: []string{"countersign", "countersign/client", "countersign/envelope", "countersign/merchant", "countersign/internal/admin", "countersign/internal/journal", "countersign/internal/web",
			"countersign/internal/book", "countersign/internal/console", "countersign/internal/api", "countersign/internal/db", "countersign/internal/dispatch",
			"countersign/internal/gateway", "countersign/internal/policy", "countersign/internal/outbox", "countersign/internal/reconcile"},
		others: []string{"github.com/prometheus/client_golang"},
	},
	"countersign/internal/demo": {
		ours: []string{"countersign", "countersign/client", "countersign/conformance", "countersign/countersigntest", "countersign/envelope", "countersign/merchant",
			"countersign/internal/daemon", "countersign/internal/db", "countersign/internal/gateway", "countersign/internal/policy",
			"countersign/internal/reconcile"},
	},
	"countersign/internal/bench": {
		ours: []string{"countersign", "countersign/client", "countersign/countersigntest", "countersign/envelope", "countersign/merchant",
			"countersign/internal/daemon", "countersign/internal/db", "countersign/internal/dispatch", "countersign/internal/api", "countersign/internal/outbox"},
	},
	"countersign/internal/lab/sim": {ours: []string{"countersign", "countersign/client", "countersign/countersigntest", "countersign/envelope", "countersign/merchant", "countersign/internal/journal", "countersign/internal/reconcile", "countersign/internal/daemon",
		"countersign/internal/db", "countersign/internal/gateway", "countersign/internal/policy"}},
	"countersign/cmd/countersign": {
		ours: []string{"countersign", "countersign/client", "countersign/envelope", "countersign/conformance", "countersign/countersigntest", "countersign/merchant", "countersign/internal/admin", "countersign/internal/journal",
			"countersign/internal/api", "countersign/internal/bench", "countersign/internal/daemon", "countersign/internal/demo", "countersign/internal/gateway", "countersign/internal/policy",
			"countersign/internal/reconcile", "countersign/internal/relay", "countersign/internal/web"},
		others: []string{"github.com/alecthomas/kong", "github.com/BurntSushi/toml"},
	},
}

// restricted are imports that belong to some packages alone.
var restricted = map[string][]string{
	"database/sql":        {"countersign/internal/db", "countersign/internal/lab/dbtest", "countersign/merchant/sqlinbox", "countersign/examples/go"},
	"database/sql/driver": {},
	"flag":                {"countersign/internal/lab/dbtest", "countersign/internal/lab/endtest"},
	"os/exec":             {"countersign/cmd/countersign", "countersign/internal/daemon", "countersign/internal/lab/dbtest"},
	"os/signal":           {"countersign/cmd/countersign"},
	"unsafe":              {},
	"math/rand":           {},
}

type listed struct {
	ImportPath string
	Name       string
	Doc        string
	Imports    []string
	GoFiles    []string
}

func listPackages(t *testing.T) []listed {
	out, err := exec.Command("go", "list", "-json=ImportPath,Name,Doc,Imports,GoFiles", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return pkgs
		case err != nil:
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 {
			pkgs = append(pkgs, p)
		}
	}
}

func TestHouse(t *testing.T) {
	pkgs := listPackages(t)
	if len(pkgs) < 3 {
		t.Fatalf("go list found %d packages", len(pkgs))
	}
	for _, p := range pkgs {
		rooms, ok := house[p.ImportPath]
		if !ok {
			t.Errorf("package %s is not in the map of the house", p.ImportPath)
			continue
		}
		if p.Doc == "" {
			t.Errorf("package %s has no package comment", p.ImportPath)
		}
		for _, imp := range p.Imports {
			if who, ok := restricted[imp]; ok && !slices.Contains(who, p.ImportPath) {
				t.Errorf("package %s may not import %s", p.ImportPath, imp)
			}
			if allowed := importAllowed(imp, rooms.ours, rooms.others); !allowed {
				t.Errorf("package %s may not import %s", p.ImportPath, imp)
			}
		}
	}
}

func importAllowed(imp string, ours, others []string) bool {
	first, _, _ := strings.Cut(imp, "/")
	switch {
	case first == "countersign":
		return slices.Contains(ours, imp)
	case !strings.Contains(first, "."):
		return true // standard library
	}
	return slices.ContainsFunc(others, func(o string) bool { return imp == o || strings.HasPrefix(imp, o+"/") })
}

// TestHouseRefuses keeps the map honest: it must be able to say no.
func TestHouseRefuses(t *testing.T) {
	rooms := house["countersign"]
	for _, imp := range []string{"countersign/envelope", "filippo.io/bigmod", "github.com/jackc/pgx/v5"} {
		if importAllowed(imp, rooms.ours, rooms.others) {
			t.Errorf("the root package may import %s", imp)
		}
	}
	rooms = house["countersign/internal/dispatch"]
	for _, imp := range []string{"countersign/internal/admin", "github.com/jackc/pgx/v5/stdlib", "code.dny.dev/ssrfish"} {
		if importAllowed(imp, rooms.ours, rooms.others) {
			t.Errorf("dispatch may import %s", imp)
		}
	}
}

// TestEveryDependencyHasItsLine: CONTRIBUTING.md says of each direct dependency
// what it is for.
func TestEveryDependencyHasItsLine(t *testing.T) {
	mod := must(os.ReadFile("go.mod"))(t)
	contributing := must(os.ReadFile("CONTRIBUTING.md"))(t)
	direct := regexp.MustCompile(`(?m)^(?:require )?\t?([a-z0-9.-]+\.[a-z]+/\S+) v\S+$`).FindAllSubmatch(mod, -1)
	if len(direct) < 3 {
		t.Fatalf("found %d direct dependencies in go.mod", len(direct))
	}
	for _, m := range direct {
		if !bytes.Contains(contributing, m[1]) {
			t.Errorf("CONTRIBUTING.md does not say what %s is for", m[1])
		}
	}
}

// TestFileSizes: no Go file grows past what can be read at once.
func TestFileSizes(t *testing.T) {
	out := must(exec.Command("go", "list", "-f", `{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .TestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}`, "./...").Output())(t)
	files := strings.Fields(string(out))
	if len(files) < 10 {
		t.Fatalf("found %d files", len(files))
	}
	for _, f := range files {
		b := must(os.ReadFile(f))(t)
		if n := bytes.Count(b, []byte("\n")); n > 800 {
			t.Errorf("%s has %d lines", f, n)
		}
	}
}
