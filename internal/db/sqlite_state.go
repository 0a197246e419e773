package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// While a SQLite database is in use, its newest rows may be in its log alone. A copy of the
// file without the log opens, and lacks those rows. So the file says which it is: the row
// metaState is stateCopied whenever the log is copied into the file, and stateLogged in the
// log right after. A file that says stateCopied and has no log beside it lacks rows. A clean
// end removes the row.
//
// A program that opens the database after a crash may copy the log and remove it. It
// copies stateLogged too, so such a file is whole. (Not if the crash came while the log
// was being copied; then the file is refused although it is whole.)
const (
	metaState   = "log"
	stateCopied = "copied"
	stateLogged = "logged"
)

// metaBackup is the row that Backup writes to a copy. Restoring removes it.
const metaBackup = "backup"

const (
	setMetaSQL  = `INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`
	dropMetaSQL = `DELETE FROM meta WHERE name = $1`
)

// checkState refuses a copy that has no log and a backup that was not restored.
func (c *sqliteConn) checkState(ctx context.Context, path string, logged, restoring bool) error {
	if found, err := (sqliteMigration{c, ctx}).has("meta"); err != nil || !found {
		return err
	}
	var backup, state []byte
	found, err := One(ctx, c, readMetaSQL, []any{metaBackup}, &backup)
	switch {
	case err != nil:
		return err
	case found && !restoring:
		return fmt.Errorf("%w: %s is a backup", ErrOlder, path)
	}
	if _, err := One(ctx, c, readMetaSQL, []any{metaState}, &state); err != nil {
		return err
	}
	if string(state) == stateCopied && !logged {
		return fmt.Errorf("%w: %s was copied while it was in use, without its log %s-wal, which has the newest rows", ErrBroken, path, path)
	}
	return nil
}

// setState writes metaState in a transaction of its own; the empty state removes it.
// Only the writer may call it.
func (c *sqliteConn) setState(ctx context.Context, state string) error {
	if err := c.control(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	text, args := dropMetaSQL, []any{metaState}
	if state != "" {
		text, args = setMetaSQL, []any{metaState, []byte(state)}
	}
	_, err := c.Exec(ctx, text, args...)
	if err == nil {
		err = c.control(ctx, "COMMIT")
	}
	if err != nil {
		return errors.Join(err, c.control(ctx, "ROLLBACK"))
	}
	return nil
}

// beginState marks a database that was just opened: the file itself, and then its log.
func (c *sqliteConn) beginState(ctx context.Context) error {
	if err := c.setState(ctx, stateCopied); err != nil {
		return err
	}
	var busy, size, copied int
	if _, err := One(ctx, c, "PRAGMA wal_checkpoint(TRUNCATE)", nil, &busy, &size, &copied); err != nil {
		return err
	}
	return c.setState(ctx, stateLogged)
}

// Backup writes a copy of the SQLite database at path to a new file, also while a
// process uses it. One read of the whole database makes the copy, so the copy is of one
// moment and writers do not delay it; the log grows until it is done. The copy is
// durable when Backup returns, and only a restore opens it.
func Backup(ctx context.Context, path, to string) (h Held, err error) {
	if _, err := os.Stat(path); err != nil {
		return h, err
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("%s exists and is not overwritten", to)
	}
	part := to + ".part"
	defer func() {
		if err != nil {
			err = errors.Join(err, removeAll(part))
		}
	}()
	if err := removeAll(part); err != nil {
		return h, err
	}
	// VACUUM INTO takes an empty file too, so the copy is never readable by others.
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return h, err
	}
	if err := f.Close(); err != nil {
		return h, err
	}
	d := newSQLiteDialect()
	from, err := openSQLiteConn(ctx, d, sqliteDSN(path, "cache_size(-4000)"))
	if err != nil {
		return h, explainSQLite(err)
	}
	_, err = from.Exec(ctx, "VACUUM INTO $1", part)
	if err = errors.Join(err, from.close()); err != nil {
		return h, fmt.Errorf("copying %s: %w", path, explainSQLite(err))
	}
	if h, err = markBackup(ctx, d, part); err != nil {
		return h, fmt.Errorf("marking %s: %w", part, explainSQLite(err))
	}
	if err := os.Rename(part, to); err != nil {
		return h, err
	}
	return h, syncParent(to)
}

// Held says what a backup holds.
type Held struct {
	End     string           `json:"end"` // whose database it is
	Epoch   int64            `json:"epoch"`
	Records int64            `json:"records"` // of the audit log
	Feeds   map[string]int64 `json:"feeds"`   // the last number of each
	Rows    map[string]int64 `json:"rows"`    // the kept numbers of rows
}

const newestEpochSQL = `SELECT COALESCE(MAX(number), 0) FROM epochs`

const auditSizeSQL = `SELECT size FROM audit_head WHERE id = 1`

// markBackup makes a copy say that it is one, and reads what it holds.
func markBackup(ctx context.Context, d *Dialect, path string) (h Held, err error) {
	c, err := openSQLiteConn(ctx, d, sqliteDSN(path, "journal_mode(DELETE)"))
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if _, err := c.Exec(ctx, setMetaSQL, metaBackup, []byte("1")); err != nil {
		return h, err
	}
	if _, err := c.Exec(ctx, dropMetaSQL, metaState); err != nil {
		return h, err
	}
	var end []byte
	if _, err := One(ctx, c, readMetaSQL, []any{endName}, &end); err != nil {
		return h, err
	}
	if _, err := One(ctx, c, newestEpochSQL, nil, &h.Epoch); err != nil { // no key is at hand
		return h, err
	}
	h.End = string(end)
	if _, err := One(ctx, c, auditSizeSQL, nil, &h.Records); err != nil {
		return h, err
	}
	if h.Feeds, err = LastSeqs(ctx, c); err != nil {
		return h, err
	}
	h.Rows, err = Counts(ctx, c)
	return h, err
}

// removeAll removes a SQLite file and those that belong to it.
func removeAll(path string) error {
	var errs []error
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Free fails with ErrInUse if a process uses the SQLite database at path.
func Free(path string) error {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	return errors.Join(lockDatabase(f), f.Close(), lock.Close())
}
