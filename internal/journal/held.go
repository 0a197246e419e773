package journal

import (
	"context"
	"errors"
	"fmt"

	"countersign/internal/db"
)

// Held is what a data directory keeps of a log, outside the database: the newest checkpoint. A database
// whose log does not continue it was put back to an earlier state.
type Held struct {
	Epoch      int64  `json:"epoch"`      // of the database; a later one was begun by a restore
	Checkpoint string `json:"checkpoint"` // a signed note; empty: nothing is held
}

// Continues fails with db.ErrAnother if h is of another log than that of d, and with db.ErrOlder if the log
// does not begin with the records of h, unless a restore has begun an epoch since.
func Continues(ctx context.Context, d *db.DB, h Held) error {
	if h.Checkpoint == "" {
		return nil
	}
	text, err := readKey(ctx, d, d)
	if err != nil {
		return err
	}
	if text == "" {
		return db.ErrAnother
	}
	k, err := parseKey(text)
	if err == nil {
		_, _, _, err = (&Log{lists: d, key: k}).judge(ctx, h)
	}
	return err
}

// Hold returns what is to be held in place of h: h itself while no record was added. It fails as
// Continues does, and with other errors if the database cannot be read.
func (l *Log) Hold(ctx context.Context, h Held) (Held, error) {
	c, head, epoch, err := l.judge(ctx, h)
	if err != nil {
		return h, err
	}
	if h.Checkpoint != "" && h.Epoch == epoch && c.Size == head.size {
		l.see(c, h.Checkpoint)
		return h, nil
	}
	c, signed, err := l.signHead(head)
	if err != nil {
		return h, err
	}
	l.see(c, signed)
	return Held{epoch, signed}, nil
}

// judge compares the log with h, and returns h's checkpoint, the log's head and the database's epoch.
func (l *Log) judge(ctx context.Context, h Held) (c Checkpoint, head edge, epoch int64, err error) {
	if h.Checkpoint != "" {
		c, err = openCheckpoint(h.Checkpoint, l.key.verifier)
		if errors.Is(err, ErrForeign) {
			err = db.ErrAnother
		}
		if err != nil {
			return c, head, 0, err
		}
	}
	e, err := db.LastEpoch(ctx, l.lists)
	if err == nil {
		head, err = readHead(ctx, l.lists, readSizeSQL)
	}
	switch {
	case err != nil, e.Number > h.Epoch, c.Size == 0:
		return c, head, e.Number, err
	case e.Number < h.Epoch:
		return c, head, 0, fmt.Errorf("%w: it was in epoch %d here, and is in epoch %d", db.ErrOlder, h.Epoch, e.Number)
	case head.size < c.Size:
		return c, head, 0, fmt.Errorf("%w: it had %d records in its audit log here, and has %d", db.ErrOlder, c.Size, head.size)
	}
	if err = l.continues(ctx, c, head); errors.Is(err, ErrBroken) {
		err = fmt.Errorf("%w: %w", db.ErrOlder, err)
	}
	return c, head, e.Number, err
}
