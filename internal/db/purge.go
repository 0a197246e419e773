package db

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// The pace of purging. With SQLite every other write waits while a batch runs, which takes about 1 ms, and 3 ms with
// PostgreSQL. After each batch all nodes of the database pause. Even so 10,000,000 rows go in a day.
const (
	purgeRows  = 16          // of a batch
	purgeRest  = 30          // a pause lasts this many times as long as its batch
	idlePause  = time.Minute // after a walk over everything old
	failPause  = 10 * time.Second
	batchLimit = 30 * time.Second
)

// PurgeConfig configures NewPurger.
type PurgeConfig struct {
	DB *DB // the end's database. Required
	// Keep is how long settled rows stay. Required: 0 is an error.
	Keep time.Duration
	Now  func() time.Time // the clock that all nodes share. Required
	Log  *slog.Logger     // Required
}

// Purger purges rows of an end that were settled long ago, in small batches while the end works.
type Purger struct {
	c     PurgeConfig
	lists *DB // reads with connections of its own
	of    Purging
	held  string
}

// Purging says what an end purges, and how.
type Purging struct {
	// Find reads the rows after the place of the walk, at most most of them.
	Find func(ctx context.Context, q Querier, s PurgeState, cutoff Millis, most int) (PurgeBatch, error)
	// ReadSQL reads a PurgeState from the one row of the table retention, in the order of its members.
	ReadSQL string
	// Move returns the statement that stores the state.
	Move func(s PurgeState) Statement
	// Ended adds the record of a walk that ended and purged rows. All of the rows were settled before the time
	// before.
	Ended func(ctx context.Context, t *Tx, rows int64, before, now Millis) error
}

// PurgeState is the row of the table retention.
type PurgeState struct {
	next   Millis     // no batch begins before it
	Before Millis     // the latest cutoff of all batches
	Place  PurgePlace // the zero place: a walk begins
	Upto   int64      // the Upto of the last batch that purged rows

	walked, purged int64
}

// Args returns the members of s in the order of Purging.ReadSQL, without the place and Upto.
func (s PurgeState) Args() (next, before, walked, purged int64) {
	return int64(s.next), int64(s.Before), s.walked, s.purged
}

// PurgePlace is the last row that the walk has read: its merchant and id, or its number.
type PurgePlace struct {
	Merchant, ID string
	Seq          int64
}

// PurgeBatch is what a step has found.
type PurgeBatch struct {
	Rows int // how many rows may be purged
	// Purge deletes those of the rows that may still be purged, as part of t, and returns their number.
	Purge func(ctx context.Context, t *Tx) (int64, error)
	Place PurgePlace // the last row of the batch
	Upto  int64
	Ended bool   // nothing old comes after it
	Held  string // why the walk cannot continue; empty: it can
}

// PurgeDone is what a Step did.
type PurgeDone struct {
	Purged int64         // rows
	Ended  bool          // the walk has come to its end; the next step begins another
	Wait   time.Duration // until the next step
}

// NewPurger returns the Purger of an end. It starts nothing.
func NewPurger(c PurgeConfig, of Purging) (*Purger, error) {
	if c.DB == nil || c.Keep <= 0 || c.Now == nil || c.Log == nil {
		return nil, errors.New("db: PurgeConfig is not complete")
	}
	return &Purger{c: c, lists: c.DB.ForLists(), of: of}, nil
}

// Run purges until ctx ends. It logs a failure and tries again. A nil Purger does nothing. Several processes of one
// database may run it; one at a time purges.
func (p *Purger) Run(ctx context.Context) error {
	if p == nil {
		<-ctx.Done()
		return nil
	}
	for {
		bounded, cancel := context.WithTimeout(ctx, batchLimit)
		done, err := p.Step(bounded, MillisOf(p.c.Now()))
		cancel()
		if err != nil && ctx.Err() == nil {
			p.c.Log.Error("purging failed", "error", err.Error())
			done.Wait = failPause
		}
		rest := time.NewTimer(done.Wait)
		select {
		case <-ctx.Done():
			rest.Stop()
			return nil
		case <-rest.C:
		}
	}
}

// Step purges one batch of rows that were settled longer ago than PurgeConfig.Keep. It purges nothing while an epoch
// is open.
func (p *Purger) Step(ctx context.Context, now Millis) (done PurgeDone, err error) {
	s, found, err := p.read(ctx, p.lists, p.of.ReadSQL)
	if err != nil {
		return done, err
	}
	epoch, err := LastEpoch(ctx, p.lists)
	if err != nil {
		return done, err
	}
	if !found || epoch.Open() {
		return PurgeDone{Wait: idlePause}, nil
	}
	if s.next > now && s.next <= now+Millis(idlePause.Milliseconds()) { // otherwise the clock was set back
		return PurgeDone{Wait: s.next.Time().Sub(now.Time())}, nil
	}
	cutoff := now - Millis(p.c.Keep.Milliseconds())
	began := time.Now()
	b, err := p.of.Find(ctx, p.lists, s, cutoff, purgeRows)
	if err != nil {
		return done, err
	}
	p.tell(b.Held)
	if done.Ended = b.Ended; b.Ended && b.Rows == 0 && s.Place == (PurgePlace{}) {
		done.Wait = idlePause
		return done, nil // nothing is old
	}
	// If a power loss undoes a batch, the next walk purges it again.
	err = p.c.DB.WriteUnsynced(ctx, func(ctx context.Context, t *Tx) error {
		done.Purged = 0
		is, free, err := p.read(ctx, t, p.of.ReadSQL+"{skip}")
		if err != nil || !free || is.Place != s.Place || is.next != s.next {
			return err // another node is purging, or has purged this batch
		}
		if done.Purged, err = b.Purge(ctx, t); err != nil {
			return err
		}
		done.Wait = purgeRest * time.Since(began)
		is.Place, is.Before = b.Place, max(is.Before, cutoff)
		is.walked, is.purged = is.walked+done.Purged, is.purged+done.Purged
		if done.Purged > 0 {
			is.Upto = max(is.Upto, b.Upto)
		}
		if b.Ended {
			if is.walked > 0 {
				if err := p.of.Ended(ctx, t, is.walked, is.Before, now); err != nil {
					return err
				}
			}
			done.Wait, is.Place, is.walked = idlePause, PurgePlace{}, 0
		}
		is.next = now + Millis(done.Wait.Milliseconds())
		return t.Batch(ctx, []Statement{p.of.Move(is)})
	})
	done.Wait = max(done.Wait, purgeRest*time.Since(began))
	return done, err
}

// tell logs once why the purge cannot continue.
func (p *Purger) tell(held string) {
	if held != p.held && held != "" {
		p.c.Log.Warn("old rows are not purged", "reason", held)
	}
	p.held = held
}

func (p *Purger) read(ctx context.Context, q Querier, text string) (s PurgeState, found bool, err error) {
	err = Each(ctx, q, text, nil, func(r Rows) error {
		found = true
		return r.Scan(&s.next, &s.Before, &s.Place.Merchant, &s.Place.ID, &s.Place.Seq, &s.Upto, &s.walked, &s.purged)
	})
	return s, found, err
}
