package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"countersign/client"
	"countersign/internal/db"
)

// A record of long ago may lose its body (package retain). Its number and its hashes stay,
// so that the tree, every checkpoint and every proof are as before. The log says so before:
// a record without a body that no record of the kind RecordPurging covers was removed by
// somebody else.

// RecordPurging is the kind of the record that says which bodies may go.
const RecordPurging = "audit.purging"

// AboutPurges is by what these records are found.
const AboutPurges = "purges"

// Purging is what such a record says.
type Purging struct {
	Upto   int64           `json:"upto"`   // the last record whose body may go
	Before int64           `json:"before"` // when it was added at the latest, in milliseconds since 1970
	Retain client.Duration `json:"retain"` // the setting of the node that purges
}

// Announce adds the record that bodies may go.
func Announce(ctx context.Context, t *db.Tx, p Purging, now db.Millis) error {
	return Add(ctx, t, Record{Kind: RecordPurging, At: now, About: []string{AboutPurges}, Data: p})
}

// upto is the last record whose body may have gone, as a record says; 0: it says nothing.
func (t Told) upto() int64 {
	var p Purging
	if t.Kind != RecordPurging || json.Unmarshal(t.Data, &p) != nil {
		return 0
	}
	return p.Upto
}

// signedBeforeSQL is by what the purge finds what was added before a time: a checkpoint of then. So
// nothing goes that was not signed, and no clock of a record decides alone.
const signedBeforeSQL = `SELECT size FROM audit_checkpoints WHERE at < $1 ORDER BY at DESC LIMIT 1`

// SignedBefore gives the number of records that were signed before a time; 0: none was.
func SignedBefore(ctx context.Context, q db.Querier, before db.Millis) (size int64, err error) {
	_, err = db.One(ctx, q, signedBeforeSQL, []any{int64(before)}, &size)
	return size, err
}

// Whole is a record that has its body.
type Whole struct {
	Seq    int64
	Told   Told
	Items  bool // it tells of many as one, by their times
	hashes []byte
}

const wholeSQL = `SELECT seq, body, hashes, CASE WHEN length(leaves) > 0 THEN 1 ELSE 0 END FROM audit_records WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT CAST($3 AS BIGINT)`

// Wholes gives records that have their bodies after a number, up to number until. It fails
// with ErrBroken at one that is not the one that was added.
func Wholes(ctx context.Context, q db.Querier, after, until int64, most int) (list []Whole, err error) {
	err = db.Each(ctx, q, wholeSQL, []any{after, until, most}, func(r db.Rows) error {
		var w Whole
		var body []byte
		var items int64
		if err := r.Scan(&w.Seq, &body, &w.hashes, &items); err != nil {
			return err
		}
		w.Items = items == 1
		w.Told, err = Read(body)
		if h := tlog.RecordHash(body); err != nil || !strings.HasPrefix(string(w.hashes), string(h[:])) {
			return fmt.Errorf("%w: record %d is not the one that was added", ErrBroken, w.Seq)
		}
		list = append(list, w)
		return nil
	})
	return list, err
}

const (
	purgedSQL = `INSERT INTO audit_purged (seq, hashes) VALUES ($1, $2)`

	dropBodySQL = `DELETE FROM audit_records WHERE seq = $1`

	// dropSubjectSQL is for times of items, which cannot be proved any more. Ids of
	// withdrawals and orders stay: a proof names the records that were purged.
	dropSubjectSQL = `DELETE FROM audit_subjects WHERE subject = $1 AND seq = $2`
)

var insertPurged = db.NewInsert(purgedSQL, 32, 8)

// Purge removes the bodies of a list as part of t.
func Purge(ctx context.Context, t *db.Tx, list []Whole) error {
	var kept []any
	var statements []db.Statement
	for _, w := range list {
		kept = append(kept, w.Seq, w.hashes)
		statements = append(statements, db.Statement{SQL: dropBodySQL, Args: []any{w.Seq}})
		if !w.Items {
			continue
		}
		for _, id := range w.Told.About {
			statements = append(statements, db.Statement{SQL: dropSubjectSQL, Args: []any{id, w.Seq}})
		}
	}
	return t.Batch(ctx, append(statements, insertPurged.Statements(kept, nil)...))
}

// bodiless counts the records without a body of a log that is read in order, and what the
// log says of them.
type bodiless struct {
	n, last, said int64
}

func (b *bodiless) see(seq int64) { b.n, b.last = b.n+1, seq }

// hear takes what a record with a body says.
func (b *bodiless) hear(told Told) { b.said = max(b.said, told.upto()) }

// unsaid is the last record without a body if no record says that it was purged, or 0.
func (b *bodiless) unsaid() int64 {
	if b.last > b.said {
		return b.last
	}
	return 0
}
