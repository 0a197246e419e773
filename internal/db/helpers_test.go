package db

import (
	"context"
	"os"
	"testing"
	"testing/fstest"

	"countersign/internal/lab/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var ctx = context.Background()

// dialects gives a fresh database of each kind.
var dialects = []struct {
	name string
	url  func(testing.TB) string
}{{"sqlite", dbtest.SQLite}, {"postgres", dbtest.Postgres}}

// testKeys is the master key of all test databases.
var testKeys = NewMasterKey([32]byte{7})

// testEnd has one table of its own.
var testEnd = End{Name: "test", Sealed: []SealedTable{{"sealed", "id", "data_key"}}, Migrations: fstest.MapFS{
	"migrations/sqlite/0001_things.sql": {Data: []byte(`
		CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT;
		CREATE TABLE feeds (name TEXT NOT NULL PRIMARY KEY, last_seq INTEGER NOT NULL) STRICT;
		CREATE TABLE counts (name TEXT NOT NULL PRIMARY KEY, n INTEGER NOT NULL) STRICT;
		CREATE TABLE epochs (number INTEGER NOT NULL PRIMARY KEY, began INTEGER NOT NULL, reconciled INTEGER NOT NULL DEFAULT 0) STRICT;
		CREATE TABLE epoch_feeds (epoch INTEGER NOT NULL, feed TEXT NOT NULL, last_seq INTEGER NOT NULL) STRICT;
		CREATE TABLE audit_head (id INTEGER NOT NULL PRIMARY KEY, size INTEGER NOT NULL) STRICT;
		CREATE TABLE master_keys (number INTEGER NOT NULL PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, since INTEGER NOT NULL, replaced INTEGER NOT NULL DEFAULT 0,
			rewrapped INTEGER NOT NULL DEFAULT 0, ended INTEGER NOT NULL DEFAULT 0, next BLOB NOT NULL, self BLOB NOT NULL) STRICT;
		CREATE TABLE sealed (id TEXT NOT NULL PRIMARY KEY, data_key BLOB NOT NULL, content BLOB NOT NULL) STRICT;
		CREATE TABLE things (name TEXT NOT NULL PRIMARY KEY, content TEXT NOT NULL) STRICT;`)},
	"migrations/postgres/0001_things.sql": {Data: []byte(`
		CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value BYTEA NOT NULL);
		CREATE TABLE feeds (name TEXT NOT NULL PRIMARY KEY, last_seq BIGINT NOT NULL);
		CREATE TABLE master_keys (number BIGINT NOT NULL PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, since BIGINT NOT NULL, replaced BIGINT NOT NULL DEFAULT 0,
			rewrapped BIGINT NOT NULL DEFAULT 0, ended BIGINT NOT NULL DEFAULT 0, next BYTEA NOT NULL, self BYTEA NOT NULL);
		CREATE TABLE sealed (id TEXT NOT NULL PRIMARY KEY, data_key BYTEA NOT NULL, content BYTEA NOT NULL);
		CREATE TABLE things (name TEXT NOT NULL PRIMARY KEY, content TEXT NOT NULL);`)},
}}

func openAt(t testing.TB, url string) *DB {
	t.Helper()
	d, err := Open(ctx, Config{URL: url, Keys: testKeys}, testEnd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// exec runs a statement of the test's own.
func exec(t testing.TB, d *DB, text string, args ...any) int64 {
	t.Helper()
	var n int64
	err := d.Write(ctx, func(ctx context.Context, x *Tx) (err error) {
		n, err = x.Exec(ctx, text, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// keep adds a thing.
func keep(t testing.TB, d *DB, name string) {
	t.Helper()
	exec(t, d, `INSERT INTO things (name, content) VALUES ($1, '')`, name)
}
