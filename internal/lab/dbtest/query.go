package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // "pgx" for package sql
	_ "modernc.org/sqlite"             // "sqlite"
)

// Tidy does the work on a PostgreSQL database that was filled within seconds that the server would
// otherwise do in the background for minutes. Exec is that of the open database; SQLite's has none.
func Tidy(t testing.TB, postgres bool, exec func(ctx context.Context, text string, args ...any) (int64, error)) {
	t.Helper()
	if !postgres {
		return
	}
	if _, err := exec(context.Background(), "VACUUM ANALYZE"); err != nil {
		t.Fatal(err)
	}
}

// Query returns the rows of a query on a database that nothing else has open, each as
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

func open(t testing.TB, url string) *sql.DB {
	t.Helper()
	driver := "sqlite"
	if strings.HasPrefix(url, "postgres://") {
		driver = "pgx"
	}
	raw, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
