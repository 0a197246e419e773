package outbox

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// A callback without a row in outbox is accepted: its accepted attempt proves that.
const (
	callbackColumns = `c.merchant, c.id, c.type, c.event_id, c.tracking_id, c.tx_id, c.call_back_id, c.payload, c.created,
	COALESCE(o.deadline, c.deadline), COALESCE(o.state, 'accepted'), COALESCE(o.attempts, a.number, 0),
	COALESCE(o.failed, a.failed, 0), COALESCE(o.due, 0), COALESCE(o.lease_until, 0),
	COALESCE(o.last_reason, a.reason, ''), COALESCE(o.settled, a.settled, 0), COALESCE(o.repeated, 0)`

	// "'' ||" is needed because, where c.merchant is fixed, PostgreSQL would otherwise read all rows of the merchant
	// for each row of c and compare their ids.
	joinOutbox = ` LEFT JOIN outbox o ON o.merchant = '' || c.merchant AND o.id = c.id`
	// LEFT: the rows of o come first, and in their order.
	joinCallbacks = ` LEFT JOIN callbacks c ON c.merchant = '' || o.merchant AND c.id = o.id`
	joinAttempts  = ` LEFT JOIN attempts a ON a.merchant = '' || c.merchant AND a.callback = c.id AND a.accepted = 1 AND o.id IS NULL`

	readCallbackSQL = `SELECT ` + callbackColumns + ` FROM callbacks c` + joinOutbox + joinAttempts + `
WHERE c.merchant = $1 AND c.id = $2`
)

func scanCallback(r db.Rows) (c Callback, err error) {
	var id string
	err = r.Scan(&c.Merchant, &id, &c.Type, &c.EventID, &c.TrackingID, &c.TxID, &c.CallBackID, &c.Payload, &c.Created,
		&c.Deadline, &c.State, &c.Attempt, &c.Failed, &c.Due, &c.LeaseUntil, &c.LastReason, &c.Settled,
		db.Bool(&c.Repeated))
	c.ID, c.Name, c.Deadline = joinID(c.Merchant, id), c.Type.String(), db.Shown(c.Deadline)
	if c.State != client.CallbackPending {
		c.Due = 0
	}
	if c.State != client.CallbackSending {
		c.LeaseUntil = 0
	}
	return c, err
}

// Callback returns one callback. It returns db.ErrPurged if the callback was purged.
func (o *Outbox) Callback(ctx context.Context, id string) (Callback, error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return Callback{}, err
	}
	return findCallback(ctx, o, merchant, rest)
}

func findCallback(ctx context.Context, q db.Querier, merchant, id string) (Callback, error) {
	c, err := db.Find(ctx, q, readCallbackSQL, []any{merchant, id}, scanCallback)
	if err == db.ErrNotFound {
		err = notKept(ctx, q, id)
	}
	return c, err
}

// notKept returns the error for a missing callback: db.ErrPurged if it may have been purged, otherwise
// db.ErrNotFound.
func notKept(ctx context.Context, q db.Querier, id string) error {
	var before db.Millis // what was settled before this time may have been purged
	_, err := db.One(ctx, q, `SELECT before FROM retention WHERE one = 1`, nil, &before)
	switch {
	case err != nil:
		return err
	case id >= db.IDAt(before):
		return db.ErrNotFound
	}
	return fmt.Errorf("callbacks that were settled before %s were %w, and this one would be of that time: of each, its merchant, trackingId and digest are kept",
		before.Time().UTC().Format(time.RFC3339), db.ErrPurged)
}

const listAttemptsSQL = `
SELECT number, request_uuid, started, duration, http_status, err_code, outcome, reason, node, request_hash, response_hash, late, facts
FROM attempts WHERE merchant = $1 AND callback = $2 ORDER BY number`

// Attempts returns the attempts of a callback in order of their number.
func (o *Outbox) Attempts(ctx context.Context, id string) ([]Attempt, error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return nil, err
	}
	accepted := false // an earlier attempt was accepted: only Repeat makes another
	list, err := db.List(ctx, o, listAttemptsSQL, []any{merchant, rest}, func(r db.Rows) (a Attempt, err error) {
		var request, response []byte
		var facts string
		err = r.Scan(&a.Number, &a.RequestUUID, &a.Started, &a.DurationMs, &a.HTTPStatus, &a.ErrCode, &a.Result,
			&a.Reason, &a.Node, &request, &response, db.Bool(&a.Late), &facts)
		a.Text, a.Facts = a.Reason.Text(), factsOf(facts)
		a.RequestHash, a.ResponseHash = hex.EncodeToString(request), hex.EncodeToString(response)
		a.Repeated = accepted
		accepted = accepted || a.Result == client.AttemptAccepted && !a.Late
		return a, err
	})
	if err == nil && len(list) == 0 {
		_, err = o.Callback(ctx, id) // ErrNotFound
	}
	return list, err
}

// Callbacks returns callbacks of the merchants of, the newest first, beginning at cursor. If of is nil, the merchant
// of f counts. An empty text in of means all merchants. next is empty at the end. A page reads at most db.PageRows
// rows, so it may have fewer callbacks than limit, or none, and still have a next page.
func (o *Outbox) Callbacks(ctx context.Context, of []string, f client.CallbackFilter, limit int,
	cursor string) (list []Callback, next string, err error) {
	ls, err := callbackListings(of, f, cursor)
	if err != nil {
		return nil, "", err
	}
	return readPage(ctx, o, callbackColumns, ls, limit, func(c Callback) string { return c.ID }, scanCallback)
}

