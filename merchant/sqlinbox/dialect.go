package sqlinbox

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Dialect is the kind of a database.
type Dialect string

// The dialects. The zero Dialect is none.
const (
	PostgreSQL Dialect = "postgres" // 12 or later
	MySQL      Dialect = "mysql"    // MySQL 8 or later, MariaDB 10.5 or later
	SQLite     Dialect = "sqlite"   // 3.35 or later
)

func (d Dialect) known() bool { return DDL(d) != "" }

//go:embed ddl
var ddl embed.FS

// DDL returns the statements that make the tables of an Inbox, each ended by a
// semicolon at the end of a line. They may run again and then change nothing.
// It is empty for an unknown d.
func DDL(d Dialect) string {
	text, err := ddl.ReadFile("ddl/" + string(d) + ".sql")
	if err != nil {
		return ""
	}
	return string(text)
}

// Create runs DDL, statement by statement. It may be called at every start, by
// several processes at once.
func Create(ctx context.Context, db *sql.DB, d Dialect) error {
	if !d.known() {
		return fmt.Errorf("sqlinbox: %q is not a known dialect", d)
	}
	for _, text := range strings.SplitAfter(DDL(d), ";\n") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		err := d.repeated(ctx, func() error { return d.create(ctx, db, text) })
		if err != nil {
			return fmt.Errorf("sqlinbox: making the tables: %w", err)
		}
	}
	return nil
}

// createLock is PostgreSQL's advisory lock of processes that create.
const createLock = 0x73716c696e626f78 // "sqlinbox"

// create runs one statement of DDL. In PostgreSQL two CREATE … IF NOT EXISTS at once may
// both find nothing, and one then fails, so only one runs at a time. Each has a
// transaction of its own: a lock on one table that is held while the next is waited for
// could end in a deadlock with an Inbox that works.
func (d Dialect) create(ctx context.Context, db *sql.DB, text string) error {
	if d != PostgreSQL {
		_, err := db.ExecContext(ctx, text)
		return err
	}
	tx, err := db.BeginTx(ctx, d.options())
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of what was not committed
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(createLock)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return err
	}
	return tx.Commit()
}

// options returns the options of every transaction. In MySQL the default, REPEATABLE READ, would show a transaction
// that waited for a lock the rows as they were before, and lock gaps between rows.
func (d Dialect) options() *sql.TxOptions {
	if d == SQLite {
		return nil
	}
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

// text returns the statement with the parameters of d in place of question marks.
func (d Dialect) text(statement string) string {
	if d != PostgreSQL {
		return statement
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(statement, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		statement = after
	}
}

// blob returns text as a parameter for a column of text. MySQL keeps it as bytes, so
// that no character set of a connection changes it.
func (d Dialect) blob(text string) any {
	if d == MySQL {
		return []byte(text)
	}
	return text
}

// transient reports whether a transaction that failed with err may succeed if it is
// repeated: it was chosen to end a deadlock, or waited too long for a lock. A driver is
// known by the text of its errors or by a method of theirs, since none is imported.
func (d Dialect) transient(err error) bool {
	if err == nil {
		return false
	}
	switch d {
	case PostgreSQL:
		return strings.HasPrefix(sqlState(err), "40") // serialization failure, deadlock
	case MySQL:
		text := err.Error()
		return strings.Contains(text, "Error 1213") || strings.Contains(text, "Error 1205") || // deadlock, lock wait time-out
			strings.Contains(text, "Error 1020") // the record has changed since it was read
	case SQLite:
		text := err.Error()
		return strings.Contains(text, "database is locked") || strings.Contains(text, "database table is locked") ||
			strings.Contains(text, "SQLITE_BUSY")
	}
	return false
}

// sqlState returns the SQLSTATE of an error of PostgreSQL, from pgx or lib/pq.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// A transaction that may succeed later is repeated after pauses that double from the
// first of these to the second, for repeatFor in all.
const (
	repeatFirst = 2 * time.Millisecond
	repeatMost  = 200 * time.Millisecond
	repeatFor   = 30 * time.Second
)

// repeated calls once until it succeeds, fails with an error that is not transient, ctx
// ends, or repeatFor is over. It returns the last error of once.
func (d Dialect) repeated(ctx context.Context, once func() error) error {
	end := time.Now().Add(repeatFor)
	for pause := repeatFirst; ; pause = min(2*pause, repeatMost) {
		err := once()
		if err == nil || !d.transient(err) || time.Now().After(end) {
			return err
		}
		// Two that ended each other's transaction must not meet again.
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
}
