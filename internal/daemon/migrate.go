package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Migrated is what Migrate did.
type Migrated struct {
	Database string `json:"database"` // "sqlite" or "postgres"
	From     int    `json:"from"`     // the number of its schema before, 0 if there was none
	To       int    `json:"to"`
	// Oldest is the lowest schema number whose programs now work with the database.
	Oldest int `json:"oldest"`
}

func endOf(gateway bool) db.End {
	if gateway {
		return book.End()
	}
	return outbox.End()
}

// Migrate brings the schema of an end's database up to date. It opens nothing sealed, so it needs no master key.
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
