package dbtest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// CheckUpgrade restores a database of schema 2, which had the tables of both ends,
// lets open bring it up to date, and checks that every row of the tables in own is
// as it was, that the other end's tables are gone, and that the schema is
// that of a new database. It gives the URL of the database.
func CheckUpgrade(t testing.TB, path string, own []string, open func(url string)) (url string) {
	t.Helper()
	url = Restore(t, path)
	own = append([]string{"alarms", "tokens"}, own...)
	before := Rows(t, url, own)
	open(url)
	if diff := cmp.Diff(before, Rows(t, url, own)); diff != "" {
		t.Errorf("rows have changed:\n%s", diff)
	}
	tables := append([]string{"feeds", "meta", "schema_version"}, own...)
	slices.Sort(tables)
	if diff := cmp.Diff(tables, Tables(t, url)); diff != "" {
		t.Errorf("tables:\n%s", diff)
	}
	fresh := SQLite(t)
	if isPostgres(url) {
		fresh = Postgres(t)
	}
	open(fresh)
	if diff := cmp.Diff(Schema(t, fresh), Schema(t, url)); diff != "" {
		t.Errorf("a new database has another schema:\n%s", diff)
	}
	return url
}

// Rows gives all rows of tables, by table.
func Rows(t testing.TB, url string, tables []string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, table := range tables {
		list := Query(t, url, "SELECT * FROM "+table)
		slices.Sort(list)
		rows[table] = list
	}
	return rows
}
