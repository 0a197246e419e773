package relay

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"countersign/internal/lab/dbtest"
)

// network makes a server that has only a socket listen on a port of this machine: Java's
// driver knows no sockets.
func network(t *testing.T, rawURL string) (host, database string) {
	t.Helper()
	c := must(pgconn.ParseConfig(rawURL))(t)
	_, socket := pgconn.NetworkAddress(c.Host, c.Port)
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("unix", socket)
				if err != nil {
					return
				}
				defer out.Close()
				go func() {
					_, _ = io.Copy(out, in)
					out.Close()
				}()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return l.Addr().String(), c.Database
}

// Each insert of docs/provider/relay.md and beside it, run as it stands there, books a deposit and has it told,
// once; a second run fails, and books and tells nothing.
func TestInsertsOfTheDocument(t *testing.T) {
	page := must(os.ReadFile("../../docs/provider/relay.md"))(t)
	_, section, _ := strings.Cut(string(page), "\n## The insert\n")
	section, _, _ = strings.Cut(section, "\n## ")
	c := newCore(t)
	s := newService(t, "shop")
	c.exec(`CREATE TABLE booked (tracking_id text PRIMARY KEY, amount numeric NOT NULL)`)
	addr, database := network(t, c.url)
	env := append(os.Environ(), "CORE_URL="+(&url.URL{Scheme: "postgres", User: url.User("postgres"), Host: addr, Path: "/" + database, RawQuery: "sslmode=disable"}).String(),
		"CORE_JDBC_URL=jdbc:postgresql://"+addr+"/"+database+"?user=postgres", "NODE_PATH="+nodePath())
	const driver = "/usr/share/java/postgresql.jar"
	languages := map[string]struct {
		file    string
		lacking func() string // what is not installed; empty: nothing
		command func(file string) []string
	}{
		"sql": {"book.sql", program("psql"), func(f string) []string {
			return []string{"psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", f, "postgres://postgres@" + addr + "/" + database}
		}},
		"go": {"book.go", program("go"), func(f string) []string { return []string{"go", "run", f} }},
		"java": {"Book.java", func() string {
			if _, err := os.Stat(driver); err != nil {
				return driver
			}
			return program("javac")()
		}, func(f string) []string { return []string{"java", "-cp", driver, f} }},
		"python": {"book.py", func() string {
			if exec.Command(python, "-c", "import psycopg2").Run() != nil {
				return "psycopg2 of " + python
			}
			return ""
		}, func(f string) []string { return []string{python, f} }},
		"js": {"book.js", func() string {
			cmd := exec.Command("node", "-e", `require("pg")`)
			cmd.Env, cmd.Dir = env, t.TempDir()
			if cmd.Run() != nil {
				return "node with pg"
			}
			return ""
		}, func(f string) []string { return []string{"node", f} }},
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
			l, ok := languages[b[1]]
			if !ok {
				t.Fatal("no such language")
			}
			if !dbtest.IsWhole() && b[1] != "sql" {
				t.Skip("other languages take their time: COUNTERSIGN_WHOLE=1 runs them")
			}
			if b[1] != "sql" {
				dbtest.NotRaced(t, "other languages are processes of their own")
			}
			if lacking := l.lacking(); lacking != "" {
				if os.Getenv("CI") == "true" {
					t.Fatalf("not installed: %s", lacking)
				}
				t.Skipf("skipped: not installed: %s", lacking)
			}
			file := filepath.Join(t.TempDir(), l.file)
			if err := os.WriteFile(file, []byte(b[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			args := l.command(file)
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

// python is Debian's, for which Debian's psycopg2 is installed.
const python = "/usr/bin/python3"

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

func program(name string) func() string {
	return func() string {
		if _, err := exec.LookPath(name); err != nil {
			return name
		}
		return ""
	}
}
