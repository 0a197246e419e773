package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// migrations holds a folder for each database with the same numbers in both:
// 0001_name.sql, 0002_name.sql, … A migration that was released never changes.
//
//go:embed migrations
var migrations embed.FS

// migration is one step of the schema.
type migration struct {
	number int
	name   string
	text   string
}

// readMigrations gives the migrations of a database in order. Their numbers
// run from 1 without gaps.
func readMigrations(files fs.FS, dialect string) ([]migration, error) {
	dir := path.Join("migrations", dialect)
	entries, err := fs.ReadDir(files, dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var list []migration
	for _, e := range entries {
		digits, _, _ := strings.Cut(e.Name(), "_")
		number, err := strconv.Atoi(digits)
		if err != nil || number != len(list)+1 {
			return nil, fmt.Errorf("migration %s is not number %d", e.Name(), len(list)+1)
		}
		text, err := fs.ReadFile(files, path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, migration{number, e.Name(), string(text)})
	}
	return list, nil
}

// migrator is what migrate needs of a connection: everything within run is one
// transaction that excludes other migrators.
type migrator interface {
	run(ctx context.Context, fn func(migratorTx) error) error
}

type migratorTx interface {
	script(text string) error
	version() (int, error) // highest recorded, 0 for an empty database
	record(number int) error
}

const versionTable = `CREATE TABLE IF NOT EXISTS schema_version (number BIGINT NOT NULL PRIMARY KEY)`

// migrate brings the schema up to the last of list, each step in its own
// transaction, and refuses a schema that is ahead of it.
func migrate(ctx context.Context, m migrator, list []migration) error {
	for done := false; !done; {
		err := m.run(ctx, func(t migratorTx) error {
			if err := t.script(versionTable); err != nil {
				return err
			}
			at, err := t.version()
			switch {
			case err != nil:
				return err
			case at > len(list):
				return fmt.Errorf("%w: its schema has number %d, this program knows %d", ErrNewerSchema, at, len(list))
			case at == len(list):
				done = true
				return nil
			}
			next := list[at]
			if err := t.script(next.text); err != nil {
				return fmt.Errorf("migration %s: %w", next.name, err)
			}
			return t.record(next.number)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
