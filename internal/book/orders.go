package book

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Order is a row of orders: what the API shows of it, and its number.
type Order struct {
	client.Order
	Seq int64
}

// Asked is what the book knows of an order that the service asks about.
type Asked struct {
	Known bool
	Order Order // if Known
	// Restored means that the book was restored and is not reconciled.
	Restored bool
	// Since is when the service first asked, or the time of the look-up if that is not recorded.
	Since db.Millis
}

const orderColumns = `call_back_id, tenant_user_id, address, chain_name, symbol, amount, labels, expires, ordered_by, state, decided_by, created, confirmed,
	seq, reason, waiting, tx_id, updated, ended, restored`

// scanOrder reads a row of orderColumns.
func scanOrder(r db.Rows) (o Order, err error) {
	err = r.Scan(&o.CallBackID, &o.TenantUserID, &o.Address, &o.ChainName, &o.Symbol,
		db.Parsed(&o.Amount, countersign.ParseAmount), db.JSON(&o.Labels), &o.ExpiresAt, &o.OrderedBy, &o.State, &o.DecidedBy,
		&o.Created, &o.Confirmed, &o.Seq, &o.Reason, &o.Waiting, &o.TxID, &o.Updated, &o.Ended, db.Bool(&o.Restored))
	if o.ExpiresAt == db.Never {
		o.ExpiresAt = 0
	}
	if err != nil {
		err = fmt.Errorf("order %s: %w", o.CallBackID, err)
	}
	return o, err
}

// storedLabels returns the stored form of labels. Its members are sorted, so that equal labels are equal texts.
func storedLabels(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	b, _ := json.Marshal(labels) // cannot fail: only texts
	return string(b)
}

const (
	readOrderSQL = `SELECT ` + orderColumns + ` FROM orders WHERE call_back_id = $1`

	lockOrderSQL = readOrderSQL + `{lock}`
)

func findOrder(ctx context.Context, q db.Querier, text string, callBackID string) (Order, error) {
	if db.CheckText("", callBackID) != nil {
		return Order{}, db.ErrNotFound
	}
	return db.Find(ctx, q, text, []any{callBackID}, scanOrder)
}

func isNotFound(err error) bool { return errors.Is(err, db.ErrNotFound) }

// orderEvent returns the event of o in its present state.
func orderEvent(kind client.EventKind, o Order, at db.Millis) client.EventEntry {
	return client.EventEntry{Kind: kind, At: at, CallBackID: o.CallBackID, TenantUserID: o.TenantUserID,
		State: string(o.State), Address: o.Address, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount, TxID: o.TxID,
		Reason: o.Reason, DecidedBy: o.DecidedBy}
}

const insertOrderSQL = `
INSERT INTO orders (call_back_id, tenant_user_id, address, chain_name, symbol, folded_symbol, amount, labels, expires, ordered_by, state, reason, created, updated, ended)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (call_back_id) DO NOTHING`

func insertOrder(ctx context.Context, t *db.Tx, o Order) (bool, error) {
	n, err := t.Exec(ctx, insertOrderSQL, o.CallBackID, o.TenantUserID, o.Address, o.ChainName, o.Symbol,
		countersign.FoldSymbol(o.Symbol), o.Amount.String(), storedLabels(o.Labels), int64(cmp.Or(o.ExpiresAt, db.Never)),
		o.OrderedBy, string(o.State), o.Reason, int64(o.Created), int64(o.Updated), int64(o.Ended))
	if err != nil || n == 0 {
		return false, err
	}
	countMoved(t, "", o.State)
	return true, nil
}

const storeOrderSQL = `
UPDATE orders SET state = $3, reason = $4, decided_by = $5, waiting = $6, tx_id = $7, updated = $8, confirmed = $9, ended = $10, restored = $11
WHERE call_back_id = $1 AND state = $2`

// storeOrder stores what became of the order from, whose row must be locked.
func storeOrder(ctx context.Context, t *db.Tx, from, to Order) error {
	n, err := t.Exec(ctx, storeOrderSQL, to.CallBackID, string(from.State), string(to.State), to.Reason, to.DecidedBy,
		string(to.Waiting), to.TxID, int64(to.Updated), int64(to.Confirmed), int64(to.Ended), bit(to.Restored))
	switch {
	case err != nil:
		return err
	case n != 1:
		return ErrChanged
	}
	countMoved(t, from.State, to.State)
	return nil
}

// countMoved moves an order in the counts from one state to another. An empty from means a new order.
func countMoved(t *db.Tx, from, to client.OrderState) {
	t.Count(countOrders+string(to), 1)
	if from != "" {
		t.Count(countOrders+string(from), -1)
	}
}

