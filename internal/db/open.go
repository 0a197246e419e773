package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Open opens the database at c.URL for end, brings its schema up to date and checks that c.Keys opens it. It returns
// ErrNewerSchema if a later version of this program wrote the schema, ErrOtherEnd if the database belongs to the
// other end, ErrMasterKey if another key sealed it, ErrInUse if another process has the SQLite file open, and
// ErrBroken if that file is damaged.
func Open(ctx context.Context, c Config, end End) (*DB, error) {
	if c.URL == "" || c.Keys == nil && c.FindKeys == nil || end.Name == "" || end.Migrations == nil {
		return nil, errors.New("opening the database: URL, Keys and an end are required")
	}
	if scheme, _, ok := strings.Cut(c.URL, "://"); ok && !isPostgres(c.URL) {
		return nil, fmt.Errorf("opening the database: a URL that begins with %s:// is not taken: give a postgres:// URL, or the path of a SQLite file", scheme)
	}
	d := &DB{end: end, log: c.Log, hub: &hub{}, health: &health{failed: make(chan struct{}, 1)}, world: c.World}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if err := d.open(ctx, c, end); err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	if err := d.setKey(ctx, c.Keys, c.FindKeys); err != nil {
		d.Close()
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	return d, nil
}

// Migrate brings the schema of a database up to date. It opens nothing that is sealed. It returns the number of the
// schema before and now, and the lowest schema number whose programs still work with the database.
func Migrate(ctx context.Context, c Config, end End) (before, now, oldest int, err error) {
	d := &DB{end: end, log: c.Log, hub: &hub{}}
	if err := d.open(ctx, c, end); err != nil {
		return 0, 0, 0, fmt.Errorf("opening the database: %w", err)
	}
	now, oldest, err = readVersion(ctx, d)
	return d.before, now, oldest, errors.Join(err, d.Close())
}

func (d *DB) open(ctx context.Context, c Config, end End) error {
	if isPostgres(c.URL) {
		p, err := openPostgres(ctx, c.URL, end, d.log, d.hub)
		if err != nil {
			return err
		}
		d.backend, d.dialect, d.schema = p, p.d, p.schema
		return nil
	}
	s, err := openSQLite(ctx, c, end, d.log, d.hub)
	if err != nil {
		return err
	}
	d.backend, d.dialect, d.schema = s, s.d, s.schema
	return nil
}
