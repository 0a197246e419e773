package db

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// migration is one step of the schema: 0001_name.sql, 0002_name.sql, … A
// released migration never changes.
type migration struct {
	number int
	name   string
	text   string
}

// readMigrations gives the migrations for a dialect in order. Their numbers
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

// migrator is a connection for migrate. run runs one transaction and excludes other
// migrators meanwhile.
type migrator interface {
	run(ctx context.Context, fn func(migratorTx) error) error
}

type migratorTx interface {
	Querier
	script(text string) error
	// lock locks a table until the transaction ends. It reports whether the table
	// exists.
	lock(table string) (bool, error)
}

const (
	versionTable     = `CREATE TABLE IF NOT EXISTS schema_version (number BIGINT NOT NULL PRIMARY KEY)`
	readVersionSQL   = `SELECT COALESCE(MAX(number), 0) FROM schema_version`
	recordVersionSQL = `INSERT INTO schema_version (number) VALUES ($1)`
)

// migrate brings the schema of end's database up to the last of list, each step in
// its own transaction. It refuses a schema that is newer than list or not end's.
func migrate(ctx context.Context, m migrator, end End, list []migration) error {
	for done := false; !done; {
		err := m.run(ctx, func(t migratorTx) error {
			if err := t.script(versionTable); err != nil {
				return err
			}
			var at int
			if _, err := One(ctx, t, readVersionSQL, nil, &at); err != nil {
				return err
			}
			if err := checkEnd(ctx, t, end, at); err != nil {
				return err
			}
			switch {
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
			if step := end.Steps[next.number]; step != nil {
				if err := step(ctx, t); err != nil {
					return fmt.Errorf("migration %s: %w", next.name, err)
				}
			}
			if _, err := t.Exec(ctx, writeMetaSQL, endName, []byte(end.Name)); err != nil {
				return err
			}
			_, err := t.Exec(ctx, recordVersionSQL, int64(next.number))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// endName is the row of meta that says which end a database belongs to.
	endName = "end"
	// schemaOfBoth is the number of the last schema with the tables of both ends. Such
	// a database does not say which end it belongs to.
	schemaOfBoth = 2
)

// checkEnd fails with ErrOtherEnd if the database, whose schema has number at,
// belongs to the other end, or if its schema has the tables of both ends and one of
// the other end's holds a row.
func checkEnd(ctx context.Context, t migratorTx, end End, at int) error {
	if at == 0 {
		return nil
	}
	var name []byte
	switch found, err := One(ctx, t, readMetaSQL, []any{endName}, &name); {
	case err != nil:
		return err
	case found && string(name) != end.Name:
		return fmt.Errorf("%w: it belongs to the %s, this is the %s", ErrOtherEnd, name, end.Name)
	case found || at > schemaOfBoth:
		return nil
	}
	if _, err := t.lock("feeds"); err != nil { // first, as in every transaction
		return err
	}
	for _, table := range end.Foreign {
		exists, err := t.lock(table)
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		var is int
		held, err := One(ctx, t, "SELECT 1 FROM "+table+" LIMIT 1", nil, &is)
		switch {
		case err != nil:
			return err
		case held:
			return fmt.Errorf("%w: the table %s holds rows of the other end, and each end needs a database of its own; "+
				"nothing was changed; CHANGELOG.md says under \"Upgrading\" how to divide it", ErrOtherEnd, table)
		}
	}
	return nil
}
