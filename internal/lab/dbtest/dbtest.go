// Package dbtest gives tests a fresh database of either kind.
package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// shared are the servers of a test binary, at most one of each kind.
var shared struct {
	mu         sync.Mutex
	running    bool // Run runs, which stops them
	tried      bool
	cluster    *cluster
	err        error
	triedMaria bool
	maria      *mariaDB
	mariaErr   error
	databases  int
}

// Run runs the tests and then stops the servers that Postgres and MariaDB started.
// TestMain calls it:
//
//	func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }
func Run(m *testing.M) int {
	shared.mu.Lock()
	shared.running = true
	shared.mu.Unlock()
	code := m.Run()
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

// SQLite gives the path of a database file that does not exist yet.
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

// Postgres gives the URL of an empty database in a private cluster, which the
// first call starts. If no PostgreSQL is installed, it skips the test, or fails it
// if the environment has CI=true.
func Postgres(t testing.TB) (url string) {
	t.Helper()
	return postgres(t, "template1")
}

// postgres gives the URL of a new copy of a database.
func postgres(t testing.TB, template string) (url string) {
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
	conn, err := pgx.Connect(ctx, shared.cluster.url("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+pgx.Identifier{template}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	return shared.cluster.url(name)
}

// Exec runs a statement on a database. A SQLite database must not be open elsewhere.
func Exec(t testing.TB, url, text string) {
	t.Helper()
	raw := open(t, url)
	defer raw.Close()
	if _, err := raw.Exec(text); err != nil {
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

// Copy gives a copy of a PostgreSQL database that nothing has open.
func Copy(t testing.TB, url string) string {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return postgres(t, c.Database)
}
