package db

import (
	"context"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"countersign/internal/lab/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var ctx = context.Background()

// eachDialect runs test with a fresh database of each kind.
func eachDialect(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, dbtest.SQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, dbtest.Postgres(t)) })
}

// testKeys is the master key of all test databases.
var testKeys = NewMasterKey([32]byte{7})

// testEnd has two tables of its own, and one that the epochs use.
var testEnd = End{Name: "test", Sealed: []SealedTable{{"sealed", "id", "data_key"}}, Migrations: []fs.FS{Common, fstest.MapFS{
	"migrations/0001_things.sql": {Data: []byte(`
		CREATE TABLE audit_head (id {int} NOT NULL PRIMARY KEY, size {int} NOT NULL){strict};
		CREATE TABLE sealed (id {text} NOT NULL PRIMARY KEY, data_key {bytes} NOT NULL, content {bytes} NOT NULL){strict};
		CREATE TABLE things (name TEXT NOT NULL PRIMARY KEY, content TEXT NOT NULL){clustered};`)},
}}}

func openAt(t testing.TB, url string) *DB {
	t.Helper()
	d := must(Open(ctx, Config{URL: url, Keys: testKeys}, testEnd))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func must[T any](v T, err error) func(dbtest.Failer) T { return dbtest.Must(v, err) }

var ok = dbtest.OK

// exec runs a statement of the test's own.
func exec(t testing.TB, d *DB, text string, args ...any) int64 {
	t.Helper()
	var n int64
	ok(t, d.Write(ctx, func(ctx context.Context, x *Tx) (err error) {
		n, err = x.Exec(ctx, text, args...)
		return err
	}))
	return n
}

// keep adds a thing.
func keep(t testing.TB, d *DB, name string) {
	t.Helper()
	exec(t, d, `INSERT INTO things (name, content) VALUES ($1, '')`, name)
}