// AddOrder stores an order in the state open. For a known order with the same content it returns that order in its
// present state, with duplicate true. It returns a *ConflictError if the callBackId has other content, or if the
// service asked for the order earlier: the answer that it is unknown stands.
func (b *Book) AddOrder(ctx context.Context, n client.NewOrder, by string,
	now db.Millis) (o Order, duplicate bool, err error) {
	if err := checkNewOrder(n, now); err != nil {
		return Order{}, false, err
	}
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		inserted, err := insertOrder(ctx, t, Ordered(n, by, now))
		duplicate = !inserted
		if err == nil {
			// The lock makes a repetition also commit and wait for the standby, which may lack the first commit.
			o, err = findOrder(ctx, t, lockOrderSQL, n.CallBackID)
		}
		if err == nil && inserted {
			err = journal.AddAbout(ctx, t, journal.OrderAdded, o.CallBackID, o.Created, n)
		}
		return err
	})
	if err != nil {
		return Order{}, false, err
	}
	if duplicate {
		if o.State == client.OrderUnknown {
			return Order{}, false, &db.ConflictError{Member: "callBackId",
				Reason: "was refused as unknown, or ended or executed by the service, before it was ordered: order it under another callBackId"}
		}
		if member := contentDiffers(o, n); member != "" {
			return Order{}, false, &db.ConflictError{Member: "callBackId",
				Reason: "is in use by an order with another " + member}
		}
	}
	b.WakeHere(TopicOrders)
	return o, duplicate, nil
}

// Ordered returns the order that by placed with n.
func Ordered(n client.NewOrder, by string, now db.Millis) Order {
	return Order{Order: client.Order{CallBackID: n.CallBackID, TenantUserID: n.TenantUserID, Address: n.Address,
		ChainName: n.ChainName, Symbol: n.Symbol, Amount: n.Amount, ExpiresAt: n.ExpiresAt, Labels: n.Labels,
		State: client.OrderOpen, OrderedBy: by, Created: now, Updated: now}}
}

func checkNewOrder(n client.NewOrder, now db.Millis) error {
	if err := db.CheckTexts("callBackId", n.CallBackID, "tenantUserId", n.TenantUserID); err != nil {
		return err
	}
	if n.ExpiresAt != 0 && n.ExpiresAt <= now {
		return &db.ItemError{Member: "expiresAt", Err: fmt.Errorf("expiresAt is %w: it has passed", db.ErrInvalid)}
	}
	for name, value := range n.Labels {
		if err := db.CheckTexts("labels", name, "labels", value); err != nil {
			return err
		}
	}
	return n.Details().Validate()
}

// contentDiffers returns the first member in which n and o differ, with both values. It returns "" if they are the
// same.
func contentDiffers(o Order, n client.NewOrder) string {
	member := n.Details().Differs(o.Details())
	switch {
	case o.TenantUserID != n.TenantUserID:
		return db.Both("tenantUserId", o.TenantUserID, n.TenantUserID)
	case member != "":
		return db.Both(member, o.Details().Get(member), n.Details().Get(member))
	case o.ExpiresAt != n.ExpiresAt:
		return db.Both("expiresAt", o.ExpiresAt, n.ExpiresAt)
	}
	labels := map[string]string{}
	maps.Copy(labels, o.Labels)
	maps.Copy(labels, n.Labels)
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		was, known := o.Labels[name]
		if is, came := n.Labels[name]; known != came || was != is {
			return db.Both("labels."+name, was, is)
		}
	}
	return ""
}

// Order returns one order.
func (b *Book) Order(ctx context.Context, callBackID string) (Order, error) {
	return findOrder(ctx, b, readOrderSQL, callBackID)
}

// Orders returns a page of orders; see list.
func (b *Book) Orders(ctx context.Context, f client.OrderFilter, limit int, before int64) ([]Order, int64, error) {
	return list(ctx, b, "orders", orderColumns, orderMembers(f), limit, before,
		func(o Order) int64 { return o.Seq }, scanOrder)
}

func orderMembers(f client.OrderFilter) []member {
	state := text("state", string(f.State))
	if slices.Contains(client.Values[client.OrderState](), f.State) {
		state.walk = "state = '" + string(f.State) + "'" // a literal: PostgreSQL sees whether it is rare
	}
	return append([]member{longText("tx_id", f.TxID).where("tx_id <> ''"), text("address", f.Address),
		text("tenant_user_id", f.TenantUserID), state}, between("created", f.Since, f.Until)...)
}

// AboutOrder and AboutDeposit are prefixes of the subjects of approvals and notes. The id follows.
const (
	AboutOrder   = "order/"
	AboutDeposit = "deposit/"
)

func aboutOrder(callBackID string) string { return AboutOrder + callBackID }

func aboutDeposit(seq int64) string { return AboutDeposit + strconv.FormatInt(seq, 10) }

// NoteOrder adds a note about an order, and a record of it to the log.
func (b *Book) NoteOrder(ctx context.Context, callBackID string, n db.Vote) error {
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		o, err := findOrder(ctx, t, lockOrderSQL, callBackID)
		if err != nil {
			return err
		}
		seq, err := db.AddVote(ctx, t, aboutOrder(o.CallBackID), "", n)
		if err != nil {
			return err
		}
		return journal.AddAbout(ctx, t, journal.OrderNoted, o.CallBackID, n.At,
			journal.Note{CallBackID: o.CallBackID, Number: seq, Text: n.Text})
	})
}
