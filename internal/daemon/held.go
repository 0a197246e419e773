package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"countersign/internal/db"
	"countersign/internal/journal"
)

// CheckpointFile is the file of a data directory with the newest checkpoint of the audit log. It lies beside the
// database and reveals that the database was put back to an earlier state: whatever that state lacks might be done
// twice.
const CheckpointFile = "checkpoint.json"

// holdEvery is how often the file is written. A loss of the last changes within that time goes unnoticed.
const holdEvery = time.Second

// ErrOlder means that the database was put back to an earlier state, or is a backup.
var ErrOlder = db.ErrOlder

// held reads the file. It returns the zero Held if there is none.
func (s Storage) held() (h journal.Held, err error) { return h, s.readJSON(CheckpointFile, &h) }

// checkHeld returns ErrOlder if the audit log of d does not continue the file's checkpoint.
func (s Storage) checkHeld(ctx context.Context, d *db.DB) error {
	h, err := s.held()
	if err == nil {
		err = journal.Continues(ctx, d, h)
	}
	switch {
	case errors.Is(err, db.ErrAnother):
		return fmt.Errorf("%w: if it is meant, remove %s", err, s.file(CheckpointFile))
	case err != nil:
		return fmt.Errorf("%w (%s)", err, s.file(CheckpointFile))
	}
	return nil
}

// hold returns the part of a daemon that keeps the file up to date and tells Ready whether it can. The part fails with
// ErrOlder if the database goes back while in use: this process would act on what it knew before.
func (s Storage) hold(d *db.DB, l *journal.Log) Part {
	h := journal.Held{} // what the file holds is not known: the first look writes it anew
	return repeated("checkpoint", d.Every(holdEvery), func(ctx context.Context) (err error) {
		h, err = s.holdOnce(ctx, d, l, h)
		return err
	})
}

// holdOnce writes the file if the log has grown since h, and returns what the file holds. It returns ErrOlder if the
// database went back.
func (s Storage) holdOnce(ctx context.Context, d *db.DB, l *journal.Log, h journal.Held) (journal.Held, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	now, err := l.Hold(ctx)
	if err != nil {
		if !errors.Is(err, ErrOlder) {
			err = nil // others notice that the database is away
		}
		return h, err
	}
	if now == h {
		d.Beside(writable(s.Dir))
		return h, nil
	}
	err = s.replaceJSON(CheckpointFile, now)
	if d.Beside(err); err != nil {
		return h, nil
	}
	return now, nil
}

// holdLast writes the file after everything else has ended, unless the database went back.
func (s Storage) holdLast(ctx context.Context, d *db.DB, l *journal.Log) {
	_, _ = s.holdOnce(context.WithoutCancel(ctx), d, l, journal.Held{}) // an older one is right too
}

// readJSON reads a file of the data directory into v. If the file is missing, v stays as it is.
func (s Storage) readJSON(name string, v any) error {
	b, err := ReadSecretOf(s.Dir, name, 1<<24)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err = AllowExposed(err); err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", s.file(name), err)
	}
	return err
}

// replaceJSON replaces a file of the data directory. A reader finds the old or the new file, never a part.
func (s Storage) replaceJSON(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	part, err := stageFile(s.file(name), append(b, '\n'), giveToOwner)
	if err != nil {
		return err
	}
	if err := os.Rename(part, s.file(name)); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}
