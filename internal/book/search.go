package book

import (
	"context"
	"fmt"

	"countersign/client"
	"countersign/internal/db"
)

// SearchDeposits lists deposits as they are now, newest first, beginning below seq
// before (0: with the newest). next is 0 at the end. A page looks at db.PageRows rows
// at most: it may have fewer than limit deposits, also none, and a next page.
func (b *Book) SearchDeposits(ctx context.Context, f DepositFilter, limit int, before int64) (list []client.DepositEntry, next int64, err error) {
	for _, text := range []string{f.TrackingID, f.TxID, f.TenantUserID, f.Address} {
		if db.CheckText("", text) != nil {
			return nil, 0, nil
		}
	}
	from, below, err := db.NumbersBetween(ctx, b, "deposits", "taken", f.Since, f.Until)
	if err != nil {
		return nil, 0, err
	}
	return db.ReadNumbered(ctx, b, "deposits", depositColumns, f.conditions(lower(before, below)), from, limit, func(d client.DepositEntry) int64 { return d.Seq }, scanDeposit)
}

// lower returns the lower of two bounds, of which 0 is none.
func lower(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// made adds the bounds of the times, which those of the numbers are close to.
func (s Span) made(q *db.Conditions, column string) {
	if s.Since > 0 {
		q.Add(column+" >= ?", int64(s.Since))
	}
	if s.Until > 0 {
		q.Add(column+" < ?", int64(s.Until))
	}
}

// conditions chooses the index by the member of f that selects the fewest rows.
func (f DepositFilter) conditions(before int64) *db.Conditions {
	q := &db.Conditions{}
	looks := []struct{ column, text string }{{"tx_id", f.TxID}, {"tracking_id", f.TrackingID}, {"to_address", f.Address}, {"tenant_user_id", f.TenantUserID}}
	walked := ""
	for _, c := range looks {
		if c.text != "" && walked == "" {
			walked = c.column
			q.Add("substr("+c.column+", 1, 64) = ?", indexed(c.text))
		}
	}
	byState := walked == "" && f.State != "" && f.State != client.DepositTaken
	if byState {
		q.Add("state <> 'taken' AND state = ?", string(f.State))
	}
	if before > 0 {
		q.Add("seq < ?", before)
	}
	q.EndWalk()
	for _, c := range looks {
		if c.text != "" {
			q.Add(c.column+" = ?", c.text)
		}
	}
	if f.State != "" && !byState {
		q.Add("state || '' = ?", string(f.State))
	}
	f.made(q, "taken")
	return q
}

// indexed is the part of a text that the indexes of deposits hold.
func indexed(text string) string {
	n := 0
	for i := range text {
		if n == 64 {
			return text[:i]
		}
		n++
	}
	return text
}

const firstOfTransferSQL = `
SELECT id FROM (
	SELECT f.id, f.seq FROM inbox i JOIN inbox f ON f.transfer = i.transfer AND f.seq < i.seq
		AND (f.tx_index < 0 OR i.tx_index < 0 OR f.tx_index = i.tx_index)
	WHERE i.type = 1 AND i.id = $1
	UNION ALL SELECT f.id, f.seq FROM inbox i JOIN inbox f ON f.payment = i.payment AND f.seq < i.seq WHERE i.type = 1 AND i.id = $1
) AS same ORDER BY seq LIMIT 1`

// FirstDeposit returns the first deposit that names the same transfer as a possible
// duplicate, or ErrNotFound.
func (b *Book) FirstDeposit(ctx context.Context, seq int64) (client.DepositEntry, error) {
	d, err := b.Deposit(ctx, seq)
	if err != nil {
		return client.DepositEntry{}, err
	}
	var id string
	found, err := db.One(ctx, b, firstOfTransferSQL, []any{d.TrackingID}, &id)
	if err != nil {
		return client.DepositEntry{}, err
	}
	if found {
		list, _, err := b.SearchDeposits(ctx, DepositFilter{TrackingID: id}, 1, 0)
		if err != nil || len(list) > 0 {
			return append(list, client.DepositEntry{})[0], err
		}
		return client.DepositEntry{}, fmt.Errorf("the first deposit of this transfer has the trackingId %q and was %w", id, db.ErrPurged)
	}
	return client.DepositEntry{}, db.ErrNotFound
}
