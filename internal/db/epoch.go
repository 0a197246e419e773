package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// An epoch begins when a database is restored from a backup. The database does not know what came after the backup,
// so it could assign numbers of its feeds a second time. The numbers of an epoch therefore begin far above those of
// the epoch before: at the second in which the epoch begins, times epochNumbers. A feed assigns fewer numbers a
// second than that, so no number is ever assigned twice, even if one backup is restored several times.
const epochNumbers = 1_000_000

// epochZero is the zero of epoch numbers, in seconds since 1970. With it the numbers of feeds stay below 2^53, the
// limit of many JSON readers, for 285 years.
var epochZero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// ErrOlder means that the database is older than the one that was in use here, or is a backup. It does not know what
// came after it. Restoring it begins an epoch.
var ErrOlder = errors.New("the database is older than what this end did last")

// Epoch is one restore of a database.
type Epoch struct {
	Number     int64 // 0: the database was never restored
	Began      Millis
	Reconciled Millis           // when it was reconciled; 0: it is not
	Ends       map[string]int64 // the last number that each feed had before
	Undecided  int64            // set when it begins: how many things had not ended in the backup
}

// Open reports whether the epoch is not reconciled yet. Until then, some things may have happened twice or not at
// all.
func (e Epoch) Open() bool { return e.Number != 0 && e.Reconciled == 0 }

// Base returns the number after which the feeds of an epoch begin.
func (e Epoch) Base() int64 { return e.Number * epochNumbers }

const (
	insertEpochSQL = `INSERT INTO epochs (number, began, ends) VALUES ($1, $2, $3)`
	reconcileSQL   = `UPDATE epochs SET reconciled = $1 WHERE reconciled = 0`
	lockEpochsSQL  = `SELECT number FROM epochs ORDER BY number{lock}`
	readEpochsSQL  = `SELECT number, began, ends, reconciled FROM epochs ORDER BY number`
)

// Epochs lists all epochs of a database, in order.
type Epochs []Epoch

// Query returns the statement that reads the epochs into es, as part of a batch. Use it once.
func (es *Epochs) Query() Statement {
	return Statement{SQL: readEpochsSQL, Row: func(r Rows) error {
		var e Epoch
		err := r.Scan(&e.Number, &e.Began, JSON(&e.Ends), &e.Reconciled)
		*es = append(*es, e)
		return err
	}}
}

// Last returns the present epoch. It counts as open while any epoch is open. Without a restore it is the zero Epoch.
func (es Epochs) Last() (e Epoch) {
	if n := len(es); n > 0 {
		e = es[n-1]
		if slices.ContainsFunc(es, Epoch.Open) {
			e.Reconciled = 0
		}
	}
	return e
}

// ReadEpochs returns all epochs that a restore has begun.
func ReadEpochs(ctx context.Context, q Querier) (es Epochs, err error) {
	s := es.Query()
	err = Each(ctx, q, s.SQL, nil, s.Row)
	return es, err
}

// LastEpoch returns the present epoch, as Epochs.Last does. If the epochs cannot be read, it counts as open.
func LastEpoch(ctx context.Context, q Querier) (Epoch, error) {
	es, err := ReadEpochs(ctx, q)
	if err != nil {
		return Epoch{Number: -1}, err
	}
	return es.Last(), nil
}

// EpochIsOpen reports whether a restore is not reconciled. An epoch that was read as closed stays closed: only a
// restore opens an epoch, and no process has the database open during a restore.
func EpochIsOpen(ctx context.Context, q Querier) (bool, error) {
	e, err := LastEpoch(ctx, q)
	return e.Open(), err
}

// Between returns how many numbers of a feed were assigned after from, up to to.
func (es Epochs) Between(feed string, from, to int64) int64 {
	n := to - from
	for _, e := range es {
		if end, ok := e.Ends[feed]; ok && from < e.Base() && e.Base() <= to {
			n -= e.Base() - max(end, from)
		}
	}
	return n
}

// CheckPage returns a *ConflictError if a reader of a feed cannot be at number after, because after is beyond the end
// or belongs to an epoch that this database does not know. With an empty page such a reader would wait for ever.
// first is the number of the first entry of the page that was read after it, or 0 for an empty page. If first is the
// next number, after is right and CheckPage does not ask the database.
func (d *DB) CheckPage(ctx context.Context, feed string, after, first int64) error {
	if after == 0 || first == after+1 {
		return nil
	}
	last, err := LastSeqs(ctx, d)
	if err != nil {
		return err
	}
	if after > last[feed] {
		return &ConflictError{Reason: fmt.Sprintf(
			"after is beyond the end of the feed, which is %d: it is of another database, or of one that was restored since; go on after %[1]d only if it has all entries up to there", last[feed])}
	}
	es, err := ReadEpochs(ctx, d)
	if err != nil {
		return err
	}
	for _, e := range es {
		if end, ok := e.Ends[feed]; ok && end < after &&
			after < e.Base() { // in the gap before an epoch: another one assigned it
			return &ConflictError{Reason: fmt.Sprintf(
				"after is of another epoch: the database was restored since, and does not have that entry; go on after %d", e.Base())}
		}
	}
	return nil
}

// BeginEpoch begins an epoch after a restore. Its number is greater than least. The feeds continue with numbers that
// were never assigned. more runs in the same transaction.
func (d *DB) BeginEpoch(ctx context.Context, feeds []string, least int64, now Millis,
	more func(context.Context, *Tx, Epoch) error) (e Epoch, err error) {
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		was, err := LastEpoch(ctx, t)
		if err != nil {
			return err
		}
		e = Epoch{Number: max(now.Time().Unix()-epochZero, was.Number+1, least+1, 1), Began: now, Ends: map[string]int64{}}
		for _, feed := range slices.Sorted(slices.Values(feeds)) {
			seq, err := LockFeed(ctx, t, feed)
			if err != nil {
				return err
			}
			e.Number = max(e.Number, seq/epochNumbers+1)
			e.Ends[feed] = seq
		}
		ends, err := json.Marshal(e.Ends)
		if err != nil {
			return err
		}
		statements := []Statement{{SQL: insertEpochSQL, Args: []any{e.Number, int64(now), string(ends)}}}
		for _, feed := range slices.Sorted(maps.Keys(e.Ends)) {
			statements = append(statements, EndFeed(feed, e.Base()))
		}
		statements = append(statements, Statement{SQL: dropMetaSQL, Args: []any{metaBackup}})
		if err := t.Batch(ctx, statements); err != nil {
			return err
		}
		return more(ctx, t, e)
	})
	return e, err
}

// Reconcile ends the open epoch as part of t, which releases what the epoch held back. It reports whether one was
// open.
func Reconcile(ctx context.Context, t *Tx, now Millis) (bool, error) {
	if _, err := t.Exec(ctx, lockEpochsSQL); err != nil {
		return false, err
	}
	n, err := t.Exec(ctx, reconcileSQL, int64(now))
	return n > 0, err
}

// ErrAnother means that the database is not the one that was in use here, or that somebody gave it another log.
var ErrAnother = errors.New("the database is not the one that was in use with this data directory")
