package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/outbox"
)

// RestoreConfig is what Restore needs.
type RestoreConfig struct {
	// Storage is where the end keeps its state. Its Dir is required.
	Storage
	// Gateway restores a gateway, otherwise a service.
	Gateway bool
	// From is the backup of a SQLite database. It is not used with DB: that database was already restored by its own
	// means.
	From string
	// Replace renames an existing SQLite database to the name in Restored. Without it Restore refuses.
	Replace bool
	// Log gets the lines of opening the database. Nil: discards.
	Log *slog.Logger
}

// Restored is what Restore did.
type Restored struct {
	Database string           `json:"database"` // the file, or "postgres"
	Epoch    int64            `json:"epoch"`
	Ends     map[string]int64 `json:"ends"`           // the last number of each feed in the backup
	Kept     string           `json:"kept,omitempty"` // where the database is that was there before
	// Undecided is how many orders or withdrawals had not ended in the backup. Nothing is decided on one until somebody
	// says what became of it.
	Undecided int64 `json:"undecided"`
	// Newest is when the newest callback in the backup of a gateway came: the provider may have sent more since. Zero:
	// there is none.
	Newest client.Time `json:"newest,omitzero"`
}

// Restore puts a backup in the place of a database, or takes a PostgreSQL database that was put back, and begins an
// epoch in it. No process may have it open.
func Restore(ctx context.Context, c RestoreConfig) (r Restored, err error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if (c.DB == "") == (c.From == "") {
		return r, errors.New("give the backup of a SQLite database, or the URL of a PostgreSQL database that was put back, and not both")
	}
	if err := c.makeDir(); err != nil {
		return r, fmt.Errorf("data directory: %w", err)
	}
	var backup *os.File
	if c.From != "" {
		if backup, err = os.Open(c.From); err != nil { // it may be root's alone
			return r, err
		}
		defer backup.Close()
	}
	stage, back, err := actAsOwner(c.Dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, back()) }()
	held, err := c.held()
	if err != nil {
		return r, err
	}
	s := c.Storage
	r.Database = "postgres"
	if s.DB == "" {
		r.Database = s.file(DatabaseFile)
		s.DB = filepath.Join(stage, DatabaseFile+".restoring") // a name of its own until it is whole
		if err := c.free(r.Database); err != nil {
			return r, err
		}
		if err := copyFile(backup, s.DB); err != nil {
			return r, err
		}
		defer func() {
			for _, more := range []string{"", "-wal", "-shm", ".lock"} {
				_ = os.Remove(s.DB + more)
			}
		}()
	}
	if err := c.begin(ctx, s, held.Epoch, &r); err != nil {
		return r, err
	}
	if c.From != "" {
		if err := c.replace(s.DB, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// begin opens the database of s and begins an epoch in it.
func (c RestoreConfig) begin(ctx context.Context, s Storage, least int64, r *Restored) (err error) {
	d, err := s.openAny(ctx, c.Log, endOf(c.Gateway), true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	ctx, now := journal.At(ctx, "restore"), db.MillisOf(time.Now())
	var e db.Epoch
	if c.Gateway {
		b := book.New(d, book.Config{})
		if e, err = b.Restored(ctx, least, now); err == nil {
			r.Newest, err = b.LastTaken(ctx)
		}
	} else {
		e, err = outbox.New(d).Restored(ctx, least, now)
	}
	r.Epoch, r.Ends, r.Undecided = e.Number, e.Ends, e.Undecided
	return err
}

// free refuses a path where a database is or was, unless it is to be replaced.
func (c RestoreConfig) free(path string) error {
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !c.Replace:
		return fmt.Errorf("%s exists: --replace renames and keeps it", path)
	}
	return db.Free(path)
}

// replace gives the restored database the name of the old one.
func (c RestoreConfig) replace(from string, r *Restored) error {
	path := r.Database
	if _, err := os.Stat(path); err == nil {
		if err := db.Free(path); err != nil {
			return err
		}
		r.Kept = fmt.Sprintf("%s.before-%d", path, r.Epoch)
		for _, more := range []string{"", "-wal", "-shm"} {
			if err := os.Rename(path+more, r.Kept+more); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	if err := errors.Join(giveToOwner(f, c.Dir), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(from, path); err != nil {
		return err
	}
	return syncDir(c.Dir)
}

// copyFile copies a backup durably to a new file. It removes what an earlier restore left there.
func copyFile(in io.Reader, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// Held is what a backup holds.
type Held = db.Held

// Backup writes a copy of the SQLite database of a data directory to a new file. A process may use the database
// meanwhile. The copy contains no secret file.
func Backup(ctx context.Context, dir, to string) (Held, error) {
	h, err := db.Backup(ctx, Storage{Dir: dir}.file(DatabaseFile), to)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; a PostgreSQL database is backed up by its own means: see docs/operator/backup.md", err)
	}
	return h, err
}
