package outbox

import (
	"bytes"
	"context"
	"crypto/sha256"

	"countersign"
	"countersign/internal/db"
)

// purgedRow is what is stored of a purged callback.
type purgedRow struct {
	ID     string // the part after the merchant
	digest []byte // SHA-256 of the payload, as plainest writes it
}

// Same reports whether the callback had a payload with the same meaning.
func (r *purgedRow) Same(payload []byte) bool {
	sum := sha256.Sum256(plainest(payload))
	return bytes.Equal(r.digest, sum[:])
}

// plainest returns one payload for all payloads with the same meaning (PROTOCOL.md, A2 and Addresses): 7.40 is 7.4,
// and an address has one spelling. It returns a payload that it cannot read unchanged.
func plainest(payload []byte) []byte {
	c, err := countersign.ParseCallback(payload, countersign.ParseOptions{Lenient: true})
	if err != nil {
		return payload
	}
	fold := func(addresses ...*string) {
		for _, a := range addresses {
			*a = countersign.AddressKey(*a)
		}
	}
	switch c := c.(type) {
	case *countersign.Deposit:
		fold(&c.FromAddress, &c.ToAddress, &c.NewAddress)
		if c.Amount, err = countersign.ParseAmount(c.Amount.Canonical()); err != nil {
			return payload
		}
	case *countersign.AddressChange:
		fold(&c.ToAddress, &c.NewAddress)
	}
	if b, err := c.Marshal(); err == nil {
		return b
	}
	return payload
}

// purgedKey identifies a callback by its merchant, type and event. An empty ID is not looked up.
type purgedKey struct {
	Merchant string
	Type     countersign.Type
	ID       string
}

const lookPurgedSQL = `
SELECT i.event_id, i.id, i.digest FROM {list}$1{as w} CROSS JOIN {inner}purged i
WHERE i.merchant = $2 AND i.type = $3 AND i.event_id = w.value{alone}`

// lookPurged returns the statements that look up each event and write what is stored of it to found. With PostgreSQL
// they must come after the statement that inserts these callbacks. The insert waits until a purge of the same
// callback has committed, and a later statement sees what the purge committed.
func lookPurged(d *db.Dialect, events []purgedKey, found []*purgedRow) (list []db.Statement) {
	places := map[purgedKey][]int{}
	ids := map[purgedKey][]string{} // by merchant and type
	var order []purgedKey
	for i, e := range events {
		if e.ID == "" {
			continue
		}
		of := purgedKey{Merchant: e.Merchant, Type: e.Type}
		if ids[of] == nil {
			order = append(order, of)
		}
		if places[e] == nil {
			ids[of] = append(ids[of], e.ID)
		}
		places[e] = append(places[e], i)
	}
	for _, of := range order {
		list = append(list, db.Statement{SQL: lookPurgedSQL, Args: []any{d.List(ids[of]), of.Merchant, int64(of.Type)},
			Row: func(r db.Rows) error {
				var row purgedRow
				err := r.Scan(&of.ID, &row.ID, &row.digest)
				for _, i := range places[of] {
					found[i] = &row
				}
				return err
			}})
	}
	return list
}

const keepPurgedSQL = `INSERT INTO purged (merchant, event_id, type, id, digest) VALUES ($1, $2, $3, $4, $5)`

var insertPurged = db.NewInsert(keepPurgedSQL, 32, 8)

// purgedArgs appends the values that are stored of a purged callback.
func purgedArgs(to []any, e purgedKey, id string, payload []byte) []any {
	sum := sha256.Sum256(plainest(payload))
	return append(to, e.Merchant, e.ID, int64(e.Type), id, sum[:])
}

const eachPurgedSQL = `
SELECT merchant, event_id FROM purged WHERE type = 1 AND (merchant, event_id) > ($1, $2) ORDER BY merchant, event_id LIMIT CAST($3 AS BIGINT)`

// EachPurgedDeposit calls fn for every purged deposit, ordered by merchant.
func EachPurgedDeposit(ctx context.Context, q db.Querier, fn func(merchant, trackingID string) error) error {
	return db.EachPage(func(after [2]string) (list [][2]string, next [2]string, err error) {
		list, err = db.List(ctx, q, eachPurgedSQL, []any{after[0], after[1], eachMost},
			func(r db.Rows) (row [2]string, err error) {
				err = r.Scan(&row[0], &row[1])
				return row, err
			})
		if len(list) == eachMost {
			next = list[eachMost-1]
		}
		return list, next, err
	}, func(row [2]string) error { return fn(row[0], row[1]) })
}
