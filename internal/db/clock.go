package db

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	clockEvery   = 5 * time.Second        // between readings of the database's clock
	clockTimeout = 2 * time.Second        // of one reading; a slow one says little
	clockExact   = 20 * time.Millisecond  // differences up to here, beside how long the reading took, are left
	clockWarn    = 500 * time.Millisecond // differences from here on are told
)

// Clock is the time by which leases end and deadlines pass, the same on every
// node of a database: the database's own, carried on between readings by a clock
// of this machine that nobody sets, and that goes on while the machine sleeps.
//
// Where a reading differs, after a failover to a server whose clock is another
// one, say, the Clock follows at once, in either direction. Until all nodes
// have followed, some seconds later, they may disagree by as much as the
// servers do; leases have a margin of seconds for it.
type Clock struct {
	read    func(context.Context) (Millis, error)
	elapsed func() time.Duration
	log     *slog.Logger
	offset  atomic.Int64 // nanoseconds since 1970 when elapsed was 0
	shared  bool         // there are other nodes to agree with
}

// NewClock reads d's clock for the first time. log may be nil.
func NewClock(ctx context.Context, d *DB, log *slog.Logger) (*Clock, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Clock{read: d.ServerNow, elapsed: sinceBoot(), log: log, shared: d.dialect.Shared}
	t, _, err := c.reading(ctx)
	c.offset.Store(t)
	return c, err
}

// Now is the shared time.
func (c *Clock) Now() time.Time { return time.Unix(0, c.offset.Load()+int64(c.elapsed())) }

// Run follows the database's clock until ctx ends, and returns nil. With SQLite
// there is nobody to agree with, and steps of the machine's clock are none of
// a lease's business, so it only waits.
func (c *Clock) Run(ctx context.Context) error {
	if !c.shared {
		<-ctx.Done()
		return nil
	}
	for sleep(ctx, clockEvery) {
		c.follow(ctx)
	}
	return nil
}

// reading gives the offset that the database's clock has now, and how far off
// that may be.
func (c *Clock) reading(ctx context.Context) (offset int64, within time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	before := c.elapsed()
	now, err := c.read(ctx)
	if err != nil {
		return 0, 0, err
	}
	within = (c.elapsed() - before) / 2
	return now.Time().UnixNano() - int64(before+within), within + time.Millisecond, nil
}

// follow takes one reading. One that fails changes nothing: the clock goes on.
func (c *Clock) follow(ctx context.Context) {
	offset, within, err := c.reading(ctx)
	if err != nil {
		return // whatever else asks the database says so
	}
	step := time.Duration(offset - c.offset.Load())
	if step.Abs() <= within+clockExact {
		return
	}
	c.offset.Store(offset)
	if step.Abs() >= clockWarn {
		c.log.Warn("the database's clock was followed", "ms", step.Milliseconds())
	}
}
