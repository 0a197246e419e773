package book

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"countersign/internal/db"
	"countersign/internal/db/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var ctx = context.Background()

// dialects gives a fresh database of each kind.
var dialects = []struct {
	name string
	url  func(testing.TB) string
}{{"sqlite", dbtest.SQLite}, {"postgres", dbtest.Postgres}}

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

// plan is how PostgreSQL would run text with arguments of types, by a plan that is
// kept for all arguments.
func plan(t testing.TB, d *db.DB, types, text, arguments string) string {
	t.Helper()
	var lines []string
	err := d.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		if _, err := x.Exec(ctx, `PREPARE looked `+types+` AS `+text); err != nil {
			return err
		}
		explain := `EXPLAIN (COSTS OFF) EXECUTE looked ` + arguments
		err := db.Each(ctx, x, explain, []any{pgx.QueryExecModeSimpleProtocol}, func(r db.Rows) error {
			lines = append(lines, "")
			return r.Scan(&lines[len(lines)-1])
		})
		if err != nil {
			return err
		}
		_, err = x.Exec(ctx, `DEALLOCATE looked`)
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return strings.Join(lines, "\n")
}
