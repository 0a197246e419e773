package db

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"countersign/client"
)

const (
	clockEvery   = 5 * time.Second        // between readings of the database's clock
	clockTimeout = 2 * time.Second        // limit of one reading; a slow one is not exact
	clockExact   = 20 * time.Millisecond  // a difference of at most this, plus the error of the reading, is ignored
	clockWarn    = 500 * time.Millisecond // a difference of at least this is logged
)

// Clock is the time by which leases end and deadlines pass. It is the same on every node of a database: the
// database's own time, continued between readings by this machine's monotonic clock, which also counts while the
// machine sleeps.
//
// If a reading differs, for example after a failover to a server with another clock, the Clock follows at once, in
// either direction. Until all nodes have followed, some seconds later, they may differ by as much as the servers do.
// Leases have a margin of seconds for that.
type Clock struct {
	read    func(context.Context) (Millis, error)
	elapsed func() time.Duration
	log     *slog.Logger
	offset  atomic.Int64 // nanoseconds since 1970 when elapsed was 0
	shared  bool         // there are other nodes to agree with
	every   time.Duration
}

// NewClock reads d's clock for the first time. log may be nil.
func NewClock(ctx context.Context, d *DB, log *slog.Logger) (*Clock, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Clock{read: d.serverNow, elapsed: d.world.Elapsed, log: log, shared: d.dialect.Shared,
		every: d.Every(clockEvery)}
	if c.elapsed == nil {
		c.elapsed = sinceBoot()
	}
	t, _, err := c.reading(ctx)
	c.offset.Store(t)
	return c, err
}

// Now returns the shared time.
func (c *Clock) Now() time.Time { return time.Unix(0, c.offset.Load()+int64(c.elapsed())) }

// Run follows the database's clock until ctx ends, and returns nil. With SQLite it only waits, because there is one
// process and changes of the machine's clock must not move leases.
func (c *Clock) Run(ctx context.Context) error {
	if !c.shared {
		<-ctx.Done()
		return nil
	}
	for Sleep(ctx, c.every) {
		c.follow(ctx)
	}
	return nil
}

// reading returns the present offset of the database's clock, and the most by which the offset may be wrong.
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

// follow takes one reading. If it fails, the clock goes on unchanged.
func (c *Clock) follow(ctx context.Context) {
	offset, within, err := c.reading(ctx)
	if err != nil {
		return // other calls report it
	}
	step := time.Duration(offset - c.offset.Load())
	if step.Abs() <= within+clockExact {
		return
	}
	c.offset.Store(offset)
	if step.Abs() >= clockWarn {
		c.log.Warn("the clocks of this node and the database moved apart; the database's counts", "ms", step.Milliseconds())
	}
}

const serverNowSQL = `SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)`

// serverNow returns the time of the clock that all nodes share: that of PostgreSQL. With SQLite there is one process,
// so it is the local clock.
func (d *DB) serverNow(ctx context.Context) (Millis, error) {
	if !d.dialect.Shared {
		return MillisOf(time.Now()), nil
	}
	var now Millis
	_, err := One(ctx, d, serverNowSQL, nil, &now)
	return now, err
}

// Millis is the time of a row. It is the type that the APIs use, so a row is scanned into what they show.
type Millis = client.Time

// MillisOf rounds t down to a millisecond.
func MillisOf(t time.Time) Millis { return client.TimeOf(t) }

// Never is later than every due time.
const Never Millis = 1 << 62

// Shown returns m as the APIs show it. It returns 0, which JSON leaves out, for no time and for Never.
func Shown(m Millis) Millis {
	if m <= 0 || m >= Never {
		return 0
	}
	return m
}

// Sleep waits for d. It returns false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
