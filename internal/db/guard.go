package db

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"countersign/client"
)

// Guarded is a table whose rows decide who may do what. Its column mac holds a MAC of each
// row, under a key derived from the master key. So a row is not genuine if somebody wrote or
// changed it who has the database and not the key.
type Guarded struct {
	Name    string
	Key     string // its primary key, a text
	From    string // what Columns are read from; empty: the table
	Columns string // what the MAC covers, the key first, as a list of SQL
	Number  string // a column that grows with each change, the second of Columns. Its rows are never removed. Empty: there is none, and a row may be as it was once
	Beside  string // what Scan reads behind them, such as a data key, which is sealed anew; may be empty
}

// ErrForged means that a row that is to be changed is not as this program left it.
var ErrForged = fmt.Errorf("%w: a row was changed past the program (alarm %s)", ErrConflict, client.AlarmRowForged)

// Select is what Scan reads.
func (g Guarded) Select() string {
	columns := g.Columns
	if g.Beside != "" {
		columns += ", " + g.Beside
	}
	return `SELECT ` + columns + `, mac FROM ` + cmp.Or(g.From, g.Name) + ` `
}

// RowReader reads rows of a guarded table. It is made before the statement that reads them.
type RowReader struct {
	g    Guarded
	q    Querier
	tick int64 // what had been seen by then counts
}

// Reader gives a reader of the rows that q selects.
func (g Guarded) Reader(q Querier) RowReader { return RowReader{g, q, guardOf(q).seen.now()} }

// Scan reads a row of Select into dest and reports whether it is genuine: it has its MAC, and it
// is not one of an earlier time. A row that is not raises the alarm row_forged; the caller
// treats it as absent.
func (r RowReader) Scan(rows Rows, dest ...any) (genuine bool, err error) {
	var mac []byte
	if err := rows.Scan(append(slices.Clone(dest), &mac)...); err != nil {
		return false, err
	}
	return r.judge(mac, dest), nil
}

// judge reports whether a row with this MAC and these columns is genuine.
func (r RowReader) judge(mac []byte, dest []any) bool {
	k, key := guardOf(r.q), textOf(dest[0])
	if !r.g.believe(r.q, mac, k.mac(r.g, dest[:r.g.covered()]), key) {
		return false
	}
	if r.g.Number == "" || k.saw(r.q, r.g.Name, key, numberOf(dest[1]), r.tick) {
		return true
	}
	r.g.Doubt(r.q, key)
	return false
}

// Missing counts the rows that were there before and are not among those found, which are all
// of the table. Each raises the alarm row_forged.
func (r RowReader) Missing(found map[string]bool) int {
	list := guardOf(r.q).seen.missing(r.g.Name, found, r.tick)
	for _, key := range list {
		r.g.Doubt(r.q, key)
	}
	return len(list)
}

// Next gives a number for a row that replaces one which is not genuine: greater than all that
// such a row had. Where this process has not seen the row that is the time, in milliseconds.
func (g Guarded) Next(q Querier, key string) int64 {
	if n := guardOf(q).seen.number(g.Name, key); n > 0 {
		return n + 1
	}
	return time.Now().UnixMilli()
}

// believe compares the MAC of a row with what it should be, and doubts the row if they differ.
func (g Guarded) believe(q Querier, is, should []byte, key string) bool {
	if hmac.Equal(is, should) {
		return true
	}
	g.Doubt(q, key)
	return false
}

// MAC gives the MAC of a row with these values of Columns, for a statement that writes all of
// them: the key is not read again as Change does.
func (g Guarded) MAC(q Querier, values ...any) []byte {
	to := make([]any, len(values))
	for i := range values {
		to[i] = &values[i]
	}
	return guardOf(q).mac(g, to)
}

// Genuine reports whether mac is the MAC of these values. If it is not, the alarm row_forged is
// raised about key.
func (g Guarded) Genuine(q Querier, key string, mac []byte, values ...any) bool {
	return g.believe(q, mac, g.MAC(q, values...), key)
}

// Doubt raises the alarm row_forged about a row that the caller does not believe, such as one
// that is missing.
func (g Guarded) Doubt(q Querier, key string) { guardOf(q).note(g.Name + " " + key) }

// Change runs change, which makes or changes the row with this key, and makes its MAC anew. A
// row that is not genuine is not changed, since it would be genuine then, and one that was there
// before and is missing is not made again: ErrForged.
func (g Guarded) Change(ctx context.Context, t *Tx, key string, change func() error) error {
	found, genuine, values := false, true, g.values()
	own := g
	own.Beside = ""
	_, err := t.Exec(ctx, `SELECT 1 FROM `+g.Name+` WHERE `+g.Key+` = $1{lock}`, key)
	look := own.Reader(t)
	if err == nil {
		err = Each(ctx, t, own.Select()+` WHERE `+g.Key+` = $1`, []any{key}, func(r Rows) (err error) {
			found = true
			genuine, err = look.Scan(r, values...)
			return err
		})
	}
	if err == nil && !found && guardOf(t).seen.before(g.Name, key, look.tick) {
		g.Doubt(t, key)
		genuine = false
	}
	if err == nil && !genuine {
		err = ErrForged
	}
	if err == nil {
		err = change()
	}
	if err != nil {
		return err
	}
	return g.renew(ctx, t, key, values)
}

// Renew makes the MAC of the row with this key anew, whatever it was: all that the MAC covers
// has been written in t.
func (g Guarded) Renew(ctx context.Context, t *Tx, key string) error {
	return g.renew(ctx, t, key, nil)
}

