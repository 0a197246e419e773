package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
)

// newestFound limits the rows that a part of a search reads. A bound token sees only those of its merchants among
// them.
const newestFound = ` ORDER BY id DESC, merchant DESC LIMIT 5000`

// finds lists the parts of a search. Each part reads one index. $1 is the text. If the text is an id or
// MERCHANT/CALLBACKID, $2 and $3 are the merchant and the rest.
var finds = []struct {
	by   client.MatchedBy
	read string
}{
	{client.MatchedID, `SELECT merchant, id FROM callbacks WHERE merchant = $2 AND id = $3`},
	{client.MatchedID, `SELECT merchant, id FROM withdrawals WHERE merchant = $2 AND id = $3`},
	{client.MatchedCallBackID, `SELECT merchant, id FROM withdrawals WHERE merchant = $2 AND call_back_id = $3`},
	{client.MatchedCallBackID, `SELECT merchant, id FROM withdrawals WHERE merchant IN (SELECT id FROM merchants) AND call_back_id = $1`},
	{client.MatchedTrackingID, `SELECT merchant, id FROM callbacks WHERE type = 1 AND event_id = $1 AND merchant IN (SELECT id FROM merchants)`},
	{client.MatchedTrackingID, `SELECT merchant, id FROM callbacks WHERE type <> 1 AND tracking_id = $1` + newestFound},
	{client.MatchedCallBackID, `SELECT merchant, id FROM callbacks WHERE call_back_id <> '' AND call_back_id = $1` +
		newestFound},
	{client.MatchedTxID, `SELECT merchant, id FROM callbacks WHERE tx_id <> '' AND tx_id = $1` + newestFound},
	{client.MatchedTxID, `SELECT merchant, id FROM withdrawals WHERE tx_id <> '' AND tx_id = $1` + newestFound},
	{client.MatchedUser, `SELECT merchant, id FROM callbacks WHERE tenant_user_id <> '' AND tenant_user_id = $1` +
		newestFound},
	{client.MatchedUser, `SELECT merchant, id FROM withdrawals w WHERE tenant_user_id = $1` + newestFound},
	{client.MatchedAddress, `SELECT merchant, id FROM callbacks WHERE address <> '' AND address = $1` + newestFound},
	{client.MatchedAddress, `SELECT merchant, id FROM withdrawals w WHERE ` + targetColumn + ` = $1` + newestFound},
	{client.MatchedRequestUUID, `SELECT merchant, callback AS id FROM attempts WHERE accepted = 0 AND request_uuid = LOWER($1) LIMIT 50`},
}

// searchText returns the statement of a search and its arguments. of lists the merchants whose rows count; an empty
// text in it means all.
func searchText(of []string, text string) (string, []any) {
	merchant, rest, err := splitID(text)
	if err != nil {
		merchant, rest, _ = strings.Cut(text, "/")
	}
	q := db.Conditions{Args: []any{text, merchant, rest}}
	if !slices.Contains(of, "") {
		var list []string
		for _, m := range of {
			list = append(list, q.Arg(m))
		}
		q.Add("x.merchant IN (" + strings.Join(list, ", ") + ")")
	}
	var parts []string
	for i, f := range finds {
		parts = append(parts, fmt.Sprintf("SELECT * FROM (SELECT %d AS part, x.merchant, x.id FROM (%s) x%s ORDER BY x.id DESC LIMIT %d) p%[1]d", i, f.read, q.Where(), client.MostFound))
	}
	q.Add("x.merchant = $1")
	return `WITH h AS (` + strings.Join(parts, "\nUNION ALL ") + `)
SELECT h.part, CASE WHEN w.id IS NULL THEN 'callback' ELSE 'withdrawal' END, h.merchant, h.id, COALESCE(w.state, o.state, 'accepted'),
	COALESCE(w.created, c.created), COALESCE(c.call_back_id, w.call_back_id)
FROM h LEFT JOIN withdrawals w ON w.merchant = '' || h.merchant AND w.id = h.id LEFT JOIN callbacks c ON c.merchant = '' || h.merchant AND c.id = h.id
	LEFT JOIN outbox o ON o.merchant = '' || h.merchant AND o.id = h.id WHERE COALESCE(w.id, c.id) IS NOT NULL
UNION ALL SELECT 0, 'merchant', x.merchant, '', x.state, x.created, '' FROM (SELECT id AS merchant, state, created FROM merchants) x` + q.Where() + ` ORDER BY 1`, q.Args
}

// Search returns merchants, withdrawals and callbacks that have a text, the best match first. It leaves out the
// callbacks of a withdrawal that it found, because the withdrawal's page shows them.
func (o *Outbox) Search(ctx context.Context, of []string, text string) ([]client.Found, error) {
	statement, args := searchText(of, text)
	withdrawals := map[string]bool{} // MERCHANT/CALLBACKID
	var about []string               // the same, of each result
	found, err := db.List(ctx, o, statement, args, func(r db.Rows) (f client.Found, err error) {
		var part int
		var id, callBackID string
		err = r.Scan(&part, &f.Kind, &f.Merchant, &id, &f.State, &f.At, &callBackID)
		f.Matched, f.ID = finds[part].by, f.Merchant
		if f.Kind != client.FoundMerchant {
			f.ID = joinID(f.Merchant, id)
		}
		about = append(about, f.Merchant+"/"+callBackID)
		if f.Kind == client.FoundWithdrawal {
			withdrawals[about[len(about)-1]] = true
		}
		return f, err
	})
	var list []client.Found
	for i, f := range found {
		if f.Kind != client.FoundCallback || !withdrawals[about[i]] {
			list = append(list, f)
		}
	}
	return list, err
}
