package journal

import (
	"context"

	"countersign/internal/db"
)

// AddAbout adds a record about one merchant, callback, withdrawal or order as part of t.
func AddAbout(ctx context.Context, t *db.Tx, kind, id string, now db.Millis, data any) error {
	return Add(ctx, t, Record{Kind: kind, At: now, About: []string{id}, Data: data})
}

// AddCount adds one record that says how many things happened at once; none for 0. So a deposit costs the log next to
// nothing.
func AddCount(ctx context.Context, t *db.Tx, kind string, now db.Millis, items int) error {
	if items == 0 {
		return nil
	}
	return Add(ctx, t, Record{Kind: kind, At: now, Data: map[string]int{"items": items}})
}

// Note is the record of a person's note about a withdrawal, an order or a deposit.
type Note struct {
	Merchant   string `json:"merchant,omitempty"`
	CallBackID string `json:"callBackId,omitempty"`
	Deposit    int64  `json:"deposit,omitempty"` // seq in the feed
	Number     int64  `json:"number"`
	Text       string `json:"text"`
}

// Link are the signatures of an exchange (PROTOCOL.md, The signed link): the headers of both messages, and what else
// they cover. The plaintext of the answer is recorded beside it.
type Link struct {
	URL      string            `json:"url,omitempty"`      // of the request, as it is signed; absent: it was not verified
	Request  map[string]string `json:"request"`            // headers
	Status   int               `json:"status,omitempty"`   // of the response
	Response map[string]string `json:"response,omitempty"` // headers; absent: it is not signed
	Key      string            `json:"key,omitempty"`      // fingerprint of the merchant's key, with which the service verified the response
}

// Purged is the record of rows that were purged because they were settled long ago.
type Purged struct {
	Rows   int64 `json:"purged"`
	Before int64 `json:"before"` // when they were settled, in milliseconds since 1970
}

// Purges returns the function that records that a walk has purged rows of a kind; see db.Purging.
func Purges(kind string) func(ctx context.Context, t *db.Tx, rows int64, before, now db.Millis) error {
	return func(ctx context.Context, t *db.Tx, rows int64, before, now db.Millis) error {
		return Add(ctx, t, Record{Kind: kind, At: now, Data: Purged{Rows: rows, Before: int64(before)}})
	}
}
