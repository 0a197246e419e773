package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// groupMax is how many waiting writes share one commit at most. With more, the first would wait for the last, and the
// sync of each would hardly cost less.
const groupMax = 256

// checkpointAt is how many pages the log holds when a commit copies them into the database. A page is copied once,
// however often it was changed. A start after a crash reads a log of that size, 200 MB, in less than a second.
const checkpointAt = 48_000

const pageSize = 4096 // SQLite's default

// sqliteDB is one writer connection, whose goroutine commits waiting writes in groups, and a pool of readers.
type sqliteDB struct {
	d        *Dialect
	hub      *hub
	log      *slog.Logger
	damage   *damage
	end      End
	lock     *os.File
	file     *os.File // the database; see createPrivate
	files    []keptFile
	conn     *sqliteConn
	unsynced atomic.Bool // how conn commits; see sync
	grew     atomic.Bool // the log has grown since copyLog checked
	schema
	*sqliteReaders
	lists *sqliteReaders // of DB.ForLists

	requests chan *writeRequest
	closing  chan struct{}
	closed   chan struct{}
	copied   chan struct{} // closed when copyLog has ended
	copier   *sqliteConn
	once     sync.Once
}

type writeRequest struct {
	ctx      context.Context
	fn       func(context.Context, *Tx) error
	unsynced bool // see DB.WriteUnsynced
	done     chan error
}

func openSQLite(ctx context.Context, c Config, end End, log *slog.Logger, h *hub) (*sqliteDB, error) {
	path, err := filepath.Abs(c.URL)
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	db := &sqliteDB{
		d: newSQLiteDialect(), hub: h, log: log, damage: &damage{log: log}, end: end, lock: lock,
		requests: make(chan *writeRequest), closing: make(chan struct{}), closed: make(chan struct{}),
		copied: make(chan struct{}),
	}
	if err := db.open(ctx, path, c.Used, c.Restoring, end); err != nil {
		if db.file != nil {
			err = broken(err, db.file)
		}
		db.closeFiles()
		return nil, explainSQLite(err)
	}
	db.conn.before = c.World.Write
	go db.copyLog()
	go db.run()
	return db, nil
}

func (db *sqliteDB) open(ctx context.Context, path string, used, restoring bool, end End) error {
	if _, err := os.Stat(path); used && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrBroken, path)
	}
	var err error
	if db.file, err = createPrivate(path); err != nil {
		return err
	}
	if err := lockDatabase(db.file); err != nil {
		return err
	}
	if info, err := db.file.Stat(); err != nil {
		return err
	} else if used && info.Size() == 0 {
		// SQLite would create the database anew and discard its log.
		return fmt.Errorf("%w: %s is empty", ErrBroken, path)
	}
	// A clean end removes the log, so a log means that the last end was unclean.
	logFile, err := os.Stat(path + "-wal")
	unclean := err == nil && logFile.Size() > 0 || restoring
	logged := err == nil
	dsn := func(pragmas ...string) string {
		return sqliteDSN(path, append([]string{"journal_mode(WAL)"}, pragmas...)...)
	}
	checkpoint := fmt.Sprintf("wal_autocheckpoint(%d)", checkpointAt)
	// Without this limit the log's file would keep the size of the largest transaction.
	limit := fmt.Sprintf("journal_size_limit(%d)", 2*checkpointAt*pageSize)
	if db.conn, err = openSQLiteConn(ctx, db.d, dsn(checkpoint, limit, "cache_size(-16000)")); err != nil {
		return err
	}
	if err := db.conn.checkComplete(ctx, path, logged, restoring); err != nil {
		return err
	}
	if unclean {
		if err := db.conn.quickCheck(ctx, db.file, db.log); err != nil {
			return err
		}
	}
	if used {
		// A file whose log was lost before its first copy has only a header.
		if found, err := hasTable(ctx, db.conn, db.d, "schema_version"); err != nil {
			return err
		} else if !found {
			return fmt.Errorf("%w: %s has no tables", ErrBroken, path)
		}
	}
	if db.schema, err = migrate(ctx, db.conn, db.d, end); err != nil {
		return err
	}
	if err := db.conn.markAtOpen(ctx); err != nil {
		return err
	}
	if db.copier, err = openSQLiteConn(ctx, db.d, dsn("cache_size(-100)")); err != nil {
		return err
	}
	read := dsn("query_only(ON)", "cache_size(-4000)")
	if db.sqliteReaders, err = openSQLiteReaders(db.d, db.damage, read, 4); err != nil {
		return err
	}
	if db.lists, err = openSQLiteReaders(db.d, db.damage, read, listConns); err != nil {
		return err
	}
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		db.files = append(db.files, keptFile{name, info})
	}
	return nil
}

