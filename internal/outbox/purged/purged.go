// Package purged is what stays of callbacks that were accepted long ago and purged: enough to answer a repetition as before, for ever.
package purged

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"countersign"
	"countersign/internal/db"
)

// Row is what stays of a callback.
type Row struct {
	ID     string // the part after the merchant
	digest []byte // SHA-256 of the payload
}

// Same reports whether the payload is that of the callback.
func (r *Row) Same(payload []byte) bool {
	sum := sha256.Sum256(payload)
	return bytes.Equal(r.digest, sum[:])
}

// Event names a callback by what it tells of. An empty ID is looked up nowhere.
type Event struct {
	Merchant string
	Type     countersign.Type
	ID       string
}

const lookSQL = `
SELECT i.event_id, i.id, i.digest FROM {list}$1{as w} CROSS JOIN {inner}purged i
WHERE i.merchant = $2 AND i.type = $3 AND i.event_id = w.value{alone}`

// Look gives the statements that put what stays of each event into found. With PostgreSQL
// they must come after the statement that inserts these callbacks: that one waits until a
// purge of the same callback has committed, and a later statement sees what it committed.
func Look(d *db.Dialect, events []Event, found []*Row) (list []db.Statement) {
	places := map[Event][]int{}
	ids := map[Event][]string{} // by merchant and type
	var order []Event
	for i, e := range events {
		if e.ID == "" {
			continue
		}
		of := Event{Merchant: e.Merchant, Type: e.Type}
		if ids[of] == nil {
			order = append(order, of)
		}
		if places[e] == nil {
			ids[of] = append(ids[of], e.ID)
		}
		places[e] = append(places[e], i)
	}
	for _, of := range order {
		list = append(list, db.Statement{SQL: lookSQL, Args: []any{d.List(ids[of]), of.Merchant, int64(of.Type)}, Row: func(r db.Rows) error {
			var row Row
			err := r.Scan(&of.ID, &row.ID, &row.digest)
			for _, i := range places[of] {
				found[i] = &row
			}
			return err
		}})
	}
	return list
}

const keepSQL = `INSERT INTO purged (merchant, event_id, type, id, digest) VALUES ($1, $2, $3, $4, $5)`

var keep = db.NewInsert(keepSQL, 32, 8)

// Keep gives the statements that keep what Args made of each callback.
func Keep(args []any) []db.Statement { return keep.Statements(args, nil) }

// Args appends what stays of a callback.
func Args(to []any, e Event, id string, payload []byte) []any {
	sum := sha256.Sum256(payload)
	return append(to, e.Merchant, e.ID, int64(e.Type), id, sum[:])
}

const beforeSQL = `SELECT before FROM retention WHERE one = 1`

// Before is the time before which what was settled may have been purged; 0: nothing was.
func Before(ctx context.Context, q db.Querier) (before db.Millis, err error) {
	_, err = db.One(ctx, q, beforeSQL, nil, &before)
	return before, err
}

// Gone is the error for a callback that is not kept and would be of the time before. It
// wraps db.ErrPurged.
func Gone(before db.Millis) error {
	return fmt.Errorf("callbacks that were settled before %s were %w, and this one would be of that time: of each, its merchant, trackingId and digest are kept",
		before.Time().UTC().Format(time.RFC3339), db.ErrPurged)
}

const eachSQL = `
SELECT merchant, event_id FROM purged WHERE type = 1 AND (merchant, event_id) > ($1, $2) ORDER BY merchant, event_id LIMIT CAST($3 AS BIGINT)`

// EachDeposit calls fn for every deposit that was purged, by merchant.
func EachDeposit(ctx context.Context, q db.Querier, fn func(merchant, trackingID string) error) error {
	const most = 1000
	merchant, id := "", ""
	for n := most; n == most; {
		n = 0
		err := db.Each(ctx, q, eachSQL, []any{merchant, id, most}, func(r db.Rows) error {
			n++
			if err := r.Scan(&merchant, &id); err != nil {
				return err
			}
			return fn(merchant, id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
