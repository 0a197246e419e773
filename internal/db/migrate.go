package db

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// migrator runs one transaction of migrate, and keeps other migrators out meanwhile. Its Exec takes several
// statements at once if they have no arguments.
type migrator interface {
	run(ctx context.Context, fn func(Querier) error) error
}

// hasTable reports whether a table exists.
func hasTable(ctx context.Context, q Querier, d *Dialect, table string) (bool, error) {
	return One(ctx, q, d.table, []any{table})
}

const (
	versionTable     = `CREATE TABLE schema_version (number BIGINT NOT NULL PRIMARY KEY)`
	readVersionSQL   = `SELECT COALESCE(MAX(number), 0) FROM schema_version`
	recordVersionSQL = `INSERT INTO schema_version (number) VALUES ($1)`
)

// metaOldest is the row of meta with two numbers: the schema's, and the lowest schema number whose programs still
// work with it.
const metaOldest = "oldest schema"

// readVersion returns the number of the schema and the lowest schema number whose programs work with it. Without a
// schema both are 0.
func readVersion(ctx context.Context, q Querier) (at, oldest int, err error) {
	if _, err := One(ctx, q, readVersionSQL, nil, &at); err != nil || at == 0 {
		return at, at, err
	}
	var text []byte
	found, err := One(ctx, q, readMetaSQL, []any{metaOldest}, &text)
	if err != nil || !found {
		return at, at, err
	}
	var of int
	if n, _ := fmt.Sscan(string(text), &of, &oldest); n < 2 || of != at {
		oldest = at // the program that wrote this schema did not say
	}
	return at, oldest, nil
}

// checkVersion returns ErrNewerSchema if a program that knows schemas up to number knows does not work with the
// database.
func checkVersion(at, oldest, knows int) error {
	if at > knows && oldest > knows {
		return fmt.Errorf("%w: its schema has number %d, which works with programs that know %d or more; this one knows %d",
			ErrNewerSchema, at, oldest, knows)
	}
	return nil
}

// migrate brings the schema of end's database up to its last step, each step in its own transaction. It returns an
// error if the schema is too new for this program or belongs to the other end.
func migrate(ctx context.Context, m migrator, d *Dialect, end End) (is schema, err error) {
	list, err := steps(end.Migrations, d)
	if err != nil {
		return is, err
	}
	is = schema{before: -1, knows: len(list)}
	for done := false; !done; {
		err := m.run(ctx, func(t Querier) error {
			made, err := hasTable(ctx, t, d, "schema_version")
			if err != nil {
				return err
			}
			at, oldest := 0, 0
			if made {
				if at, oldest, err = readVersion(ctx, t); err != nil {
					return err
				}
			}
			if is.before < 0 {
				is.before = at
			}
			if _, err := checkEnd(ctx, t, end, at); err != nil {
				return err
			}
			if at >= len(list) {
				done = true
				return checkVersion(at, oldest, len(list))
			}
			if err := mayChange(ctx, t, d); err != nil {
				return fmt.Errorf("%w: its schema has number %d, this program needs %d, and %w: run countersign migrate with a role that may", ErrOutdated, at, len(list), err)
			}
			if !made {
				if _, err := t.Exec(ctx, versionTable); err != nil {
					return err
				}
			}
			next := list[at]
			if _, err := t.Exec(ctx, next.text); err != nil {
				return fmt.Errorf("migration %s: %w", next.name, err)
			}
			for name, value := range map[string]string{endName: end.Name, metaOldest: fmt.Sprint(next.number, next.oldest)} {
				if _, err := t.Exec(ctx, setMetaSQL, name, []byte(value)); err != nil {
					return err
				}
			}
			_, err = t.Exec(ctx, recordVersionSQL, int64(next.number))
			return err
		})
		if err != nil {
			return is, err
		}
	}
	return is, nil
}

// endName is the row of meta that says which end a database belongs to.
const endName = "end"

