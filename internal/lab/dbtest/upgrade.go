package dbtest

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// CheckUpgrade restores a database of an earlier schema and lets open bring it up to
// date. It checks that the foreign tables, those of the other end, are gone,
// that every value in the others is as it was, and that the schema is that of a new
// database. rewritten names the columns, table.column, whose values a migration
// changes, and the tables that it replaces. It gives the URL of the database.
func CheckUpgrade(t testing.TB, path string, foreign []string, open func(url string), rewritten ...string) (url string) {
	t.Helper()
	url = Restore(t, path)
	columns := map[string][]string{}
	for _, table := range Tables(t, url) {
		switch {
		case slices.Contains(foreign, table), slices.Contains(rewritten, table), table == "schema_version":
		case table == "feeds", table == "meta": // the upgrade removes the other end's rows and adds the one that names the end
		default:
			columns[table] = slices.DeleteFunc(Columns(t, url, table), func(c string) bool { return slices.Contains(rewritten, table+"."+c) })
		}
	}
	before := values(t, url, columns)
	open(url)
	if diff := cmp.Diff(before, values(t, url, columns)); diff != "" {
		t.Errorf("rows have changed:\n%s", diff)
	}
	for _, table := range Tables(t, url) {
		if slices.Contains(foreign, table) {
			t.Errorf("it still has the other end's %s", table)
		}
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
	all := map[string][]string{}
	for _, table := range tables {
		all[table] = []string{"*"}
	}
	return values(t, url, all)
}

// values gives the rows of tables, with some of their columns.
func values(t testing.TB, url string, columns map[string][]string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for table, names := range columns {
		list := Query(t, url, "SELECT "+strings.Join(names, ", ")+" FROM "+table)
		slices.Sort(list)
		rows[table] = list
	}
	return rows
}

// CheckMigrations checks that an end has the same migrations for both databases.
func CheckMigrations(t testing.TB, files fs.FS) {
	t.Helper()
	names := func(dialect string) (list []string) {
		entries, err := fs.ReadDir(files, "migrations/"+dialect)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	sqlite, postgres := names("sqlite"), names("postgres")
	if diff := cmp.Diff(sqlite, postgres); diff != "" || len(sqlite) == 0 {
		t.Errorf("%d migrations for SQLite, %d for PostgreSQL:\n%s", len(sqlite), len(postgres), diff)
	}
}
