package book

import (
	"context"
	"fmt"
	"slices"
	"strconv"
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

// finds lists the parts of a search. Each part reads one index. $1 is the text, $2 its beginning, and $3 the text as
// a number, or 0 if it is none.
var finds = []struct {
	kind  client.FoundKind
	by    client.MatchedBy
	where string
	whole string // column that must equal the text if the index has only its beginning
}{
	{client.FoundDeposit, client.MatchedID, `seq = $3`, ""},
	{client.FoundOrder, client.MatchedID, `call_back_id = $1`, ""},
	{client.FoundAddress, client.MatchedID, `seq = $3`, ""},
	{client.FoundRefused, client.MatchedID, `seq = $3`, ""},
	{client.FoundDeposit, client.MatchedTrackingID, `substr(tracking_id, 1, 64) = $2`, "tracking_id"},
	{client.FoundOrder, client.MatchedTrackingID,
		`call_back_id IN (SELECT call_back_id FROM inbox WHERE id = $1 AND call_back_id <> '')`, ""},
	{client.FoundRefused, client.MatchedTrackingID, `id = $1`, ""}, // no index: the table is bounded
	{client.FoundDeposit, client.MatchedTxID, `substr(tx_id, 1, 64) = $2`, "tx_id"},
	{client.FoundOrder, client.MatchedTxID, `tx_id <> '' AND substr(tx_id, 1, 64) = $2`, "tx_id"},
	{client.FoundDeposit, client.MatchedUser, `substr(tenant_user_id, 1, 64) = $2`, "tenant_user_id"},
	{client.FoundOrder, client.MatchedUser, `tenant_user_id = $1`, ""},
	{client.FoundAddress, client.MatchedUser, `tenant_user_id = $1`, ""},
	{client.FoundDeposit, client.MatchedAddress, `substr(to_address, 1, 64) = $2`, "to_address"},
	{client.FoundOrder, client.MatchedAddress, `address = $1`, ""},
	{client.FoundAddress, client.MatchedAddress, `substr(address, 1, 64) = $2`, "address"},
	{client.FoundAddress, client.MatchedAddress, `old_address <> '' AND substr(old_address, 1, 64) = $2`, "old_address"},
}

// searchSQL reads the newest matches of each part.
var searchSQL = func() string {
	from := map[client.FoundKind]struct{ table, columns string }{
		client.FoundDeposit: {"deposits", "CAST(seq AS TEXT) AS name, taken AS at"},
		client.FoundOrder:   {"orders", "call_back_id AS name, created AS at"},
		client.FoundAddress: {"addresses", "CAST(seq AS TEXT) AS name, taken AS at"},
		client.FoundRefused: {"refused", "CAST(seq AS TEXT) AS name, first AS at"},
	}
	var parts []string
	for i, f := range finds {
		whole := "$1"
		if f.whole != "" {
			whole = f.whole
		}
		parts = append(parts, fmt.Sprintf(`SELECT * FROM (SELECT %d AS part, name, state, at FROM (SELECT %s, state, seq, %s AS whole FROM %s WHERE %s ORDER BY seq DESC LIMIT %d) x WHERE whole = $1 ORDER BY seq DESC LIMIT %d) p%[1]d`,
			i, from[f.kind].columns, whole, from[f.kind].table, f.where, db.PageRows, client.MostFound))
	}
	return strings.Join(parts, "\nUNION ALL ") + "\nORDER BY 1"
}()

// Search returns deposits, orders, addresses and refused callbacks that have a text. They are in the order of finds.
func (b *Book) Search(ctx context.Context, text string) ([]client.Found, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		n = 0
	}
	return db.List(ctx, b, searchSQL, []any{text, beginning(text), n}, func(r db.Rows) (f client.Found, err error) {
		var part int
		err = r.Scan(&part, &f.ID, &f.State, &f.At)
		f.Kind, f.Matched = finds[part].kind, finds[part].by
		return f, err
	})
}