// keptFile is a file that must stay in place while the database is open.
type keptFile struct {
	name string
	info os.FileInfo
}

// gone returns ErrGone if files were removed or replaced. SQLite would continue to write to the removed files, and
// the rows would be lost.
func (db *sqliteDB) gone() error {
	for _, f := range db.files {
		switch info, err := os.Stat(f.name); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %s is missing", ErrGone, f.name)
		case err == nil && !os.SameFile(info, f.info):
			return fmt.Errorf("%w: %s is another file now", ErrGone, f.name)
		}
	}
	return nil
}

func (db *sqliteDB) views() Querier { return db.lists }

// createPrivate creates the file if it is missing and makes it readable for this user only. SQLite gives its other
// files the same mode. The file must stay open as long as SQLite uses it, because a process that closes a file loses
// all its locks on it.
func createPrivate(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Chmod(0o600), syncParent(path)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncParent makes the entry of a file in its directory durable.
func syncParent(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Unsynced reports whether the last commit did not wait for the disk. Only WriteUnsynced on SQLite makes such commits.
func (d *DB) Unsynced() bool {
	s, ok := d.backend.(*sqliteDB)
	return ok && s.unsynced.Load()
}

// write passes fn to the writer. Once the writer has it, write waits for the result even if ctx ends, so that the
// caller always knows the result. It refuses every write once a page is known to be damaged: the written rows may be
// lost, and a decision may rest on a missing row.
func (db *sqliteDB) write(ctx context.Context, unsynced bool, fn func(context.Context, *Tx) error) error {
	if err := db.damage.seen(); err != nil {
		return err
	}
	r := &writeRequest{ctx, fn, unsynced, make(chan error, 1)}
	select {
	case db.requests <- r:
		return db.damage.explain(<-r.done)
	case <-ctx.Done():
		return ctx.Err()
	case <-db.closing:
		return ErrClosed
	}
}

func (db *sqliteDB) run() {
	defer close(db.closed)
	group := make([]*writeRequest, 0, groupMax)
	for {
		select {
		case r := <-db.requests:
			group = append(group[:0], r)
		case <-db.closing:
			return
		}
		for more := true; more && len(group) < groupMax; {
			select {
			case r := <-db.requests:
				group = append(group, r)
			default:
				more = false
			}
		}
		db.writeGroup(group)
	}
}

// copyLog copies most of the log into the database while the writer works. The commit that fills the log copies the
// rest and starts the log again. With wal_autocheckpoint alone, at 1,000 to 4,000 pages, commits made 0.54 to 0.92 of
// the rate, or had 1.7 times the p99 (5 runs in turns, 32 callers, two cores). copyLog ignores errors, because the
// writer meets them too.
func (db *sqliteDB) copyLog() {
	defer close(db.copied)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for marked := false; ; {
		select {
		case <-tick.C:
		case <-db.closing:
			return
		}
		if !db.grew.Swap(false) && !marked {
			continue
		}
		var busy, size, copied int
		_, err := One(context.Background(), db.copier, "PRAGMA wal_checkpoint(NOOP)", nil, &busy, &size, &copied)
		full := size >= checkpointAt*3/4
		if err == nil && full != marked && db.write(context.Background(), false, markIncomplete(full)) == nil {
			marked = full
		}
		if full && marked {
			_ = db.copier.control(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)")
			_ = db.file.Sync()
		}
	}
}

// writeGroup commits a group in one transaction. If a request fails, it is rolled back, and each half of the group is
// written in its place, so that one request fails without the others. Savepoints would make SQLite copy every page
// before it changes, in every group.
func (db *sqliteDB) writeGroup(group []*writeRequest) {
	errs, err := db.try(group)
	if errors.Is(err, errSomeFailed) {
		half := len(group) / 2
		db.writeGroup(group[:half])
		db.writeGroup(group[half:])
		return
	}
	db.grew.Store(true)
	for i, r := range group {
		if errs[i] == nil && err != nil {
			errs[i] = fmt.Errorf("writing to the database: %w", err)
		}
		r.done <- errs[i]
	}
}

var errSomeFailed = errors.New("some of a group have failed")

// try returns the error of each request, and err if the whole transaction is lost. err is errSomeFailed if one of
// several requests failed.
func (db *sqliteDB) try(group []*writeRequest) (errs []error, err error) {
	ctx := context.Background() // a group is not interrupted for one caller
	errs = make([]error, len(group))
	all := &Tx{Querier: db.conn}
	if err = db.sync(ctx, group); err == nil {
		err = db.conn.control(ctx, "BEGIN IMMEDIATE")
	}
	for i := 0; i < len(group) && err == nil; i++ {
		if errs[i] = group[i].ctx.Err(); errs[i] != nil {
			continue // its caller has given up
		}
		err = group[i].run(all)
		if errs[i] = err; err != nil && len(group) > 1 {
			err = errSomeFailed
		}
	}
	if err == nil {
		err = all.finish(ctx, db.end)
	}
	if err == nil {
		err = db.conn.control(ctx, "COMMIT")
	}
	if err != nil {
		// SQLite may have rolled back already, so this error means nothing.
		_ = db.conn.control(ctx, "ROLLBACK")
		return errs, err
	}
	all.here.every(db.hub.WakeHere)
	return errs, nil
}

// sync makes the next commit wait for the disk, unless the whole group is unsynced. The log keeps the order of
// commits, so the next commit that waits makes the earlier ones durable too.
func (db *sqliteDB) sync(ctx context.Context, group []*writeRequest) error {
	unsynced := !slices.ContainsFunc(group, func(r *writeRequest) bool { return !r.unsynced })
	if unsynced == db.unsynced.Load() {
		return nil
	}
	text := "PRAGMA synchronous = FULL"
	if unsynced {
		text = "PRAGMA synchronous = NORMAL"
	}
	if err := db.conn.unprepared(ctx, text); err != nil {
		return err
	}
	db.unsynced.Store(unsynced)
	return nil
}

// run runs the request's function with the values of its caller's context. The function is not interrupted, because
// its whole group would be lost. A panic becomes an error, because the writer serves all callers.
func (r *writeRequest) run(t *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a transaction: %v", p)
		}
	}()
	return r.fn(context.WithoutCancel(r.ctx), t)
}

func (db *sqliteDB) Ping(ctx context.Context) error {
	select {
	case <-db.closing:
		return ErrClosed
	default:
		if err := db.damage.seen(); err != nil {
			return err
		}
		return db.damage.explain(db.pool.PingContext(ctx))
	}
}

func (db *sqliteDB) Close() error {
	var err error
	db.once.Do(func() {
		close(db.closing)
		<-db.closed
		<-db.copied
		// If this fails, the next start finds the log and takes this for an unclean end.
		_ = markIncomplete(false)(context.Background(), &Tx{Querier: db.conn})
		err = db.closeFiles()
	})
	return err
}

// closeFiles closes all open files, the lock last.
func (db *sqliteDB) closeFiles() error {
	var errs []error
	for _, r := range []*sqliteReaders{db.sqliteReaders, db.lists} {
		if r != nil {
			errs = append(errs, r.close())
		}
	}
	if db.copier != nil {
		errs = append(errs, db.copier.close())
	}
	if db.conn != nil {
		errs = append(errs, db.conn.close())
	}
	if db.file != nil {
		errs = append(errs, unlock(db.file))
	}
	errs = append(errs, unlock(db.lock))
	return errors.Join(errs...)
}
