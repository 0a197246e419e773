package book

import (
	"context"
	"os"
	"testing"

	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/dbtest/ready"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var ctx = context.Background()

// dialects gives a fresh database of each kind.
var dialects = []struct {
	name string
	url  func(testing.TB) string
}{{"sqlite", ready.SQLite(End())}, {"postgres", ready.Postgres(End())}}

// testKeys is the master key of all test databases.
var testKeys = db.NewMasterKey([32]byte{7})

func openAt(t testing.TB, url string) *db.DB {
	t.Helper()
	d, err := db.Open(ctx, db.Config{URL: url, Keys: testKeys}, End())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() && d.Ping(ctx) == nil {
			checkKept(t, d)
		}
		d.Close()
	})
	return d
}
