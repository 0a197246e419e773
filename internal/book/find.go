package book

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"countersign/client"
	"countersign/internal/db"
)

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
