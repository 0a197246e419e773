package db

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrTargetUsed means that the target of Move already has other rows.
var ErrTargetUsed = errors.New("the database already has other rows than those to move")

// Moved describes what is equal in both databases after Move.
type Moved struct {
	Tables int    `json:"tables"`
	Rows   int64  `json:"rows"`
	Digest string `json:"digest"` // of all rows
}

// Move copies every row of the SQLite database from into the PostgreSQL database to. It does so in one transaction,
// which it commits only if both then have the same rows. The file is locked meanwhile, so no daemon works on it. The
// target must be empty, or have the same rows from an earlier call; then nothing is copied. Sealed values are copied
// as they are.
func Move(ctx context.Context, from, to Config, end End) (m Moved, err error) {
	if isPostgres(from.URL) || !isPostgres(to.URL) {
		return m, errors.New("only a SQLite file can be moved, and only to PostgreSQL")
	}
	var ends [2]*DB
	for i, c := range []Config{from, to} {
		d := &DB{end: end, log: c.Log, hub: &hub{}, health: &health{failed: make(chan struct{}, 1)}}
		if err := d.open(ctx, c, end); err != nil {
			return m, fmt.Errorf("opening the database: %w", err)
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		ends[i] = d
	}
	list, err := moveTables(ctx, ends[0], ends[1])
	if err != nil {
		return m, err
	}
	err = ends[1].Write(ctx, func(ctx context.Context, t *Tx) error {
		m = Moved{}
		return moveAll(ctx, ends[0], t, list, &m)
	})
	return m, err
}

// movedTable is a table and the columns that are copied.
type movedTable struct {
	name, identity string // identity is the column that counts by itself; empty: none
	columns        []string
}

const (
	sqliteTablesSQL = `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid`

	columnsSQL = `
SELECT column_name::text, is_identity::text FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = $1 AND is_generated = 'NEVER' ORDER BY ordinal_position`
)

// moveTables returns the tables in the order in which they were made, so that referenced tables come first.
func moveTables(ctx context.Context, from, to *DB) (list []movedTable, err error) {
	names, err := List(ctx, from, sqliteTablesSQL, nil, func(r Rows) (name string, err error) {
		err = r.Scan(&name)
		return name, err
	})
	for _, name := range names {
		t := movedTable{name: name}
		err = errors.Join(err, Each(ctx, to, columnsSQL, []any{name}, func(r Rows) error {
			var column, identity string
			err := r.Scan(&column, &identity)
			t.columns = append(t.columns, column)
			if identity == "YES" {
				t.identity = column
			}
			return err
		}))
		if len(t.columns) == 0 {
			err = errors.Join(err, fmt.Errorf("PostgreSQL has no table %s", name))
		}
		list = append(list, t)
	}
	return list, err
}

func moveAll(ctx context.Context, from *DB, t *Tx, list []movedTable, m *Moved) error {
	names := make([]string, len(list))
	for i, table := range list {
		names[i] = quoted(table.name)
	}
	all := strings.Join(names, ", ")
	// Reading the file may take longer than other transactions do. A daemon that starts on the target meanwhile waits.
	for _, text := range []string{`SET LOCAL idle_in_transaction_session_timeout = 0`, `LOCK TABLE ` + all + ` IN ACCESS EXCLUSIVE MODE`} {
		if _, err := t.Exec(ctx, text); err != nil {
			return err
		}
	}
	key, err := KeyOf(ctx, t) // a database that was used or moved to has one
	if err != nil {
		return err
	}
	used := key != ""
	if !used {
		if _, err := t.Exec(ctx, `TRUNCATE `+all); err != nil { // of the rows that the schema comes with
			return err
		}
		for _, table := range list {
			if err := table.copy(ctx, from, t); err != nil {
				return fmt.Errorf("copying %s: %w", table.name, err)
			}
		}
	}
	var sums tableSum
	for _, table := range list {
		here, err := table.sum(ctx, from)
		if err != nil {
			return err
		}
		there, err := table.sum(ctx, t)
		switch {
		case err != nil:
			return err
		case here != there && used:
			return fmt.Errorf("%w: %s has %d rows there and %d here", ErrTargetUsed, table.name, there.rows, here.rows)
		case here != there:
			return fmt.Errorf("the copy of %s is not the same: %d rows and %d", table.name, there.rows, here.rows)
		}
		m.Tables++
		sums.add([]byte(table.name + "\x00" + here.text()))
		m.Rows += here.rows
	}
	m.Digest = sums.text()
	return nil
}

func quoted(name string) string { return `"` + name + `"` }

// moveBatch is how many rows are sent in one round trip.
const moveBatch = 500

func (t movedTable) copy(ctx context.Context, from *DB, to *Tx) error {
	var values []string
	for i := range t.columns {
		values = append(values, fmt.Sprintf("$%d", i+1))
	}
	insert := `INSERT INTO ` + quoted(t.name) + ` (` + t.names() + `) OVERRIDING SYSTEM VALUE VALUES (` +
		strings.Join(values, ", ") + `)`
	var batch []Statement
	err := t.each(ctx, from, func(row []any) error {
		if batch = append(batch, Statement{SQL: insert, Args: row}); len(batch) < moveBatch {
			return nil
		}
		err := to.Batch(ctx, batch)
		batch = batch[:0]
		return err
	})
	if err == nil {
		err = to.Batch(ctx, batch)
	}
	if err != nil || t.identity == "" {
		return err
	}
	highest := `(SELECT MAX(` + quoted(t.identity) + `) FROM ` + quoted(t.name) + `)`
	var next int64
	_, err = One(ctx, to, `SELECT setval(pg_get_serial_sequence($1, $2), COALESCE(`+highest+`, 1), `+highest+
		` IS NOT NULL)`, []any{t.name, t.identity}, &next)
	return err
}

func (t movedTable) names() string { return `"` + strings.Join(t.columns, `", "`) + `"` }

// each calls fn with the values of every row.
func (t movedTable) each(ctx context.Context, q Querier, fn func(row []any) error) error {
	return Each(ctx, q, `SELECT `+t.names()+` FROM `+quoted(t.name), nil, func(r Rows) error {
		row, dest := make([]any, len(t.columns)), make([]any, len(t.columns))
		for i := range row {
			dest[i] = &row[i]
		}
		if err := r.Scan(dest...); err != nil {
			return err
		}
		for i := range row {
			if b, is := row[i].([]byte); is && b == nil { // empty, and not NULL
				row[i] = []byte{}
			}
		}
		return fn(row)
	})
}

// tableSum is the number of rows and the sum of their digests. It does not depend on their order.
type tableSum struct {
	rows  int64
	words [4]uint64
}

func (s *tableSum) add(row []byte) {
	digest := sha256.Sum256(row)
	for i := range s.words {
		s.words[i] += binary.BigEndian.Uint64(digest[8*i:])
	}
	s.rows++
}

func (s tableSum) text() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(s.rows))
	for _, word := range s.words {
		b = binary.BigEndian.AppendUint64(b, word)
	}
	digest := sha256.Sum256(b)
	return hex.EncodeToString(digest[:])
}

func (t movedTable) sum(ctx context.Context, q Querier) (s tableSum, err error) {
	var b []byte
	err = t.each(ctx, q, func(row []any) error {
		b = b[:0]
		for _, v := range row {
			b = fmt.Appendf(b, "%T %x;", v, v) // of each type that columns have, this is the whole value
		}
		s.add(b)
		return nil
	})
	return s, err
}
