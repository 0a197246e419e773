// Package dbtest gives tests a fresh database of either kind, and what tests of every package need.
package dbtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// shared are the servers of a test binary, at most one of each kind.
var shared struct {
	mu         sync.Mutex
	running    bool // Run runs, which stops them
	memory     bool // temporary files are in memory
	tried      bool
	cluster    *cluster
	err        error
	triedMaria bool
	maria      *mariaDB
	mariaErr   error
	databases  int
	done       []string // databases of tests that have ended
}

// Run runs the tests, with their temporary files in memory where that is possible, and then
// stops the servers that Postgres and MariaDB started. TestMain calls it:
//
//	func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }
//
// end releases what the tests share, before files and databases are removed; its error fails the run.
func Run(m *testing.M, end ...func() error) (code int) {
	flag.Parse() // whether benchmarks run
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as a daemon has it: the heaps are small, and collecting takes a tenth of the processor time
	}
	memory, remove, err := inMemory()
	if err != nil {
		fmt.Fprintln(os.Stderr, "a directory in memory:", err)
		return 1
	}
	defer func() {
		if err := remove(); err != nil {
			fmt.Fprintln(os.Stderr, "removing the directory in memory:", err)
			code = max(code, 1)
		}
	}()
	shared.mu.Lock()
	shared.running, shared.memory = true, memory
	shared.mu.Unlock()
	code = m.Run()
	for _, end := range end {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "ending what the tests share:", err)
			code = max(code, 1)
		}
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster != nil {
		if err := shared.cluster.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping PostgreSQL:", err)
			return max(code, 1)
		}
	}
	if shared.maria != nil {
		if err := shared.maria.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping MariaDB:", err)
			return max(code, 1)
		}
	}
	return code
}

// Kinds makes an empty database of each kind.
var Kinds = map[string]func(testing.TB) string{"sqlite": SQLite, "postgres": Postgres}

// SQLite returns the path of a database file that does not exist yet.
func SQLite(t testing.TB) string { return filepath.Join(t.TempDir(), "countersign.db") }

// skipShort skips what needs a server of its own: the short tests are those that
// a person waits for.
func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test starts a database server")
	}
}

// missing skips a test whose peer is not installed, or fails it if the environment has
// CI=true.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip("skipped: ", err)
}

// Postgres returns the URL of an empty database in a private cluster, which the
// first call starts. The database is dropped after the test. If no PostgreSQL is
// installed, it skips the test, or fails it if the environment has CI=true.
func Postgres(t testing.TB) (url string) {
	t.Helper()
	return postgres(t, "template1", false)
}

// Template is Postgres for a database that outlives the test, so that others Copy it.
func Template(t testing.TB) (url string) {
	t.Helper()
	return postgres(t, "template1", true)
}

// postgres returns the URL of a new copy of a database, which is dropped after the test
// unless it is kept.
func postgres(t testing.TB, template string, keep bool) (url string) {
	t.Helper()
	skipShort(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.running {
		t.Fatal("dbtest.Postgres needs a TestMain that calls dbtest.Run")
	}
	if !shared.tried {
		shared.tried = true
		shared.cluster, shared.err = startCluster()
	}
	switch {
	case errors.Is(shared.err, errNoPostgres):
		missing(t, shared.err)
	case shared.err != nil:
		t.Fatal(shared.err)
	}
	shared.databases++
	name := fmt.Sprintf("test%d", shared.databases)
	ctx := context.Background()
	conn, err := shared.cluster.connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// Databases of ended tests are dropped here, where there is a connection: each takes eight megabytes, perhaps of
	// memory.
	for _, ended := range shared.done {
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+ended+" WITH (FORCE)"); err != nil {
			t.Fatal(err)
		}
	}
	shared.done = nil
	text := "CREATE DATABASE " + name + " TEMPLATE " + pgx.Identifier{template}.Sanitize()
	if shared.memory && version(conn) >= 15 {
		text += " STRATEGY file_copy" // in memory, copying files costs less than writing them to the log
	}
	if _, err := conn.Exec(ctx, text); err != nil {
		t.Fatal(err)
	}
	if !keep {
		t.Cleanup(func() {
			shared.mu.Lock()
			defer shared.mu.Unlock()
			shared.done = append(shared.done, name)
		})
	}
	return shared.cluster.url(name)
}

// version is the first number of PostgreSQL's version.
func version(conn *pgx.Conn) (n int) {
	_, _ = fmt.Sscanf(conn.PgConn().ParameterStatus("server_version"), "%d", &n)
	return n
}

// Exec runs a statement on a database. A SQLite database must not be open elsewhere.
func Exec(t testing.TB, url, text string) {
	t.Helper()
	if err := TryExec(t, url, text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// TryExec is Exec for what may fail.
func TryExec(t testing.TB, url, text string) error {
	t.Helper()
	raw := open(t, url)
	defer raw.Close()
	_, err := raw.Exec(text)
	return err
}

// Copy returns a copy of a PostgreSQL database that nothing has open.
func Copy(t testing.TB, url string) string {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return postgres(t, c.Database, false)
}

// Fails wants the error of a call, which says these parts.
func Fails[T any](_ T, err error) func(t testing.TB, is error, says ...string) {
	return func(t testing.TB, is error, says ...string) {
		t.Helper()
		if !errors.Is(err, is) || slices.ContainsFunc(says, func(part string) bool { return !strings.Contains(err.Error(), part) }) {
			t.Errorf("%v, want %v that says %q", err, is, says)
		}
	}
}
