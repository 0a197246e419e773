package countersign_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// commonTables are those of both ends, with the package whose SQL reads and writes each. A table
// that begins with audit_ is audit's. Any other belongs to the package that has its schema.
var commonTables = map[string]string{
	"alarms": "internal/db", "counts": "internal/db", "ended_sessions": "internal/db", "epochs": "internal/db",
	"feeds": "internal/db", "meta": "internal/db", "nodes": "internal/db", "schema_version": "internal/db", "votes": "internal/db",
	"changes": "internal/api", "signing_key": "internal/daemon", "sessions": "internal/api", "tokens": "internal/api",
}

var (
	createsTable = regexp.MustCompile(`(?m)^\s*CREATE (?:TABLE|VIEW) (?:IF NOT EXISTS )?([a-z_]+)`)
	// A list after FROM may name several: what follows a comma is a table too.
	namesTable = regexp.MustCompile(`\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(?:ONLY\s+)?([a-z_]+(?:\s+(?:AS\s+)?[a-z]+)?(?:,\s*[a-z_]+(?:\s+(?:AS\s+)?[a-z]+)?)*)`)
)

// allColumns: a node that runs beside a later version must not read columns that were added meanwhile.
var allColumns = regexp.MustCompile(`^\s*SELECT \*\s+FROM [a-z]|RETURNING \*`)

// exceptions are tables that another package may name too.
var exceptions = map[[2]string]string{
	{"internal/db", "audit_head"}: "how many records the log has says how far a database has come, also one that is not open",
}

// tableOwners reads the schemas: the tables, each with its packages.
func tableOwners(t *testing.T) map[string][]string {
	owners := map[string][]string{}
	own := func(name, in string) {
		if !slices.Contains(owners[name], in) {
			owners[name] = append(owners[name], in)
		}
	}
	err := filepath.WalkDir("internal", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".sql") || strings.Contains(path, "testdata") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		in := filepath.ToSlash(filepath.Dir(path))
		in, _, _ = strings.Cut(in, "/migrations")
		for _, m := range createsTable.FindAllSubmatch(text, -1) {
			switch name := string(m[1]); {
			case commonTables[name] != "":
				own(name, commonTables[name])
			case strings.HasPrefix(name, "audit_"):
				own(name, "internal/journal")
			default:
				own(name, in)
			}
		}
		return nil
	})
	ok(t, err)
	return owners
}

// foreignTables says where the strings of a Go file, which is in package in, name a table of another package.
func foreignTables(owners map[string][]string, in, file string, src any) (faults []string, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, src, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			return true
		}
		if allColumns.MatchString(text) {
			faults = append(faults, fmt.Sprintf("%s:%d: name the columns", file, set.Position(lit.Pos()).Line))
		}
		for _, m := range namesTable.FindAllStringSubmatchIndex(text, -1) {
			for _, one := range strings.Split(text[m[2]:m[3]], ",") {
				name := strings.Fields(one)[0]
				if owner := owners[name]; len(owner) == 0 || slices.ContainsFunc(owner, func(o string) bool { return in == o || strings.HasPrefix(in, o+"/") }) || exceptions[[2]string{in, name}] != "" {
					continue
				}
				line := set.Position(lit.Pos()).Line + strings.Count(text[:m[2]], "\n")
				faults = append(faults, fmt.Sprintf("%s:%d: the table %s belongs to %s", file, line, name, strings.Join(owners[name], " and ")))
			}
		}
		return true
	})
	return faults, nil
}

// TestTablesHaveOneOwner: SQL names the tables of its own package. What another package needs of
// them, their owner offers as a function, or as a condition to put into a statement.
func TestTablesHaveOneOwner(t *testing.T) {
	owners := tableOwners(t)
	if len(owners) < 30 {
		t.Fatalf("found %d tables", len(owners))
	}
	for name := range commonTables {
		if owners[name] == nil && name != "schema_version" {
			t.Errorf("no schema has the table %s", name)
		}
	}
	for _, root := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && path == filepath.Join("internal", "lab"):
				return fs.SkipDir
			case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			faults, err := foreignTables(owners, filepath.ToSlash(filepath.Dir(path)), path, nil)
			for _, f := range faults {
				t.Error(f)
			}
			return err
		})
		ok(t, err)
	}
}

// TestTablesHaveOneOwnerRefuses keeps the test honest: it must be able to say no.
func TestTablesHaveOneOwnerRefuses(t *testing.T) {
	src := "package x\n\nconst q = `\nSELECT 1 FROM mine JOIN theirs t ON t.id = mine.id`\n\nvar r = `UPDATE theirs SET a = 1` + `LOCK TABLE theirs IN X` + `DELETE FROM mine m, theirs` + `INSERT INTO theirs (a) VALUES (1)` + `words from theirs`\n\nvar s = `SELECT * FROM mine` + `SELECT * FROM (SELECT a FROM mine)`\n"
	got := must(foreignTables(map[string][]string{"mine": {"internal/x"}, "theirs": {"internal/y"}}, "internal/x", "x.go", src))(t)
	const fault = ": the table theirs belongs to internal/y"
	want := []string{"x.go:4" + fault, "x.go:6" + fault, "x.go:6" + fault, "x.go:6" + fault, "x.go:6" + fault, "x.go:8: name the columns"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
