package dbtest

import (
	"compress/gzip"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // "pgx" for package sql
	_ "modernc.org/sqlite"             // "sqlite"
)

// Restore gives a database with the content of a file: an SQLite file (.db.gz) or a
// PostgreSQL dump (.sql.gz).
func Restore(t testing.TB, path string) (url string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".db.gz") {
		url = SQLite(t)
		if err := os.WriteFile(url, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return url
	}
	url = Postgres(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, string(content)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return url
}

// Query gives the rows of a query on a database that nothing else has open, each as
// text, values separated by |.
func Query(t testing.TB, url, text string) (list []string) {
	t.Helper()
	raw := open(t, url)
	defer raw.Close()
	rows, err := raw.Query(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	values, places := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		places[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			t.Fatal(err)
		}
		texts := make([]string, len(values))
		for i, v := range values {
			texts[i] = fmt.Sprint(v)
		}
		list = append(list, strings.Join(texts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// Tables gives the names of a database's tables, in order.
func Tables(t testing.TB, url string) []string {
	t.Helper()
	if isPostgres(url) {
		return Query(t, url, `SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`)
	}
	return Query(t, url, `SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1`)
}

// Columns gives the names of a table's columns.
func Columns(t testing.TB, url, table string) []string {
	t.Helper()
	raw := open(t, url)
	defer raw.Close()
	rows, err := raw.Query("SELECT * FROM " + table + " WHERE 1 = 0")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Schema describes the tables of a database and their indexes, for comparing.
func Schema(t testing.TB, url string) []string {
	t.Helper()
	if !isPostgres(url) {
		return Query(t, url, `SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2`)
	}
	var list []string
	for _, text := range []string{
		`SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default, is_identity, generation_expression
			FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2`,
		`SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2`,
		`SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 2`,
		`SELECT relname, reloptions FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1`,
	} {
		list = append(list, Query(t, url, text)...)
	}
	return list
}

func open(t testing.TB, url string) *sql.DB {
	t.Helper()
	driver := "sqlite"
	if isPostgres(url) {
		driver = "pgx"
	}
	raw, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func isPostgres(url string) bool { return strings.HasPrefix(url, "postgres://") }
