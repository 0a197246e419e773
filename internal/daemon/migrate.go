package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/outbox"
)

// Migrated says what Migrate did.
type Migrated struct {
	Database string `json:"database"` // "sqlite" or "postgres"
	From     int    `json:"from"`     // the number of its schema before, 0 if there was none
	To       int    `json:"to"`
	// Oldest is the lowest number of a schema whose programs work with the database now.
	Oldest int `json:"oldest"`
}

func endOf(gateway bool) db.End {
	if gateway {
		return book.End()
	}
	return outbox.End()
}

// Migrate brings the database of an end up to date and opens nothing in it, so it needs no
// master key.
func Migrate(ctx context.Context, s Storage, gateway bool, log *slog.Logger) (Migrated, error) {
	if s.DB == "" {
		if _, err := os.Stat(s.Dir); err != nil {
			return Migrated{}, fmt.Errorf("data directory: %w", err)
		}
	}
	m := Migrated{Database: "sqlite"}
	if s.DB != "" {
		m.Database = "postgres"
	}
	var err error
	m.From, m.To, m.Oldest, err = db.Migrate(ctx, db.Config{URL: s.url(), Log: log}, endOf(gateway))
	return m, err
}

// Grants returns the statements that let a role of PostgreSQL run a daemon: it reads and
// writes rows and changes no table, and it only adds to the journal.
func Grants(ctx context.Context, s Storage, gateway bool, role string, log *slog.Logger) (text string, err error) {
	if s.DB == "" {
		return "", errors.New("--grants is for PostgreSQL: give --db")
	}
	if strings.ContainsAny(role, "\x00\r\n") {
		return "", errors.New("--grants: no role has such a name")
	}
	err = db.Look(ctx, s.DB, endOf(gateway), log, func(l db.Seen) error {
		var schema string
		if _, err := db.One(ctx, l, `SELECT COALESCE(current_schema(), '')`, nil, &schema); err != nil {
			return err
		}
		if schema == "" {
			return errors.New("this role has no schema to work in")
		}
		quote := func(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
		in, to := quote(schema), quote(role)
		text = "GRANT USAGE ON SCHEMA " + in + " TO " + to + ";\n" +
			"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + in + " TO " + to + ";\n" +
			"REVOKE INSERT, UPDATE, DELETE ON " + in + ".schema_version FROM " + to + ";\n" +
			"-- the journal: rows are added, and only its head moves\n" +
			"REVOKE UPDATE, DELETE ON " + in + "." + strings.Join(journal.AppendOnly, ", "+in+".") + " FROM " + to + ";\n" +
			"REVOKE INSERT, DELETE ON " + in + "." + journal.Head + " FROM " + to + ";\n" +
			"-- for the tables of later migrations, as the role that migrates:\n" +
			"ALTER DEFAULT PRIVILEGES IN SCHEMA " + in + " GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO " + to + ";\n"
		return nil
	})
	return text, err
}
