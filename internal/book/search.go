package book

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
)

// member is one member of a filter of a list. The first member that is set and has an index selects the index to
// walk. The others are filters. The members of a list are therefore ordered by how few rows they select.
type member struct {
	is     bool   // the filter has this member
	walk   string // condition that an index serves; empty: no index
	filter string // condition if another index is walked; an expression, so that the planner cannot use this member's
	value  any    // stands for each ?
	long   bool   // the index has only the beginning of value
	bound  string // column of since and until
}

// text returns a member for which column must equal value.
func text(column, value string) member {
	return member{is: value != "", walk: column + " = ?", filter: column + " || '' = ?", value: value}
}

// longText is text for a column of which the index has only the first 64 characters.
func longText(column, value string) member {
	return member{is: value != "", walk: "substr(" + column + ", 1, 64) = ?", filter: column + " = ?", value: value,
		long: true}
}

// where adds the condition of a partial index.
func (m member) where(condition string) member {
	m.walk = condition + " AND " + m.walk
	return m
}

// between returns the bounds on a time in column. They must be the last members of a filter. They also bound the row
// numbers, which rise with the time.
func between(column string, since, until db.Millis) []member {
	return []member{{is: since > 0, filter: column + " >= ?", value: int64(since), bound: column},
		{is: until > 0, filter: column + " < ?", value: int64(until), bound: column}}
}

// conditions returns the conditions of a page of rows below the number before. If before is 0, it is the newest page.
func conditions(before int64, members []member) *db.Conditions {
	q := &db.Conditions{}
	add := func(condition string, value any) {
		if strings.Contains(condition, "?") {
			q.Add(condition, value)
		} else {
			q.Add(condition)
		}
	}
	walked := slices.IndexFunc(members, func(m member) bool { return m.is && m.walk != "" })
	if walked >= 0 {
		m := members[walked]
		if m.long {
			add(m.walk, beginning(m.value.(string)))
		} else {
			add(m.walk, m.value)
		}
	}
	if before > 0 {
		q.Add("seq < ?", before)
	}
	q.EndWalk()
	for i, m := range members {
		if m.is && (i != walked || m.long) {
			add(m.filter, m.value)
		}
	}
	return q
}

// list returns a page of the rows that members select, the newest first, below the number before; 0 means from the
// newest. next is 0 at the end. It reads at most db.PageRows rows, so a page may have fewer rows than limit, or none,
// and still have a next page.
func list[T any](ctx context.Context, b *Book, table, columns string, members []member, limit int, before int64,
	number func(T) int64, scan func(db.Rows) (T, error)) (rows []T, next int64, err error) {
	for _, m := range members {
		if text, is := m.value.(string); is && db.CheckText("", text) != nil {
			return nil, 0, nil
		}
	}
	var from int64
	if i := slices.IndexFunc(members, func(m member) bool { return m.bound != "" }); i >= 0 {
		since, until := db.Millis(members[i].value.(int64)), db.Millis(members[i+1].value.(int64))
		var below int64
		if from, below, err = db.NumbersBetween(ctx, b, table, members[i].bound, since, until); err != nil {
			return nil, 0, err
		}
		if before == 0 || below != 0 && below < before {
			before = below
		}
	}
	return db.ReadNumbered(ctx, b, table, columns, conditions(before, members), from, limit, number, scan)
}

// beginning returns the part of a text that the indexes of long texts hold.
func beginning(text string) string {
	n := 0
	for i := range text {
		if n == 64 {
			return text[:i]
		}
		n++
	}
	return text
}

// SearchDeposits returns a page of deposits in their present state; see list.
func (b *Book) SearchDeposits(ctx context.Context, f client.DepositSearch, limit int,
	before int64) ([]client.DepositEntry, int64, error) {
	number := func(d client.DepositEntry) int64 { return d.Seq }
	return list(ctx, b, "deposits", depositColumns, depositMembers(f), limit, before, number, scanDeposit)
}

func depositMembers(f client.DepositSearch) []member {
	state := text("state", string(f.State)).where("state <> 'taken'")
	if f.State == client.DepositTaken {
		state.walk = ""
	}
	return append([]member{longText("tx_id", f.TxID), longText("tracking_id", f.TrackingID),
		longText("to_address", f.Address), longText("tenant_user_id", f.TenantUserID), state},
		between("taken", f.Since, f.Until)...)
}

const firstOfTransferSQL = `
SELECT id FROM (
	SELECT f.id, f.seq FROM inbox i JOIN inbox f ON f.transfer = i.transfer AND f.seq < i.seq
		AND (f.tx_index < 0 OR i.tx_index < 0 OR f.tx_index = i.tx_index)
	WHERE i.type = 1 AND i.id = $1
	UNION ALL SELECT f.id, f.seq FROM inbox i JOIN inbox f ON f.payment = i.payment AND f.seq < i.seq WHERE i.type = 1 AND i.id = $1
) AS same ORDER BY seq LIMIT 1`

// FirstDeposit returns the first deposit with the transfer of a possible duplicate. It returns ErrNotFound if there
// is none.
func (b *Book) FirstDeposit(ctx context.Context, seq int64) (client.DepositEntry, error) {
	d, err := b.Deposit(ctx, seq)
	if err != nil {
		return client.DepositEntry{}, err
	}
	var id string
	found, err := db.One(ctx, b, firstOfTransferSQL, []any{d.TrackingID}, &id)
	if err == nil && !found {
		err = db.ErrNotFound
	}
	if err != nil {
		return client.DepositEntry{}, err
	}
	list, _, err := b.SearchDeposits(ctx, client.DepositSearch{TrackingID: id}, 1, 0)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("the first deposit of this transfer has the trackingId %q and was %w", id, db.ErrPurged)
	}
	if err != nil {
		return client.DepositEntry{}, err
	}
	return list[0], nil
}
