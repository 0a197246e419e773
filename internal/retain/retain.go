// Package retain purges what was settled long ago from the database of an end, in small batches beside the load.
package retain

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"countersign/internal/audit"
	"countersign/internal/db"
)

// The pace. A batch begins small and grows while it is quick. After it comes a pause, of
// all nodes of a database together.
const (
	leastRows  = 8
	mostRows   = 256
	calm       = 40             // a pause is so many times as long as finding and purging a batch took
	hurried    = 8              // likewise in a long walk
	longWalk   = 24 * time.Hour // more gets old than a walk with long pauses purges
	idlePause  = time.Minute    // after a walk over everything that is old
	failPause  = 10 * time.Second
	batchLimit = 30 * time.Second
)

// size says how long the transaction of a batch takes: after one that took less than quick
// comes a larger one, after one that took longer than slow a smaller one.
type size struct{ quick, slow time.Duration }

// Whoever writes to SQLite waits for a batch that runs.
var (
	sizeConcurrent = size{quick: time.Millisecond, slow: 3 * time.Millisecond}
	sizeOneWriter  = size{quick: 300 * time.Microsecond, slow: 900 * time.Microsecond}
)

// ShortestKeep is the shortest time that Config.Keep may be.
const ShortestKeep = 24 * time.Hour

// Config is what Service and Gateway need.
type Config struct {
	DB *db.DB // of that end. Required
	// Keep is how long what is settled stays. Required: 0 is an error.
	Keep time.Duration
	Now  func() time.Time // the clock that all nodes share. Required
	Log  *slog.Logger     // Required
}

// Purger purges the database of one end.
type Purger struct {
	c     Config
	lists *db.DB // reads with connections of its own
	end   end
	size  size
	rows  int       // of the next batch
	walk  db.Millis // when this walk began, or when this process found it begun
	late  bool      // this walk is a long one
	held  string
}

// end is what differs between the two ends.
type end interface {
	// find reads the rows after the place where the walk stands, most of them at most.
	find(ctx context.Context, q db.Querier, s state, cutoff db.Millis, most int) (batch, error)
	// purge deletes those of b that may still go, as part of t, and gives their number.
	purge(ctx context.Context, t *db.Tx, b batch) (int64, error)
	// move stores the state.
	move(s state) db.Statement
	stateSQL() string
	kind() string // of the audit record about a walk
	// moved notes in the state that a batch was purged, beside its place.
	moved(s *state, b batch)
}

// state is the row of the table retention.
type state struct {
	next           db.Millis // no batch begins before
	before         db.Millis // the latest cutoff of any batch
	place          place     // the zero place: a walk begins
	upto           int64     // of the gateway: the last deposit that was purged
	walked, purged int64
}

// place is the last row that the walk has looked at.
type place struct {
	merchant, id string // of the service
	seq          int64  // of the gateway
}

// batch is what a step has found.
type batch struct {
	rows  []row
	place place  // its end
	ended bool   // nothing that is old comes after it
	held  string // why the walk cannot go on; empty: it can
}

// Done says what a Step did.
type Done struct {
	Purged int64         // rows
	Ended  bool          // the walk has come to its end; the next step begins another
	Wait   time.Duration // until the next step
}

func newPurger(c Config, e end) (*Purger, error) {
	if c.DB == nil || c.Keep <= 0 || c.Now == nil || c.Log == nil {
		return nil, errors.New("retain: Config is not complete")
	}
	of := sizeOneWriter
	if c.DB.Dialect().ConcurrentWriters {
		of = sizeConcurrent
	}
	return &Purger{c: c, lists: c.DB.Apart(), end: e, size: of, rows: leastRows}, nil
}

