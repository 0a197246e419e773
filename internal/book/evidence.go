package book

import (
	"context"
	"encoding/hex"

	"countersign/internal/audit"
	"countersign/internal/db"
	"countersign/merchant"
)

// The kinds of records of the merchant's audit log, beside those of events, which have
// the event's kind.
const (
	recordOrderAdded = "order.added"
	recordAnswered   = "withdrawal.answered"
	recordTaken      = "callbacks.taken" // of all types, as one
	recordCursor     = "cursor.moved"
	recordForwarding = "forwarding.begun" // or moved, by a start
	recordRetried    = "forward.retried"
	recordSkipped    = "forward.skipped"
)

type orderRecord struct {
	CallBackID   string            `json:"callBackId"`
	TenantUserID string            `json:"tenantUserId"`
	Details      *audit.Details    `json:"details"`
	Labels       map[string]string `json:"labels,omitempty"`
	Expires      int64             `json:"expires,omitempty"` // milliseconds since 1970; absent: never
}

func recordOrder(ctx context.Context, t *db.Tx, o Order) error {
	r := orderRecord{CallBackID: o.CallBackID, TenantUserID: o.TenantUserID, Details: audit.DetailsOf(&o.Details), Labels: o.Labels}
	if o.Expires < db.Never {
		r.Expires = int64(o.Expires)
	}
	return audit.Add(ctx, t, audit.Record{Kind: recordOrderAdded, At: o.Created, About: []string{o.CallBackID}, Data: r})
}

// eventRecord is an event as records have it. The events of orders tell of every change
// of their state, with who made it.
type eventRecord struct {
	CallBackID   string         `json:"callBackId,omitempty"`
	Deposit      int64          `json:"deposit,omitempty"` // seq in the feed
	TenantUserID string         `json:"tenantUserId,omitempty"`
	State        string         `json:"state,omitempty"`
	Details      *audit.Details `json:"details,omitempty"`
	OldAddress   string         `json:"oldAddress,omitempty"`
	TxID         string         `json:"txId,omitempty"`
	Reason       string         `json:"reason,omitempty"`
	DecidedBy    string         `json:"decidedBy,omitempty"`
}

// records adds a record for each event.
func (l *ledger) records(ctx context.Context, t *db.Tx) error {
	for _, e := range l.events {
		r := audit.Record{Kind: e.Kind, At: e.At, Data: eventRecord{CallBackID: e.CallBackID, Deposit: e.Deposit, TenantUserID: e.TenantUserID, State: e.State,
			Details: audit.DetailsOf(&e.Details), OldAddress: e.OldAddress, TxID: e.TxID, Reason: e.Reason, DecidedBy: e.DecidedBy}}
		if e.CallBackID != "" {
			r.About = []string{e.CallBackID}
		}
		if err := audit.Add(ctx, t, r); err != nil {
			return err
		}
	}
	return nil
}

// takenItem is an entry of the inbox as it was recorded. It is made again from the row
// to prove it.
type takenItem struct {
	Seq               int64  `json:"seq"`
	Type              int64  `json:"type"`
	ID                string `json:"id"`
	TenantUserID      string `json:"tenantUserId"`
	CallBackID        string `json:"callBackId,omitempty"`
	Content           string `json:"content"` // SHA-256 of all members but those of an attempt
	At                int64  `json:"at"`
	PossibleDuplicate bool   `json:"possibleDuplicate,omitempty"`
	Suspect           bool   `json:"suspect,omitempty"`
}

// recordFresh adds one record for the entries that a transaction has recorded.
func (in *inboxTx) recordFresh(ctx context.Context) error {
	list := make([]audit.Item, 0, len(in.items))
	var at db.Millis
	for _, item := range in.items {
		at = max(at, db.Millis(item.At))
		list = append(list, audit.Item{At: db.Millis(item.At), Item: item})
	}
	return audit.AddItems(ctx, in.t, audit.Record{Kind: recordTaken, At: at}, list)
}

const inboxItemSQL = `SELECT seq, type, id, tenant_user_id, call_back_id, content, created, duplicate, suspect FROM inbox WHERE seq = $1`

// SubjectOfEntry is what the audit log has about an entry of the inbox.
func (b *Book) SubjectOfEntry(ctx context.Context, seq int64) (audit.Subject, error) {
	var i takenItem
	var content []byte
	var duplicate, suspect int64
	found, err := db.One(ctx, b, inboxItemSQL, []any{seq}, &i.Seq, &i.Type, &i.ID, &i.TenantUserID, &i.CallBackID, &content, &i.At, &duplicate, &suspect)
	if err == nil && !found {
		err = db.ErrNotFound
	}
	i.Content, i.PossibleDuplicate, i.Suspect = hex.EncodeToString(content), duplicate != 0, suspect != 0
	return audit.Subject{Items: []audit.Item{{At: db.Millis(i.At), Item: i}}}, err
}

// SubjectOfOrder is what the audit log has about an order.
func (b *Book) SubjectOfOrder(_ context.Context, callBackID string) (audit.Subject, error) {
	return audit.Subject{IDs: []string{callBackID}, Context: []string{audit.AboutStarts}}, nil
}

// cursorRecord tells how far a reader has acknowledged the feeds.
type cursorRecord struct {
	Reader   string `json:"reader"`
	Deposits int64  `json:"deposits"`
	Events   int64  `json:"events"`
}

// forwardRecord tells of an entry that a person had forwarded again or gave up, or of
// how many that were forwarded again.
type forwardRecord struct {
	Feed    string `json:"feed,omitempty"`
	Seq     int64  `json:"seq,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Retried int64  `json:"retried,omitempty"`
}

type answeredRecord struct {
	CallBackID     string `json:"callBackId"`
	TenantUserID   string `json:"tenantUserId"`
	RequestUUID    string `json:"requestUUID"`
	Request        string `json:"request"`       // the body, as it came
	RequestOpened  string `json:"requestOpened"` // the bytes that it opened to
	ErrCode        int64  `json:"errCode"`
	Message        string `json:"message,omitempty"`
	Response       string `json:"response,omitempty"`       // member data of the response: the sealed answer, as it is sent
	ResponseOpened string `json:"responseOpened,omitempty"` // the bytes that were sealed in it
}

// RecordAnswer keeps an answer about a withdrawal in the audit log.
func (b *Book) RecordAnswer(ctx context.Context, e merchant.Exchange, now db.Millis) error {
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		q := e.Question
		return audit.Add(ctx, t, audit.Record{Kind: recordAnswered, At: now, About: []string{q.CallBackID}, Data: answeredRecord{
			CallBackID: q.CallBackID, TenantUserID: q.TenantUserID, RequestUUID: q.RequestUUID, Request: string(e.Request), RequestOpened: string(e.RequestOpened),
			ErrCode: int64(e.Code), Message: e.Message, Response: e.Data, ResponseOpened: string(e.DataOpened)}})
	})
}
