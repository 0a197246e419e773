//go:build unix

package relay

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/internal/lab/dbtest"
)

// Each insert of docs/provider/relay.md and beside it, run as it stands there, books a deposit and has it told,
// once; a second run fails, and books and tells nothing.
func TestInsertsOfTheDocument(t *testing.T) {
	page := must(os.ReadFile("../../docs/provider/relay.md"))(t)
	_, section, _ := strings.Cut(string(page), "\n## The insert\n")
	section, _, _ = strings.Cut(section, "\n## ")
	pair := dbtest.NewPair(t) // its servers listen on ports: Java's driver knows no sockets
	addr, database := pair.Primary.Addr, "postgres"
	c := newCoreAt(t, pair.URL(addr))
	s := newService(t, "shop")
	c.exec(`CREATE TABLE booked (tracking_id text PRIMARY KEY, amount numeric NOT NULL)`)
	env := append(os.Environ(), "CORE_URL="+(&url.URL{Scheme: "postgres", User: url.User("postgres"), Host: addr, Path: "/" + database, RawQuery: "sslmode=disable"}).String(),
		"CORE_JDBC_URL=jdbc:postgresql://"+addr+"/"+database+"?user=postgres", "NODE_PATH="+nodePath())
	const driver, python = "/usr/share/java/postgresql.jar", "/usr/bin/python3" // of Debian, with Debian's psycopg2
	languages := map[string]struct {
		file    string
		needs   string // a command of sh, which fails where something is not installed
		command []string
	}{
		"sql":    {"book.sql", "command -v psql", []string{"psql", "-q", "-v", "ON_ERROR_STOP=1", "postgres://postgres@" + addr + "/" + database, "-f"}},
		"go":     {"book.go", "command -v go", []string{"go", "run"}},
		"java":   {"Book.java", "test -e " + driver + " && command -v javac", []string{"java", "-cp", driver}},
		"python": {"book.py", python + " -c 'import psycopg2'", []string{python}},
		"js":     {"book.js", `cd / && node -e 'require("pg")'`, []string{"node"}},
	}
	blocks := regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(section, -1)
	for _, language := range []string{"go", "java", "python", "js"} {
		text := must(os.ReadFile("../../docs/provider/" + languages[language].file))(t)
		blocks = append(blocks, []string{"", language, string(text)})
	}
	if len(blocks) != len(languages) {
		t.Fatalf("there are %d inserts, not %d", len(blocks), len(languages))
	}
	var want []string
	s.relay(c)
	for _, b := range blocks {
		t.Run(b[1], func(t *testing.T) {
			l, known := languages[b[1]]
			if !known {
				t.Fatal("no such language")
			}
			if !dbtest.IsWhole() && b[1] != "sql" {
				t.Skip("other languages take their time: COUNTERSIGN_WHOLE=1 runs them")
			}
			if b[1] != "sql" {
				dbtest.NotRaced(t, "other languages are processes of their own")
			}
			needs := exec.CommandContext(t.Context(), "sh", "-c", l.needs)
			needs.Env = env
			if needs.Run() != nil {
				if os.Getenv("CI") == "true" {
					t.Fatalf("not installed: %s", l.needs)
				}
				t.Skipf("skipped: not installed: %s", l.needs)
			}
			args := append(slices.Clone(l.command), filepath.Join(t.TempDir(), l.file))
			ok(t, os.WriteFile(args[len(args)-1], []byte(b[2]), 0o600))
			for n := range 2 {
				cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
				cmd.Env = env
				out, err := cmd.CombinedOutput()
				switch {
				case n == 0 && err != nil:
					t.Fatalf("%v: %v\n%s", args, err, out)
				case n == 1 && err == nil:
					t.Error("the second run books again")
				case n == 1 && !strings.Contains(string(out), "booked_pkey"):
					t.Errorf("the second run fails otherwise: %s", out)
				}
			}
			name := b[1]
			if name == "js" {
				name = "node"
			}
			want = append(want, name+"-1")
			until(t, "it is told", func() bool { return c.waiting() == "0" })
			if diff := cmp.Diff(want, s.told("shop")); diff != "" {
				t.Error(diff)
			}
		})
	}
	if n := c.one(`SELECT count(*) FROM booked`); n != fmt.Sprint(len(want)) || c.refused() != "0" {
		t.Errorf("%s are booked of %d, %s are refused", n, len(want), c.refused())
	}
}

// nodePath is where .ci/run puts pg, if the environment does not say where it is.
func nodePath() string {
	if p := os.Getenv("NODE_PATH"); p != "" {
		return p
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "countersign-node", "node_modules")
}
