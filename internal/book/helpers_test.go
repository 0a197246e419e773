package book

import (
	"context"
	"flag"
	"os"
	"testing"

	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if !set && !dbtest.IsWhole() { // a hundred histories on two databases take too long
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	os.Exit(dbtest.Run(m))
}

var ctx = context.Background()

// eachBook runs test with an empty book of each database.
func eachBook(t *testing.T, test func(*testing.T, *Book)) {
	endtest.Each(t, End(), func(t *testing.T, url string) { test(t, New(openAt(t, url), Config{})) })
}

// eachPair runs test with two books of one database.
func eachPair(t *testing.T, test func(t *testing.T, ends []*Book)) {
	endtest.Each(t, End(), func(t *testing.T, url string) { test(t, pairAt(t, url)) })
}

// pairAt returns two books of one database, with PostgreSQL as two processes have them.
func pairAt(t *testing.T, url string) []*Book {
	d := openAt(t, url)
	ends := []*Book{New(d, Config{}), New(d, Config{})}
	if d.Dialect().Shared {
		ends[1] = New(openAt(t, url), Config{})
	}
	return ends
}

// testKeys is the master key of all test databases.
var testKeys = db.NewMasterKey([32]byte{7})

func openAt(t testing.TB, url string) *db.DB {
	t.Helper()
	d := must(db.Open(ctx, db.Config{URL: url, Keys: testKeys}, End()))(t)
	t.Cleanup(func() {
		if !t.Failed() && d.Ping(ctx) == nil {
			checkKept(t, d)
		}
		d.Close()
	})
	return d
}

func must[T any](v T, err error) func(dbtest.Failer) T { return dbtest.Must(v, err) }

var ok = dbtest.OK