// checkEnd returns which end the database belongs to, and ErrOtherEnd if that is the other one. at is the number of
// its schema.
func checkEnd(ctx context.Context, q Querier, end End, at int) (string, error) {
	if at == 0 {
		return "", nil
	}
	var name []byte
	found, err := One(ctx, q, readMetaSQL, []any{endName}, &name)
	if err == nil && found && string(name) != end.Name {
		err = fmt.Errorf("%w: it belongs to the %s, this is the %s", ErrOtherEnd, name, end.Name)
	}
	return string(name), err
}

// Common holds the tables that both ends have, except those of the audit log.
//
//go:embed migrations
var Common embed.FS

// step is one step of an end's schema.
type step struct {
	number int
	name   string // of its files
	text   string // without marks
	// oldest is the lowest schema number whose programs still work with this one, besides newer ones. A file states
	// it in its first line, "-- oldest: 18". Without that line it is the file's own number. Of several files the
	// highest counts.
	//
	// A change takes two versions. The first adds, with a default, and keeps oldest. The next removes what is unused,
	// and its oldest is the number of the first. A column keeps its type.
	oldest int
}

const oldestMark = "-- oldest: "

func oldestOf(number int, text string) (int, error) {
	line, _, _ := strings.Cut(text, "\n")
	digits, ok := strings.CutPrefix(line, oldestMark)
	if !ok {
		return number, nil
	}
	oldest, err := strconv.Atoi(digits)
	if err != nil || oldest < 1 || oldest > number {
		return 0, fmt.Errorf("%q is not a number up to its own", digits)
	}
	return oldest, nil
}

// steps returns the migrations of an end in order, for d. Files with the same number are one step, in the order of
// parts. Numbers run from 1 without gaps. A released migration never changes.
func steps(parts []fs.FS, d *Dialect) ([]step, error) {
	byNumber := map[int]step{}
	for _, files := range parts {
		entries, err := fs.ReadDir(files, "migrations")
		if err != nil {
			return nil, err
		}
		last := 0
		for _, e := range entries { // sorted by name
			digits, _, _ := strings.Cut(e.Name(), "_")
			number, err := strconv.Atoi(digits)
			if err != nil || number <= last {
				return nil, fmt.Errorf("migration %s has no number of its own", e.Name())
			}
			last = number
			text, err := fs.ReadFile(files, "migrations/"+e.Name())
			if err != nil {
				return nil, err
			}
			oldest, err := oldestOf(number, string(text))
			if err != nil {
				return nil, fmt.Errorf("migration %s: %w", e.Name(), err)
			}
			s := byNumber[number]
			s.number, s.oldest = number, max(s.oldest, oldest)
			s.name = strings.TrimPrefix(s.name+" "+e.Name(), " ")
			s.text += d.marks.Replace(string(text))
			byNumber[number] = s
		}
	}
	list := make([]step, len(byNumber))
	for i := range list {
		s, ok := byNumber[i+1]
		if !ok {
			return nil, fmt.Errorf("there is no migration with number %d", i+1)
		}
		list[i] = s
	}
	return list, nil
}

// mayChangeSQL returns the role, the schema, whether the role may create there, and whether it owns the existing
// tables.
const mayChangeSQL = `
SELECT current_user, COALESCE(current_schema(), ''), COALESCE(has_schema_privilege(current_schema(), 'CREATE'), FALSE),
	NOT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'schema_version' AND NOT pg_has_role(tableowner, 'USAGE'))`

// mayChange returns an error if the role may not change the tables.
func mayChange(ctx context.Context, q Querier, d *Dialect) error {
	if !d.Shared {
		return nil
	}
	var role, schema string
	var create, owns bool
	_, err := One(ctx, q, mayChangeSQL, nil, &role, &schema, &create, &owns)
	switch {
	case err != nil:
		return err
	case schema == "":
		return fmt.Errorf("the role %s has no schema to work in: grant it USAGE", role)
	case !create:
		return fmt.Errorf("the role %s may not create anything in the schema %s", role, schema)
	case !owns:
		return fmt.Errorf("the role %s does not own the tables of the schema %s", role, schema)
	}
	return nil
}
