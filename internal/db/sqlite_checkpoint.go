package db

import (
	"context"
	"time"
)

const (
	// checkpointAt is how many pages of 4 KiB the log holds before they are copied
	// into the database; a page is copied once, however often it changed. Copying
	// should be rare: while it runs, commits wait longer for the disk, and at its end
	// the writer waits for a sync. A start after a crash reads the log's 200 MB in
	// less than a second.
	checkpointAt = 48_000
	// checkpointRest is how many pages the writer copies itself. If the writer is so
	// fast that more are always left, it copies all that are left after
	// checkpointTries.
	checkpointRest  = 200
	checkpointTries = 4
	// checkpointBackstop is when the writer copies all pages itself and all callers
	// wait. It happens only if the checkpointer does not keep up.
	checkpointBackstop = 2 * checkpointAt
	// looksAfter is how many commits there are between two checks of the log's size.
	looksAfter = 8
)

// checkpointer copies the log into the database on its own connection, so that no
// commit waits for thousands of pages. While the writer writes, the checkpointer
// never reaches the end of the log, and the log would grow for ever. So the writer
// copies the last few pages between two commits and starts the log again.
type checkpointer struct {
	db      *sqliteDB
	conn    *sqliteConn
	commits int           // since the last check; only the writer uses it
	look    chan struct{} // buffered 1
	finish  chan chan struct{}
	stop    chan struct{}
	ended   chan struct{}

	blocked time.Time // since when a reader has kept the log from being copied; zero: none does
	warned  time.Time
}

func newCheckpointer(ctx context.Context, db *sqliteDB, dsn string) (*checkpointer, error) {
	conn, err := openSQLiteConn(ctx, db.d, dsn)
	if err != nil {
		return nil, err
	}
	return &checkpointer{db: db, conn: conn, look: make(chan struct{}, 1), finish: make(chan chan struct{}),
		stop: make(chan struct{}), ended: make(chan struct{})}, nil
}

// committed is called by the writer after each commit.
func (c *checkpointer) committed() {
	if c.commits++; c.commits < looksAfter {
		return
	}
	select {
	case c.look <- struct{}{}:
		c.commits = 0
	default: // it is copying already
	}
}

// run ends when stop is closed, which must be after the writer has ended.
func (c *checkpointer) run() {
	defer close(c.ended)
	for {
		select {
		case <-c.look:
			c.checkpoint()
		case <-c.stop:
			return
		}
	}
}

// checkpoint copies the log if it is large enough. It ignores errors: writers and
// readers get them too, and can act on them.
func (c *checkpointer) checkpoint() {
	size, copied, ok := c.pragma("PRAGMA wal_checkpoint(NOOP)")
	if !ok || size < checkpointAt {
		c.blocked = time.Time{}
		return
	}
	// From here on the file has a part of the log's pages; see checkState.
	if c.db.Write(context.Background(), copying) != nil {
		return
	}
	for n, before := 0, -1; n < checkpointTries && size-copied > checkpointRest; n++ {
		if copied == before {
			// A reader prevents the rest from being copied until it ends. Wait for
			// it.
			c.warn(size)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-c.stop:
			}
			return
		}
		before = copied
		if _, _, ok = c.pragma("PRAGMA wal_checkpoint(PASSIVE)"); !ok {
			return
		}
		// SQLite syncs the database only when the whole log is copied, which the
		// writer would wait for. So most of it is synced here. The writer gets any
		// error.
		flush(c.db.file, c.stop)
		_ = c.db.file.Sync()
		// The log has grown meanwhile.
		if size, copied, ok = c.pragma("PRAGMA wal_checkpoint(NOOP)"); !ok {
			return
		}
	}
	done := make(chan struct{})
	select {
	case c.finish <- done:
		<-done
	case <-c.stop:
	}
}

const warnEvery = time.Minute

// warn logs that another process's reader makes the log grow. Readers of this process end by
// themselves.
func (c *checkpointer) warn(size int) {
	now := time.Now()
	if c.blocked.IsZero() {
		c.blocked = now
	}
	if now.Sub(c.blocked) > c.db.readMost && now.Sub(c.warned) > warnEvery {
		c.warned = now
		c.db.log.Warn("another program reads the database and keeps its log from being copied; the log grows until that program ends",
			"log", c.db.file.Name()+"-wal", "megabytes", size*4096/1_000_000)
	}
}

// pragma gives the number of pages in the log and of those copied.
func (c *checkpointer) pragma(text string) (size, copied int, ok bool) {
	var busy int
	_, err := One(context.Background(), c.conn, text, nil, &busy, &size, &copied)
	return size, copied, err == nil && size >= 0
}

func copying(ctx context.Context, t *Tx) error {
	_, err := t.Exec(ctx, setMetaSQL, metaState, []byte(stateCopied))
	return err
}

// last copies the rest of the log, by the writer.
func (db *sqliteDB) last(done chan struct{}) {
	defer close(done)
	_ = db.conn.control(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)")
	_ = db.conn.setState(context.Background(), stateLogged)
}
