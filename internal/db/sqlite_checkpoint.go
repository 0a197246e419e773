package db

import (
	"context"
	"time"
)

const (
	// checkpointAt is how many pages of 4 KiB gather in the log before they are
	// copied into the database: each page once, however often it changed. While
	// the disk is at that, commits wait longer for it, and at its end the writer
	// waits for a sync, so it should be seldom. A start after a crash reads the
	// log's 200 MB in less than a second.
	checkpointAt = 48_000
	// checkpointRest is how few are left to the writer. Where it is so fast that
	// there are always more, it gets what there is after checkpointTries.
	checkpointRest  = 200
	checkpointTries = 4
	// checkpointBackstop is when the writer copies all of them, which nobody
	// should ever have to wait for: the checkpointer has not kept up.
	checkpointBackstop = 2 * checkpointAt
	// looksAfter is how many commits there are between two looks at the log.
	looksAfter = 8
)

// checkpointer copies the log into the database on a connection of its own, so
// that no commit waits for thousands of pages. As long as the writer goes on it
// never reaches the end of the log, and the log would grow for ever. So the
// writer copies the last few pages between two commits, and begins the log anew.
type checkpointer struct {
	db      *sqliteDB
	conn    *sqliteConn
	commits int           // since the last look; the writer's
	look    chan struct{} // buffered 1
	finish  chan chan struct{}
	stop    chan struct{}
	ended   chan struct{}
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
	default: // it is at work
	}
}

// run ends when stop is closed: after the writer, who may have been asked to
// finish.
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

// checkpoint copies what is due to be copied. Errors are left to those who
// write, or read: for them they mean something.
func (c *checkpointer) checkpoint() {
	size, copied, ok := c.pragma("PRAGMA wal_checkpoint(NOOP)")
	if !ok || size < checkpointAt {
		return
	}
	for n, before := 0, -1; n < checkpointTries && size-copied > checkpointRest; n++ {
		if copied == before {
			// A reader that has not ended keeps the rest from being copied. Let
			// it come to its end.
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
		// SQLite syncs the database only when it has copied the whole log: that
		// would be in the writer's part. An error is the writer's to find.
		flush(c.db.file, c.stop)
		_ = c.db.file.Sync()
		// All that took a while, in which the log has grown.
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

// pragma gives the number of pages in the log and of those copied.
func (c *checkpointer) pragma(text string) (size, copied int, ok bool) {
	var busy int
	_, err := One(context.Background(), c.conn, text, nil, &busy, &size, &copied)
	return size, copied, err == nil && size >= 0
}

// last copies the rest of the log, by the writer.
func (db *sqliteDB) last(done chan struct{}) {
	defer close(done)
	_ = db.conn.control(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)")
}
