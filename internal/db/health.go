package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	lookEvery  = time.Second      // between two checks of the database's files
	probeAfter = 3 * time.Second  // if there was no write for this long, Run makes a small one
	probeSlow  = 5 * time.Second  // a small write that takes longer is a fault
	probeLimit = 10 * time.Second // limit of one small write
)

// Ready returns an error unless the database answers and takes writes. The last write shows that. If there was none
// for some seconds, it is the small write that Run makes.
func (d *DB) Ready(ctx context.Context) error {
	if since := d.health.probing.Load(); since != nil && time.Since(*since) > probeSlow {
		return fmt.Errorf("%w: a small write takes longer than %v", ErrUnavailable, probeSlow)
	}
	if last := d.health.last.Load(); last != nil && last.err != nil {
		return last.err
	}
	if beside := d.health.beside.Load(); beside != nil && *beside != nil {
		return *beside
	}
	return d.Ping(ctx)
}

// Beside records for Ready whether the files beside the database can be written. err says why not; nil means that
// they can. It logs a failure once, and again when they can be written.
func (d *DB) Beside(err error) {
	if err != nil {
		err = fmt.Errorf("%w: %w: %w", ErrUnavailable, errBeside, err)
	}
	was := d.health.beside.Swap(&err)
	failed := was != nil && *was != nil
	switch {
	case err != nil && !failed:
		d.Log().Error("the data directory cannot be written, so this end is not ready", "error", err.Error())
	case err == nil && failed:
		d.Log().Info("the data directory can be written again")
	}
}

// Run watches the database until ctx ends, for Ready. It logs when the database takes no writes and when it takes
// them again. It returns ErrGone if the files of a SQLite database were removed or replaced, ErrNewerSchema if
// another node has brought the schema to a number that this program does not work with, and ErrMasterKey if the
// master key was replaced while this node stood still.
func (d *DB) Run(ctx context.Context) error {
	turn := time.NewTicker(d.Every(lookEvery))
	defer turn.Stop()
	healthy := true
	for {
		failed := d.health.failed // perhaps only one connection failed: a probe shows that
		if !healthy {
			failed = nil // the next turn probes
		}
		select {
		case <-turn.C:
		case <-failed:
		case <-ctx.Done():
			return nil
		}
		if err := d.gone(); err != nil {
			return err
		}
		if healthy {
			if err := d.look(ctx); err != nil {
				return err
			}
		}
		last := d.health.last.Load()
		if last == nil || last.err != nil || time.Since(last.at) >= d.Every(probeAfter) {
			d.probe(ctx)
			last = d.health.last.Load()
		}
		if is := last == nil || last.err == nil; is != healthy && ctx.Err() == nil {
			healthy = is
			if healthy {
				d.log.LogAttrs(ctx, slog.LevelInfo, "the database takes writes again")
			} else {
				d.log.LogAttrs(ctx, slog.LevelError, "the database takes no writes", slog.String("error", last.err.Error()))
			}
		}
	}
}

// lookLimit is the time limit of look.
const lookLimit = 2 * time.Second

// look checks what other nodes have done to the whole database. It ignores that the database cannot be read, because
// Ready reports that.
func (d *DB) look(ctx context.Context) error {
	if !d.dialect.Shared {
		return nil // there are no others
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	if err := d.key.Opens(ctx, d); errors.Is(err, ErrMasterKey) {
		return err
	}
	if at, oldest, err := readVersion(ctx, d); err == nil {
		return checkVersion(at, oldest, d.knows)
	}
	return nil
}

// probe makes a small write.
func (d *DB) probe(ctx context.Context) {
	begun := time.Now()
	d.health.probing.Store(&begun)
	defer d.health.probing.Store(nil)
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	err := d.Write(ctx, func(ctx context.Context, t *Tx) error {
		_, err := t.Exec(ctx, setMetaSQL, "written", []byte(begun.UTC().Format(time.RFC3339)))
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		d.health.wrote(fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
}
