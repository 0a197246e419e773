package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Backup writes a copy of the SQLite database at path to a new file, even while a process uses it. One read of the
// whole database makes the copy, so it is of one moment and does not delay writers. The log grows until the copy is
// done. The copy is durable when Backup returns, and only a restore opens it.
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
	// VACUUM INTO also accepts an empty file. Creating it here means that others can never read the copy.
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return h, err
	}
	if err := f.Close(); err != nil {
		return h, err
	}
	d := newSQLiteDialect()
	// The connection is read-only. One that can write would copy the log of a crash into the file when it closes.
	from, err := openSQLiteConn(ctx, d, sqliteDSN(path, "cache_size(-4000)")+"&mode=ro")
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

// Held is what a backup holds.
type Held struct {
	End     string           `json:"end"` // whose database it is
	Epoch   int64            `json:"epoch"`
	Records int64            `json:"records"` // of the audit log
	Feeds   map[string]int64 `json:"feeds"`   // the last number of each
	Rows    map[string]int64 `json:"rows"`    // the kept numbers of rows
}

const newestEpochSQL = `SELECT COALESCE(MAX(number), 0) FROM epochs`

const auditSizeSQL = `SELECT size FROM audit_head WHERE id = 1`

// markBackup marks a copy as a backup, and returns what it holds.
func markBackup(ctx context.Context, d *Dialect, path string) (h Held, err error) {
	c, err := openSQLiteConn(ctx, d, sqliteDSN(path, "journal_mode(DELETE)"))
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	into := func(v any) func(Rows) error { return func(r Rows) error { return r.Scan(v) } }
	err = c.Batch(ctx, []Statement{
		{SQL: setMetaSQL, Args: []any{metaBackup, []byte("1")}}, {SQL: dropMetaSQL, Args: []any{metaIncomplete}},
		{SQL: readMetaSQL, Args: []any{endName}, Row: into(&h.End)},
		{SQL: newestEpochSQL, Row: into(&h.Epoch)}, // without the key
		{SQL: auditSizeSQL, Row: into(&h.Records)},
	})
	if err == nil {
		h.Feeds, err = LastSeqs(ctx, c)
	}
	if err == nil {
		h.Rows, err = Counts(ctx, c)
	}
	return h, err
}

// removeAll removes a SQLite file and the files that belong to it.
func removeAll(path string) error {
	var errs []error
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Free returns ErrInUse if a process uses the SQLite database at path.
func Free(path string) error {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, unlock(lock))
	}
	return errors.Join(lockDatabase(f), unlock(f), unlock(lock))
}
