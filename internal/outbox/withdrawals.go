package outbox

import (
	"context"
	"fmt"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const withdrawalColumns = `w.merchant, w.id, w.call_back_id, w.tenant_user_id, w.tracking_id, w.business, w.state, w.decision,
	w.reason, w.deadline, w.created, w.decided, w.released, w.ended, w.claim, w.origin, w.tx_id, w.fail_reason, w.release_by, w.blocked_reason, w.blocked_by, w.restored,
	w.ordered_address, w.ordered_chain, w.ordered_symbol, w.ordered_amount,
	w.confirmed_address, w.confirmed_chain, w.confirmed_symbol, w.confirmed_amount`

// scanWithdrawal reads the columns before, followed by withdrawalColumns.
func scanWithdrawal(r db.Rows, before ...any) (w Withdrawal, err error) {
	var id string
	var ordered, confirmed client.Details
	err = r.Scan(append(before, &w.Merchant, &id, &w.CallBackID, &w.TenantUserID, &w.TrackingID, &w.Business, &w.State,
		&w.Decision, &w.Reason, &w.Deadline, &w.Created, &w.Decided, &w.Released, &w.Ended, &w.Holder, &w.Origin, &w.TxID,
		&w.FailReason, &w.ReleaseBy, &w.BlockedReason, &w.BlockedBy,
		db.Bool(&w.Restored),
		&ordered.Address, &ordered.ChainName, &ordered.Symbol, db.Parsed(&ordered.Amount, countersign.ParseAmount),
		&confirmed.Address, &confirmed.ChainName, &confirmed.Symbol, db.Parsed(&confirmed.Amount, countersign.ParseAmount))...)
	w.ID, w.Text = joinID(w.Merchant, id), w.Reason.Text()
	w.Callback = w.ID
	if ordered != (client.Details{}) {
		w.Ordered = &ordered
	}
	if confirmed != (client.Details{}) {
		w.Details = &confirmed
	}
	if err != nil {
		err = fmt.Errorf("withdrawal %s: %w", w.ID, err)
	}
	return w, err
}

// read returns the statement that reads the row of text, which selects withdrawalColumns, into w.
func (w *Withdrawal) read(text string, args ...any) db.Statement {
	return db.Statement{SQL: text, Args: args, Row: func(r db.Rows) (err error) {
		*w, err = scanWithdrawal(r)
		return err
	}}
}

const insertWithdrawalSQL = `
INSERT INTO withdrawals (merchant, id, call_back_id, tenant_user_id, tracking_id, business, state, deadline, created,
	ordered_address, ordered_chain, ordered_symbol, ordered_amount)
VALUES ($1, $2, $3, $4, $5, $6, 'awaiting', $7, $8, $9, $10, $11, $12)
ON CONFLICT DO NOTHING RETURNING merchant, id`

var insertWithdrawals = db.NewInsert(insertWithdrawalSQL, 100, 10)

// CreateWithdrawals stores withdrawals and queues the type 2 callback of each, due at once, in one transaction: all
// or none. For a known callBackId with the same content it returns the known withdrawal as a Duplicate. With other
// content it returns a *ConflictError that names the item. The deadline is not part of the content.
func (o *Outbox) CreateWithdrawals(ctx context.Context, list []NewWithdrawal, now db.Millis) ([]Recorded, error) {
	if len(list) == 0 {
		return nil, nil
	}
	rows := make([]newRow, len(list))
	for i, n := range list {
		var err error
		if rows[i], err = o.checkWithdrawal(ctx, i, n, now); err != nil {
			return nil, err
		}
	}
	o.sortRows(rows)
	var made []Recorded
	err := o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		made = make([]Recorded, len(list))
		return o.createWithdrawals(ctx, t, list, rows, made, now)
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (o *Outbox) createWithdrawals(ctx context.Context, t *db.Tx, list []NewWithdrawal, rows []newRow, made []Recorded,
	now db.Millis) error {
	args := make([]any, 0, 12*len(rows))
	for _, row := range rows {
		n, d := &list[row.item], client.Details{}
		if n.Details != nil {
			d = *n.Details
		}
		args = append(args, n.Merchant, row.id, n.CallBackID, n.TenantUserID, n.TrackingID, n.Business,
			int64(n.Deadline), int64(now), d.Address, d.ChainName, d.Symbol, d.Amount.String())
	}
	inserted := make(map[string]bool, len(rows)) // by merchant and id
	err := t.Batch(ctx, insertWithdrawals.Statements(args, func(r db.Rows) error {
		var merchant, id string
		err := r.Scan(&merchant, &id)
		inserted[joinID(merchant, id)] = true
		return err
	}))
	if err != nil {
		return err
	}
	var fresh []newRow
	reads := make([]db.Statement, len(rows))
	for i, row := range rows {
		w := &made[row.item]
		w.Duplicate = !inserted[joinID(row.Merchant, row.id)]
		reads[i] = w.Withdrawal.read(withdrawalByCallBackIDSQL+"{lock}", row.Merchant, row.CallBackID)
		if !w.Duplicate {
			fresh = append(fresh, row)
			countMoved(t, "", client.WithdrawalAwaiting)
		}
	}
	if len(fresh) > 0 {
		if err := o.insert(ctx, t, fresh, make([]client.Accepted, len(list)), now); err != nil {
			return err
		}
	}
	if err := t.Batch(ctx, reads); err != nil {
		return err
	}
	for i, n := range list {
		if made[i].Withdrawal.ID == "" { // it was not inserted, and no other withdrawal has its callBackId
			return &db.ConflictError{Item: i, Member: "trackingId",
				Reason: "is in use by another withdrawal: the merchant would take the end of one for that of the other"}
		}
		if differs := made[i].Withdrawal.contentDiffers(n); differs != "" {
			return &db.ConflictError{Item: i, Member: "callBackId", Reason: "is in use by a withdrawal with another " + differs}
		}
	}
	for i, n := range list {
		if made[i].Duplicate {
			continue
		}
		err := journal.AddAbout(ctx, t, journal.WithdrawalCreated, made[i].Withdrawal.ID, now,
			journal.Withdrawal{Merchant: n.Merchant, CallBackID: n.CallBackID, TenantUserID: n.TenantUserID,
				TrackingID: n.TrackingID, Business: n.Business, Details: n.Details, Deadline: int64(n.Deadline)})
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *Outbox) checkWithdrawal(ctx context.Context, item int, n NewWithdrawal, now db.Millis) (newRow, error) {
	if n.CallBackID == "" {
		return newRow{}, &db.ItemError{Item: item, Member: "callBackId", Err: fmt.Errorf("callBackId is %w: it is empty",
			db.ErrInvalid)}
	}
	if n.Deadline <= 0 || n.Deadline >= db.Never {
		return newRow{}, &db.ItemError{Item: item, Member: "deadline", Err: fmt.Errorf("deadline is %w: it is missing",
			db.ErrInvalid)}
	}
	if n.Details != nil {
		if err := n.Details.Validate(); err != nil {
			return newRow{}, err
		}
	}
	if err := db.CheckText("tenantUserId", n.TenantUserID); err != nil {
		return newRow{}, &db.ItemError{Item: item, Member: "tenantUserId", Err: err}
	}
	if err := o.knownMerchant(ctx, item, n.Merchant); err != nil {
		return newRow{}, err
	}
	return o.newRow(item, NewCallback{Merchant: n.Merchant, Type: countersign.TypeRequestWithdraw, EventID: n.CallBackID,
		TrackingID: n.TrackingID, CallBackID: n.CallBackID, TenantUserID: n.TenantUserID, Address: targetOf(n.Details),
		Payload: n.Payload, Due: now, Deadline: n.Deadline}, now)
}

func targetOf(d *client.Details) string {
	if d == nil {
		return ""
	}
	return d.Address
}

// contentDiffers returns the first member in which n and w differ, with both values. It returns "" if they are the
// same.
func (w *Withdrawal) contentDiffers(n NewWithdrawal) string {
	switch {
	case w.TenantUserID != n.TenantUserID:
		return db.Both("tenantUserId", w.TenantUserID, n.TenantUserID)
	case w.TrackingID != n.TrackingID:
		return db.Both("trackingId", w.TrackingID, n.TrackingID)
	case w.Business != n.Business:
		return db.Both("business", w.Business, n.Business)
	case n.Details == nil && w.Ordered == nil:
		return ""
	case n.Details == nil:
		return "details: there were some, and none came"
	case w.Ordered == nil:
		return "details: there were none, and some came"
	}
	if member := n.Details.Differs(*w.Ordered); member != "" {
		return db.Both(member, w.Ordered.Get(member), n.Details.Get(member))
	}
	return ""
}

const (
	readWithdrawalSQL = `SELECT ` + withdrawalColumns + ` FROM withdrawals w WHERE w.merchant = $1 AND w.id = $2`

	withdrawalByCallBackIDSQL = `SELECT ` + withdrawalColumns +
		` FROM withdrawals w WHERE w.merchant = $1 AND w.call_back_id = $2`
)

func findWithdrawal(ctx context.Context, q db.Querier, text string, args ...any) (Withdrawal, error) {
	return db.Find(ctx, q, text, args, readWithdrawal)
}

// lockWithdrawal returns a withdrawal and locks its row until the end of t.
func lockWithdrawal(ctx context.Context, t *db.Tx, merchant, id string) (Withdrawal, error) {
	return findWithdrawal(ctx, t, readWithdrawalSQL+"{lock}", merchant, id)
}

// withWithdrawal runs fn in a transaction that has locked a withdrawal.
func (o *Outbox) withWithdrawal(ctx context.Context, id string,
	fn func(ctx context.Context, t *db.Tx, w *Withdrawal) error) error {
	return o.write(ctx, id, func(ctx context.Context, t *db.Tx, merchant, rest string) error {
		w, err := lockWithdrawal(ctx, t, merchant, rest)
		if err != nil {
			return err
		}
		return fn(ctx, t, &w)
	})
}

// readWithdrawal reads withdrawalColumns.
func readWithdrawal(r db.Rows) (Withdrawal, error) { return scanWithdrawal(r) }

// Withdrawal returns one withdrawal.
func (o *Outbox) Withdrawal(ctx context.Context, id string) (Withdrawal, error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return Withdrawal{}, err
	}
	return findWithdrawal(ctx, o, readWithdrawalSQL, merchant, rest)
}

// WithdrawalByCallBackID returns the merchant's withdrawal with this callBackId.
func (o *Outbox) WithdrawalByCallBackID(ctx context.Context, merchant, callBackID string) (Withdrawal, error) {
	if db.CheckText("", merchant) != nil || db.CheckText("", callBackID) != nil {
		return Withdrawal{}, db.ErrNotFound
	}
	return findWithdrawal(ctx, o, withdrawalByCallBackIDSQL, merchant, callBackID)
}

// CallBack identifies a withdrawal as its merchant does.
type CallBack struct{ Merchant, ID string }

// WithdrawalsCalled returns the withdrawal of each item of list, in the same order. It returns the zero Withdrawal
// for an item without one.
func (o *Outbox) WithdrawalsCalled(ctx context.Context, list []CallBack) ([]Withdrawal, error) {
	found := make([]Withdrawal, len(list))
	var reads []db.Statement
	for i, n := range list {
		if db.CheckText("", n.Merchant) != nil || db.CheckText("", n.ID) != nil {
			continue
		}
		reads = append(reads, found[i].read(withdrawalByCallBackIDSQL, n.Merchant, n.ID))
	}
	return found, o.Batch(ctx, reads)
}

// Withdrawals returns withdrawals of the merchants of, the newest first, beginning at cursor. If of is nil, the
// merchant of f counts. An empty text in of means all merchants. next is empty at the end. As with Callbacks, a page
// may be short.
func (o *Outbox) Withdrawals(ctx context.Context, of []string, f client.WithdrawalFilter, limit int,
	cursor string) (list []Withdrawal, next string, err error) {
	if of == nil {
		of = []string{f.Merchant}
	}
	var ls []db.Listing
	for _, f.Merchant = range of {
		l, err := withdrawalListing(f, cursor)
		if err != nil {
			return nil, "", err
		}
		ls = append(ls, l)
	}
	return readPage(ctx, o, withdrawalColumns, ls, limit, func(w Withdrawal) string { return w.ID }, readWithdrawal)
}

const (
	targetColumn = `CASE WHEN w.confirmed_address <> '' THEN w.confirmed_address ELSE w.ordered_address END`

	// A withdrawal has the id of the callback that asks about it.
	joinWithdrawals = ` JOIN withdrawals w ON w.merchant = '' || c.merchant AND w.id = c.id`
)

// withdrawalListing returns the listing of f, like callbackFilter.listings.
func withdrawalListing(f client.WithdrawalFilter, cursor string) (db.Listing, error) {
	l := db.Listing{Table: "withdrawals w"}
	if err := db.CheckTexts("tenantUserId", f.TenantUserID, "address", f.Address, "txId", f.TxID, "merchant", f.Merchant,
		"callBackId", f.CallBackID); err != nil {
		return l, err
	}
	if f.State != "" && client.Means(f.State) == "" {
		return l, fmt.Errorf("state is %w: %q", db.ErrInvalid, f.State)
	}
	looks := []look{{"w.tx_id", "w.tx_id <> '' AND ", f.TxID}, {targetColumn, "", f.Address},
		{"w.tenant_user_id", "", f.TenantUserID}}
	switch {
	case f.CallBackID != "" && f.Merchant != "":
		l.Owner = f.Merchant
		l.Add("w.merchant = ? AND w.call_back_id = ?", f.Merchant, f.CallBackID)
	case f.CallBackID != "": // the callbacks have an index for it
		l.Table, l.Joins = "callbacks c", joinWithdrawals
		l.Add("c.call_back_id <> '' AND c.call_back_id = ?", f.CallBackID)
	case walkBy(&l, looks):
	default:
		if l.Owner = f.Merchant; f.Merchant != "" {
			l.Add("w.merchant = ?", f.Merchant)
		}
		if f.State != "" {
			l.Add("w.state = '" + string(f.State) + "'") // a literal: PostgreSQL sees whether the state is rare
		}
	}
	if err := from(&l, cursor, f.Since, f.Until); err != nil {
		return l, err
	}
	l.EndWalk()
	filterBy(&l, append(looks, look{"w.merchant", "", f.Merchant}, look{"w.state", "", string(f.State)}))
	return l, nil
}
