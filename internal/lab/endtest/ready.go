// Package endtest is what tests of an end need. It gives them databases whose tables are made: copies of one that each
// test binary makes once of each kind, because making the tables anew takes five times the processor time of opening
// such a copy. It shows how a database would run a statement, and its alarms. It has the suite over the table of routes
// that the APIs of both ends pass: what the document says, who may call what, and which members are refused.
package endtest

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// templates are the databases to copy.
var templates struct {
	mu       sync.Mutex
	sqlite   map[string][]byte // by the name of the end
	postgres map[string]string
}

// Kinds returns a maker of databases of each kind.
func Kinds(end db.End) map[string]func(testing.TB) string {
	return map[string]func(testing.TB) string{"sqlite": SQLite(end), "postgres": Postgres(end)}
}

// Each runs test with a database of each kind.
func Each(t *testing.T, end db.End, test func(t *testing.T, url string)) {
	for name, url := range Kinds(end) {
		t.Run(name, func(t *testing.T) { test(t, url(t)) })
	}
}

// SQLite returns paths of files of end, each of its own. The master key is the one that
// opens it first.
func SQLite(end db.End) func(testing.TB) string {
	return func(t testing.TB) string {
		t.Helper()
		to := dbtest.SQLite(t)
		if err := os.WriteFile(to, sqliteOf(t, end), 0o600); err != nil {
			t.Fatal(err)
		}
		return to
	}
}

func sqliteOf(t testing.TB, end db.End) []byte {
	t.Helper()
	templates.mu.Lock()
	defer templates.mu.Unlock()
	if made := templates.sqlite[end.Name]; made != nil {
		return made
	}
	path := dbtest.SQLite(t)
	migrate(t, path, end)
	made, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if templates.sqlite == nil {
		templates.sqlite = map[string][]byte{}
	}
	templates.sqlite[end.Name] = made
	return made
}

// Postgres is SQLite for PostgreSQL, and returns URLs.
func Postgres(end db.End) func(testing.TB) string {
	return func(t testing.TB) string {
		t.Helper()
		templates.mu.Lock()
		defer templates.mu.Unlock()
		made := templates.postgres[end.Name]
		if made == "" {
			made = dbtest.Template(t)
			migrate(t, made, end)
			if templates.postgres == nil {
				templates.postgres = map[string]string{}
			}
			templates.postgres[end.Name] = made
		}
		return dbtest.Copy(t, made)
	}
}

// migrate makes the tables. The context is not the test's: its end would end the
// connections of the database that all tests copy.
func migrate(t testing.TB, url string, end db.End) {
	t.Helper()
	if _, _, _, err := db.Migrate(context.Background(), db.Config{URL: url}, end); err != nil {
		t.Fatal(err)
	}
}

// Purge runs steps of p until a walk has ended, from a time on, and returns how many rows went. It can run in a
// goroutine of its own.
func Purge(t testing.TB, p *db.Purger, now db.Millis) (total int64) {
	t.Helper()
	for {
		done, err := p.Step(context.Background(), now)
		if err != nil {
			t.Error(err)
			return total
		}
		total += done.Purged
		if done.Ended {
			return total
		}
		now += db.Millis(done.Wait.Milliseconds()) + 1
	}
}

// Sealed fails for each table with a data key that end does not list: it would be lost with the old master key.
func Sealed(t testing.TB, end db.End) {
	t.Helper()
	const keysSQL = `SELECT s.name FROM sqlite_schema s, pragma_table_info(s.name) c WHERE c.name = 'data_key'`
	for _, table := range dbtest.Query(t, SQLite(end)(t), keysSQL) {
		if !slices.ContainsFunc(end.Sealed, func(s db.SealedTable) bool { return s.Name == table }) {
			t.Errorf("End of the %s does not list %s", end.Name, table)
		}
	}
}

// Alarms returns the alarms of a database, the oldest first, a thousand at most.
func Alarms(ctx context.Context, d interface {
	AlarmsWhere(ctx context.Context, of []string, f client.AlarmFilter, limit int, before int64) ([]client.Alarm, int64, error)
}) ([]client.Alarm, error) {
	list, _, err := d.AlarmsWhere(ctx, nil, client.AlarmFilter{}, 1000, 0)
	slices.Reverse(list)
	return list, err
}
