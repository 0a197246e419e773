package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/outbox"
)

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

// Restore puts a backup in the place of a SQLite database, or takes a PostgreSQL database that was put back by its own
// means (from is empty), and begins an epoch in it. With replace it renames an existing SQLite database to
// Restored.Kept; otherwise it refuses.
func (p Place) Restore(ctx context.Context, from string, replace bool) (r Restored, err error) {
	if (p.DB == "") == (from == "") {
		return r, errors.New("give the backup of a SQLite database, or the URL of a PostgreSQL database that was put back, and not both")
	}
	if err := p.makeDir(); err != nil {
		return r, fmt.Errorf("data directory: %w", err)
	}
	var backup *os.File
	if from != "" {
		if backup, err = os.Open(from); err != nil { // it may be root's alone
			return r, err
		}
		defer backup.Close()
	}
	stage, back, err := actAsOwner(p.Dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, back()) }()
	held, err := p.held()
	if err != nil {
		return r, err
	}
	r.Database = "postgres"
	if from == "" {
		err = p.begin(ctx, p.Storage, held.Epoch, &r)
		return r, err
	}
	s := p.Storage
	r.Database = s.file(DatabaseFile)
	s.DB = filepath.Join(stage, DatabaseFile+".restoring") // a name of its own until it is whole
	if err := free(r.Database, replace); err != nil {
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
	if err = p.begin(ctx, s, held.Epoch, &r); err == nil {
		err = p.replace(s.DB, &r)
	}
	return r, err
}

// begin opens the database of s and begins an epoch in it.
func (p Place) begin(ctx context.Context, s Storage, least int64, r *Restored) (err error) {
	d, err := s.openAny(ctx, p.Log, endOf(p.Gateway), true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	ctx, now := journal.At(ctx, "restore"), db.MillisOf(time.Now())
	var e db.Epoch
	if p.Gateway {
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
func free(path string, replace bool) error {
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !replace:
		return fmt.Errorf("%s exists: --replace renames and keeps it", path)
	}
	return db.Free(path)
}

// replace gives the restored database the name of the old one.
func (p Place) replace(from string, r *Restored) error {
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
	if err := errors.Join(giveToOwner(f, p.Dir), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(from, path); err != nil {
		return err
	}
	return syncDir(p.Dir)
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
