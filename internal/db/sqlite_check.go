package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// checkTime is the time limit of the check after an unclean end. The check reads some hundred megabytes a second.
const checkTime = 10 * time.Second

// quickCheck reads the whole database, for at most checkTime, and returns an error that names what is damaged.
func (c *sqliteConn) quickCheck(ctx context.Context, file *os.File, log *slog.Logger) error {
	bounded, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	begun := time.Now()
	err := checkPages(bounded, c)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		log.Warn("the check of the database after a crash did not come to its end", "checked", checkTime)
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	log.Info("the database was checked after a crash", "ms", time.Since(begun).Milliseconds())
	return nil
}

// checkPages reads the whole of a SQLite database. It returns ErrBroken with the numbers of the damaged
// pages.
func checkPages(ctx context.Context, q Querier) error {
	var faults []string
	err := Each(ctx, q, `PRAGMA quick_check(5)`, nil, func(r Rows) error {
		var line string
		err := r.Scan(&line)
		if line != "ok" {
			faults = append(faults, strings.ReplaceAll(line, "\n", "; "))
		}
		return err
	})
	if len(faults) > 0 {
		return fmt.Errorf("%w: %s", ErrBroken, strings.Join(faults, "; "))
	}
	return explainSQLite(err)
}

// broken turns SQLite's error about a damaged file into ErrBroken.
func broken(err error, file *os.File) error {
	var e *sqlite.Error
	if errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_IOERR_READ || e.Code()&0xff == sqlite3.SQLITE_CORRUPT ||
		e.Code()&0xff == sqlite3.SQLITE_NOTADB) {
		return fmt.Errorf("%w: %s: %w", ErrBroken, file.Name(), err)
	}
	return err
}

// While a SQLite database is in use, its newest rows may be only in its log. A copy of the file without the log
// opens, and lacks those rows. So the file has the row metaIncomplete, which the log removes again. The row is
// written before the log is copied into the file, and deleted once the log has begun anew. Another program that opens
// the database after a crash copies the whole log, and the file then lacks the row. (If the crash came while the log
// was being copied, the file is refused although it is whole.)
const metaIncomplete = "without its log"

func markIncomplete(is bool) func(context.Context, *Tx) error {
	text, args := dropMetaSQL, []any{metaIncomplete}
	if is {
		text, args = setMetaSQL, append(args, []byte{})
	}
	return func(ctx context.Context, t *Tx) error {
		_, err := t.Exec(ctx, text, args...)
		return err
	}
}

// checkComplete returns an error for a copy that has no log, and for a backup that was not restored.
func (c *sqliteConn) checkComplete(ctx context.Context, path string, logged, restoring bool) error {
	if found, err := hasTable(ctx, c, c.d, "meta"); err != nil || !found {
		return err
	}
	var mark []byte
	backup, err1 := One(ctx, c, readMetaSQL, []any{metaBackup}, &mark)
	incomplete, err2 := One(ctx, c, readMetaSQL, []any{metaIncomplete}, &mark)
	switch err := errors.Join(err1, err2); {
	case err != nil:
		return err
	case backup && !restoring:
		return fmt.Errorf("%w: %s is a backup", ErrOlder, path)
	case incomplete && !logged:
		return fmt.Errorf("%w: %s was copied while it was in use, without its log %s-wal, which has the newest rows: copy both", ErrBroken, path, path)
	}
	return nil
}

// markAtOpen marks a database that was just opened: first the file itself, then its log.
func (c *sqliteConn) markAtOpen(ctx context.Context) error {
	t := &Tx{Querier: c}
	if err := markIncomplete(true)(ctx, t); err != nil {
		return err
	}
	var busy, size, copied int
	if _, err := One(ctx, c, "PRAGMA wal_checkpoint(TRUNCATE)", nil, &busy, &size, &copied); err != nil {
		return err
	}
	return markIncomplete(false)(ctx, t)
}