// renew is Renew of a row that had the values was; nil: they count for nothing.
func (g Guarded) renew(ctx context.Context, t *Tx, key string, was []any) error {
	values := g.values()
	found, err := One(ctx, t, `SELECT `+g.Columns+` FROM `+cmp.Or(g.From, g.Name)+` WHERE `+g.Key+` = $1`, []any{key}, values...)
	if err != nil || !found {
		return err
	}
	if g.Number != "" && !reflect.DeepEqual(values, was) {
		// Otherwise the row of before would stay as good as this one.
		least := guardOf(t).seen.number(g.Name, key)
		if was != nil {
			least = max(least, numberOf(was[1]))
		}
		if n := numberOf(values[1]); n <= least {
			return fmt.Errorf("%w: a change of %s %s has the number %d, and an earlier one had %d", ErrConflict, g.Name, key, n, least)
		}
	}
	_, err = t.Exec(ctx, `UPDATE `+g.Name+` SET mac = $2 WHERE `+g.Key+` = $1`, key, guardOf(t).mac(g, values))
	if err == nil && g.Number != "" {
		*t.seen = append(*t.seen, seenRow{g.Name, key, numberOf(values[1])})
	}
	return err
}

// values are pointers to what the MAC covers.
func (g Guarded) values() []any {
	values := make([]any, g.covered())
	for i := range values {
		values[i] = new(any)
	}
	return values
}

// textOf and numberOf give the value that a pointer to a column holds.
func textOf(v any) string { return fmt.Sprint(reflect.ValueOf(v).Elem()) }

func numberOf(v any) int64 {
	e := reflect.ValueOf(v).Elem()
	if e.Kind() == reflect.Interface {
		e = e.Elem()
	}
	if !e.CanInt() { // no row
		return 0
	}
	return e.Int()
}

// covered is how many columns the MAC covers.
func (g Guarded) covered() int {
	n, depth := 1, 0
	for _, c := range []byte(g.Columns) {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			n++
		}
	}
	return n
}

// guard makes and checks the MACs of one open database.
type guard struct {
	end  string
	keys *keyRing
	seen seenRows

	epoch atomic.Int64 // the last epoch that was read: its row may be removed

	mu    sync.Mutex
	noted map[string]bool // rows that are not genuine, until their alarm is kept

	watched map[string]Guarded // by name
	told    map[string]bool    // rows that were put back or removed, and still are
}

// guardOf gives the guard of what q reads.
func guardOf(q Querier) *guard {
	if t, ok := q.(*Tx); ok {
		return t.guard
	}
	return q.(interface{ rowGuard() *guard }).rowGuard()
}

// write runs fn in a transaction of write that has the guard. What fn has seen counts when it
// is committed.
func (d *DB) write(ctx context.Context, write func(context.Context, func(context.Context, *Tx) error) error, fn func(context.Context, *Tx) error) error {
	var seen []seenRow
	err := write(ctx, func(ctx context.Context, t *Tx) error {
		seen = seen[:0] // it may run again
		t.guard, t.seen = d.guard, &seen
		return fn(ctx, t)
	})
	if err == nil {
		d.guard.seen.add(seen...)
	}
	return err
}

func (d *DB) rowGuard() *guard { return d.guard }

// mac covers the end, the table, its columns, and their values, each with its length. The
// key comes from the first master key of the database, which all later ones open, so it
// stays when the master key is replaced.
func (k *guard) mac(g Guarded, values []any) []byte {
	key := k.keys.rowKey()
	h := hmac.New(sha256.New, key[:])
	b := make([]byte, 0, 512)
	add := func(kind byte, part []byte) {
		b = append(binary.BigEndian.AppendUint64(append(b, kind), uint64(len(part))), part...)
	}
	add('t', []byte(k.end))
	add('t', []byte(g.Name))
	add('t', []byte(g.Columns))
	for _, v := range values {
		e := reflect.ValueOf(v).Elem()
		if e.Kind() == reflect.Interface {
			e = e.Elem()
		}
		switch e.Kind() {
		case reflect.String:
			add('t', []byte(e.String()))
		case reflect.Slice:
			add('t', e.Bytes())
		case reflect.Int64, reflect.Int:
			add('n', binary.BigEndian.AppendUint64(nil, uint64(e.Int())))
		default:
			panic(fmt.Sprintf("a column of %s is neither a text nor a number: %v", g.Name, e.Kind()))
		}
	}
	h.Write(b)
	return h.Sum(nil)
}

// note remembers a row that is not genuine until raise tells of it.
func (k *guard) note(row string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.noted == nil {
		k.noted = map[string]bool{}
	}
	if len(k.noted) < mostNoted {
		k.noted[row] = true
	}
}

// mostNoted bounds the alarms of a moment.
const mostNoted = 100

// raise raises the alarms of the rows that were noted.
func (k *guard) raise(ctx context.Context, d *DB) {
	k.mu.Lock()
	rows := slices.Sorted(maps.Keys(k.noted))
	clear(k.noted)
	k.mu.Unlock()
	if len(rows) == 0 {
		return
	}
	var alarms []Alarm
	for _, row := range rows {
		alarms = append(alarms, Alarm{Kind: client.AlarmRowForged, Subject: row, At: MillisOf(time.Now())})
	}
	if err := d.Write(ctx, func(ctx context.Context, t *Tx) error { return RaiseAlarms(ctx, t, alarms) }); err != nil {
		for _, row := range rows {
			k.note(row)
		}
		d.log.LogAttrs(ctx, slog.LevelError, "an alarm was not kept", slog.String("kind", string(client.AlarmRowForged)), slog.String("error", err.Error()))
	}
}
