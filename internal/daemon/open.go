package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"countersign/internal/db"
)

// open makes the missing files of the data directory and opens the database of an end.
func (s Storage) open(ctx context.Context, log *slog.Logger, end db.End) (*db.DB, error) {
	d, err := s.openAny(ctx, log, end, false)
	if err != nil {
		return nil, err
	}
	if err := s.checkHeld(ctx, d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openAny is open for a database in any state; with restoring, also for a backup.
func (s Storage) openAny(ctx context.Context, log *slog.Logger, end db.End, restoring bool) (*db.DB, error) {
	if err := s.makeDir(); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	// The first start makes the database and then the key. So while there is no key, a start after one that failed is
	// still a first start. A key without its database means that the database was lost.
	used := s.Keys == nil && len(s.masterKeys()) > 0
	d, err := db.Open(ctx, db.Config{URL: s.url(), FindKeys: s.makeMasterKey, Log: log, Used: used, Restoring: restoring,
		World: s.World.World}, end)
	if room := roomFor(s.Dir); errors.Is(err, ErrFull) && s.DB == "" && room != nil {
		err = fmt.Errorf("%w: %w", err, room)
	}
	return d, err
}

// startRoom is the least free space on the disk of a data directory: room for SQLite's log and its index, and for what
// is stored until somebody reads the first warning.
const startRoom = 64 << 20

// roomFor returns an error if the disk of dir has less free space than a start needs. dir need not exist yet.
func roomFor(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	free, err := diskFree(dir)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
		free, err = diskFree(dir)
	}
	if err == nil && free < startRoom {
		return fmt.Errorf("the disk of %s has %d KiB left; it needs %d MiB at least", dir, int64(free)>>10, startRoom>>20)
	}
	return nil // what cannot be asked shows when files are made
}