// Run purges until ctx ends. A failure is logged, and tried again. A nil Purger does
// nothing. Several processes of one database may run it: one works at a time.
func (p *Purger) Run(ctx context.Context) error {
	if p == nil {
		<-ctx.Done()
		return nil
	}
	for {
		bounded, cancel := context.WithTimeout(ctx, batchLimit)
		done, err := p.Step(bounded, db.MillisOf(p.c.Now()))
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

// Step purges one batch of what was settled before now less Config.Keep. While a restored
// database is not reconciled it purges nothing.
func (p *Purger) Step(ctx context.Context, now db.Millis) (done Done, err error) {
	s, found, err := p.read(ctx, p.lists, p.end.stateSQL())
	if err != nil {
		return done, err
	}
	epoch, err := db.LastEpoch(ctx, p.lists)
	if err != nil {
		return done, err
	}
	if !found || epoch.Open() {
		return Done{Wait: idlePause}, nil
	}
	if s.place == (place{}) || p.walk == 0 {
		p.walk, p.late = now, false
	}
	if s.next > now && s.next <= now+db.Millis(idlePause.Milliseconds()) { // else the clock was set back
		return Done{Wait: s.next.Time().Sub(now.Time())}, nil
	}
	cutoff := now - db.Millis(p.c.Keep.Milliseconds())
	began, times := time.Now(), p.pauses(now)
	b, err := p.end.find(ctx, p.lists, s, cutoff, p.rows)
	if err != nil {
		return done, err
	}
	p.tell(b.held)
	if done.Ended = b.ended; b.ended && len(b.rows) == 0 && s.place == (place{}) {
		done.Wait = idlePause
		return done, nil // nothing is old
	}
	var took time.Duration // of the transaction, without the commit
	// A purge that a loss of power undoes is done again.
	err = p.c.DB.WriteUnsynced(ctx, func(ctx context.Context, t *db.Tx) error {
		begun := time.Now()
		defer func() { took = time.Since(begun) }()
		done.Purged = 0
		is, free, err := p.read(ctx, t, p.end.stateSQL()+"{skip}")
		if err != nil || !free || is.place != s.place || is.next != s.next {
			return err // another node works, or has been here
		}
		if done.Purged, err = p.end.purge(ctx, t, b); err != nil {
			return err
		}
		done.Wait = times * time.Since(began)
		is.place, is.before = b.place, max(is.before, cutoff)
		is.walked, is.purged = is.walked+done.Purged, is.purged+done.Purged
		if done.Purged > 0 {
			p.end.moved(&is, b)
		}
		if b.ended {
			if is.walked > 0 {
				if err := audit.Add(ctx, t, audit.Record{Kind: p.end.kind(), At: now, Data: audit.Purged{Rows: is.walked, Before: int64(is.before)}}); err != nil {
					return err
				}
			}
			done.Wait, is.place, is.walked = idlePause, place{}, 0
		}
		is.next = now + db.Millis(done.Wait.Milliseconds())
		return t.Batch(ctx, []db.Statement{p.end.move(is)})
	})
	done.Wait = max(done.Wait, times*time.Since(began))
	switch {
	case took > p.size.slow:
		p.rows = max(p.rows/2, leastRows)
	case took < p.size.quick && len(b.rows) > p.rows/2:
		p.rows = min(p.rows*2, mostRows)
	}
	return done, err
}

// pauses says how many times as long as a batch the pause after it is.
func (p *Purger) pauses(now db.Millis) time.Duration {
	if now-p.walk <= db.Millis(longWalk.Milliseconds()) {
		return calm
	}
	if !p.late {
		p.late = true
		p.c.Log.Warn("the purge lasts longer than a day and makes shorter pauses", "since", p.walk.Time().UTC())
	}
	return hurried
}

// tell logs once why the purge cannot go on.
func (p *Purger) tell(held string) {
	if held != p.held && held != "" {
		p.c.Log.Warn("what is old is not purged", "reason", held)
	}
	p.held = held
}

func (p *Purger) read(ctx context.Context, q db.Querier, text string) (s state, found bool, err error) {
	err = db.Each(ctx, q, text, nil, func(r db.Rows) error {
		found = true
		return r.Scan(&s.next, &s.before, &s.place.merchant, &s.place.id, &s.place.seq, &s.upto, &s.walked, &s.purged)
	})
	return s, found, err
}
