package db

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
)

// Seen is what Look finds out about a database. Its Querier reads until Look returns.
type Seen struct {
	Querier
	Made      bool   // it exists and has tables
	End       string // which end it belongs to; empty: it does not say
	Schema    int    // the number of its schema, 0 if there is none
	Oldest    int    // the lowest number of a schema whose programs work with it
	Knows     int    // the number that this program knows
	MayChange error  // why this role cannot change the tables; nil: it can
	Backup    bool   // it is a backup that was not restored
	InUse     bool   // a process has the SQLite file open
}

// CheckPages reads the whole database if it is a SQLite file, some hundred megabytes a second. It returns ErrBroken
// if the file's pages are damaged.
func (s Seen) CheckPages(ctx context.Context) error {
	if c, ok := s.Querier.(*sqliteConn); ok {
		return checkPages(ctx, c)
	}
	return nil
}

// Look finds out what a database is and passes it to fn. If there is none, Made is false. Look changes nothing. It
// returns ErrOtherEnd or ErrNewerSchema as Open would. A SQLite file may be in use meanwhile.
func Look(ctx context.Context, url string, end End, log *slog.Logger, fn func(Seen) error) (err error) {
	var s Seen
	var d *Dialect
	if isPostgres(url) {
		p, err := connectPostgres(ctx, url, end, log, &hub{})
		if err != nil {
			return err
		}
		defer p.pool.Close()
		s.Querier, d = p, p.d
		s.MayChange = mayChange(ctx, p, d)
		if s.Made, err = hasTable(ctx, p, d, "schema_version"); err != nil {
			return err
		}
	} else {
		f, err := os.Open(url)
		if errors.Is(err, fs.ErrNotExist) {
			return fn(s)
		}
		if err != nil {
			return err
		}
		defer f.Close()
		s.InUse = inUse(f)
		_, missing := os.Stat(url + "-wal")
		d = newSQLiteDialect()
		// The connection is read-only. One that can write copies the log when it closes, and the next start would
		// take the last end for a clean one.
		c, err := openSQLiteConn(ctx, d, sqliteDSN(url)+"&mode=ro")
		if err != nil {
			return explainSQLite(broken(err, f))
		}
		defer func() { err = errors.Join(err, c.close()) }()
		s.Querier = c
		if s.Made, err = hasTable(ctx, c, d, "schema_version"); err != nil {
			return explainSQLite(broken(err, f))
		}
		if err := c.checkComplete(ctx, url, missing == nil, true); err != nil {
			return err
		}
	}
	list, err := steps(end.Migrations, d)
	if err != nil {
		return err
	}
	s.Knows = len(list)
	if s.Made {
		if err := s.read(ctx, end); err != nil {
			return err
		}
	}
	return fn(s)
}

func (s *Seen) read(ctx context.Context, end End) (err error) {
	if s.Schema, s.Oldest, err = readVersion(ctx, s); err != nil || s.Schema == 0 {
		return err
	}
	if err := checkVersion(s.Schema, s.Oldest, s.Knows); err != nil {
		return err
	}
	if s.End, err = checkEnd(ctx, s, end, s.Schema); err != nil {
		return err
	}
	var mark []byte
	s.Backup, err = One(ctx, s, readMetaSQL, []any{metaBackup}, &mark)
	return err
}