func callbackListings(of []string, f client.CallbackFilter, cursor string) (all []db.Listing, err error) {
	if err := db.CheckTexts("trackingId", f.TrackingID, "txId", f.TxID, "callBackId", f.CallBackID, "merchant", f.Merchant,
		"tenantUserId", f.TenantUserID, "address", f.Address); err != nil {
		return nil, err
	}
	if f.State != "" && client.Means(f.State) == "" {
		return nil, fmt.Errorf("state is %w: %q", db.ErrInvalid, f.State)
	}
	if of == nil {
		of = []string{f.Merchant}
	}
	for _, f.Merchant = range of {
		ls, err := callbackFilter(f).listings(cursor)
		if err != nil {
			return nil, err
		}
		all = append(all, ls...)
	}
	return all, nil
}

// callbackFilter selects callbacks of one merchant, or of all merchants.
type callbackFilter client.CallbackFilter

// listings returns the listings of f. The member that selects the fewest rows chooses the index; the other members
// are filters.
func (f callbackFilter) listings(cursor string) ([]db.Listing, error) {
	ls := []db.Listing{f.walk()}
	if f.TrackingID != "" && f.TxID == "" && f.CallBackID == "" {
		// A deposit's trackingId is its event id, which has an index of its own.
		switch first := f.walkEvents(); f.Type {
		case countersign.TypeUnknown:
			ls = append(ls, first)
		case countersign.TypeDeposited:
			ls[0] = first
		}
	}
	for i := range ls {
		l := &ls[i]
		if err := from(l, cursor, f.Since, f.Until); err != nil {
			return nil, err
		}
		l.EndWalk()
		f.filter(l)
	}
	return ls, nil
}

// looks returns the members that have an index, the most selective first. The index of trackingId excludes deposits;
// walkEvents finds those.
func (f callbackFilter) looks() []look {
	return []look{
		{"c.tx_id", "c.tx_id <> '' AND ", f.TxID}, {"c.call_back_id", "c.call_back_id <> '' AND ", f.CallBackID},
		{"c.tracking_id", "c.type <> 1 AND ", f.TrackingID},
		{"c.address", "c.address <> '' AND ", f.Address}, {"c.tenant_user_id", "c.tenant_user_id <> '' AND ", f.TenantUserID},
	}
}

// walk returns the listing by the chosen index, without filters.
func (f callbackFilter) walk() db.Listing {
	l := db.Listing{Table: "callbacks c", Joins: joinOutbox + joinAttempts}
	outbox := db.Listing{Table: "outbox o", Joins: joinCallbacks + joinAttempts}
	if walkBy(&l, f.looks()) {
		return l
	}
	switch {
	case f.State == client.CallbackSending: // no more than are in flight; sorted
		l = outbox
		l.Sorted = true
		l.Add("o.lease_until > 0")
		return l
	case f.State == client.CallbackPending && f.Merchant == "":
		l = outbox
		l.Add("o.settled = 0")
		return l
	}
	if f.Merchant != "" {
		l.Owner, outbox.Owner = f.Merchant, f.Merchant
		l.Add("c.merchant = ?", f.Merchant)
	}
	switch {
	case f.State == client.CallbackPending:
		outbox.Add("o.merchant = ?", f.Merchant)
		return outbox
	case f.State != "" && f.State != client.CallbackAccepted:
		if f.Merchant != "" {
			outbox.Add("o.settled > 0 AND o.merchant || '' = ? AND o.state || '' = ?", f.Merchant, string(f.State))
		} else {
			outbox.Add("o.settled > 0 AND o.state = ?", string(f.State))
		}
		return outbox
	case f.Type > countersign.TypeDeposited:
		// The type is a literal, so that PostgreSQL sees whether it is rare.
		l.Add(fmt.Sprintf("c.type <> 1 AND c.type = %d", f.Type))
	}
	return l
}

// walkEvents returns the listing of the deposits with the trackingId. There is at most one for each merchant.
func (f callbackFilter) walkEvents() db.Listing {
	l := db.Listing{Table: "callbacks c", Joins: joinOutbox + joinAttempts, Sorted: true}
	l.Add("c.type = 1 AND c.event_id = ?", f.TrackingID)
	if f.Merchant == "" {
		l.Add("c.merchant IN (SELECT id FROM merchants)")
	} else {
		l.Owner = f.Merchant
		l.Add("c.merchant = ?", f.Merchant)
	}
	return l
}

// filter adds the conditions that the index of l does not cover.
func (f callbackFilter) filter(l *db.Listing) {
	served := l.Where()
	has := func(column string) bool { return strings.Contains(served, column+" = ") }
	if f.Merchant != "" && l.Owner == "" {
		l.Add("COALESCE("+l.Alias()+".merchant, '') = ?", f.Merchant)
	}
	if f.Type != countersign.TypeUnknown && !has("c.type") {
		l.Add("COALESCE(c.type, 0) = ?", int64(f.Type))
	}
	if f.State != "" && !has("o.state") && !has("o.state || ''") {
		l.Add("COALESCE(o.state, 'accepted') = ?", string(f.State))
	}
	if has("c.event_id") {
		f.TrackingID = "" // it is the event id
	}
	filterBy(l, f.looks())
}
