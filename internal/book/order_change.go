package book

import (
	"context"
	"errors"
	"fmt"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/policy"
)

// OrderChange changes an order that is still in the state From.
type OrderChange struct {
	CallBackID   string
	TenantUserID string // of the order; checked if it is to be confirmed
	From, To     client.OrderState
	By           string
	Reason       string
	OtherUser    bool // the service named a user other than the order's, so raise an alarm
	// Clock is read for a confirmation once the order is locked. The process may have stood still after its decision,
	// and the order may have expired. Nil: the caller's time is used.
	Clock func() db.Millis
	// Check returns an error if the change may not be made after all. It runs while the order is locked. Nil: nothing
	// is checked.
	Check func(context.Context, db.Querier) error
	// Ceilings are limits that a confirmation must not exceed. They hold exactly, however many nodes confirm at once. But
	// their Since is the caller's time, and other confirmations have the times of their nodes, so the windows are as exact
	// as these clocks agree.
	Ceilings []policy.Limit
}

// ErrChanged means that an order changed after the caller read it. Read it again.
var ErrChanged = errors.New("the order has changed meanwhile")

const firstAskedSQL = `SELECT created FROM inbox WHERE type = 2 AND id = $1`

// AskedFor returns what the book knows of the order that the service asks about.
func (b *Book) AskedFor(ctx context.Context, callBackID string, now db.Millis) (Asked, error) {
	a := Asked{Since: now}
	if _, err := db.One(ctx, b, firstAskedSQL, []any{callBackID}, &a.Since); err != nil {
		return a, err
	}
	var err error
	if a.Restored, err = db.EpochIsOpen(ctx, b); err != nil {
		return a, err
	}
	a.Order, err = findOrder(ctx, b, readOrderSQL, callBackID)
	if isNotFound(err) {
		return a, nil
	}
	a.Known = err == nil
	return a, err
}

// ChangeOrder changes an order's state and appends the event in one transaction. It returns ErrChanged if the order
// is no longer in the state c.From, or exceeds one of c.Ceilings. It confirms only an order of c.TenantUserID that
// has not expired. Details never change, so an order that was confirmed once always has the same details.
func (b *Book) ChangeOrder(ctx context.Context, c OrderChange, now db.Millis) (o Order, err error) {
	err = b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		if o, err = findOrder(ctx, t, lockOrderSQL, c.CallBackID); err != nil {
			return err
		}
		return b.changeOrder(ctx, t, &o, c, now)
	})
	return o, err
}

// changeOrder changes o, which must be locked.
func (b *Book) changeOrder(ctx context.Context, t *db.Tx, o *Order, c OrderChange, now db.Millis) error {
	if o.State != c.From {
		return fmt.Errorf("%w: it is %s", ErrChanged, o.State)
	}
	if c.To == client.OrderConfirmed && c.Clock != nil {
		now = max(now, c.Clock())
	}
	if c.To == client.OrderConfirmed && (o.Expired(now) || o.TenantUserID != c.TenantUserID) {
		return fmt.Errorf("%w: it has expired or is of another user", ErrChanged)
	}
	if o.Restored {
		return errOrderRestored
	}
	if !c.To.Undecided() {
		if err := checkReconciled(ctx, t); err != nil {
			return err
		}
	}
	l := ledger{}
	if c.OtherUser {
		l.orderAlarm(otherUser, c.CallBackID, now)
	}
	if c.Check != nil {
		if err := c.Check(ctx, t); err != nil {
			return err
		}
	}
	if len(c.Ceilings) > 0 {
		if err := checkCeilings(ctx, t, o, c.Ceilings); err != nil {
			return err
		}
	}
	from := *o
	o.State, o.Reason, o.Updated = c.To, c.Reason, now
	if c.By != "" {
		o.DecidedBy = c.By
	}
	switch {
	case c.To == client.OrderConfirmed:
		o.Confirmed = now
		l.spent(*o)
	case !c.To.Undecided():
		o.Ended = now
	}
	if err := storeOrder(ctx, t, from, *o); err != nil {
		return err
	}
	l.event(orderEvent(eventOf(o.State), *o, now))
	return l.write(ctx, t)
}

// checkCeilings returns ErrChanged if o exceeds a ceiling. It locks the feed of events first, as every confirmation
// does before it commits. The sums therefore cannot change until the commit, and two orders cannot both use the same
// rest of a limit. Alarms are locked before events, so a change with ceilings raises none.
func checkCeilings(ctx context.Context, t *db.Tx, o *Order, ceilings []policy.Limit) error {
	if _, err := db.LockFeed(ctx, t, feedEvents); err != nil {
		return err
	}
	for _, c := range ceilings {
		spent, err := readSpent(ctx, t, o.Symbol, c.TenantUserID, db.MillisOf(c.Since))
		if err != nil {
			return err
		}
		if !c.Holds(spent, o.Amount) {
			return fmt.Errorf("%w: the limit was exceeded meanwhile", ErrChanged)
		}
	}
	return nil
}

// RefuseUnknown records that the service asked for an order that did not come in time. The order can then not be
// added afterwards, to wait for a question that never comes. RefuseUnknown returns ErrChanged if the order has come
// meanwhile.
func (b *Book) RefuseUnknown(ctx context.Context, callBackID, tenantUserID string, now db.Millis) error {
	return b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := checkReconciled(ctx, t); err != nil {
			return err
		}
		o := Order{Order: client.Order{CallBackID: callBackID, TenantUserID: tenantUserID, State: client.OrderUnknown,
			Created: now, Updated: now, Ended: now}}
		inserted, err := insertOrder(ctx, t, o)
		if err != nil {
			return err
		}
		if !inserted {
			return ErrChanged
		}
		l := ledger{}
		l.orderAlarm(neverOrdered, callBackID, now)
		l.event(orderEvent(client.EventOrderUnknown, o, now))
		return l.write(ctx, t)
	})
}

// ApproveOrder records a person's approval of an undecided order. vote gets the approvals before a. It reports
// whether to store a, and whether the approvals then suffice, or returns why a does not count. Repeating it changes
// nothing. ApproveOrder returns a *ConflictError for any other state.
func (b *Book) ApproveOrder(ctx context.Context, callBackID string, a db.Vote,
	vote func(ctx context.Context, q db.Querier, votes []db.Vote) (keep, enough bool, err error)) (Order, error) {
	c := OrderChange{CallBackID: callBackID, To: client.OrderApproved, By: a.Token, Reason: a.Text}
	return b.personal(ctx, c, a.At, func(ctx context.Context, t *db.Tx, o *Order) (bool, error) {
		votes, err := b.OrderApprovals(ctx, t, *o)
		if err != nil {
			return false, err
		}
		keep, enough, err := vote(ctx, t, votes)
		if err != nil {
			return false, err
		}
		if keep {
			if _, err := db.AddVote(ctx, t, aboutOrder(callBackID), o.digest(), a); err != nil {
				return false, err
			}
		}
		if enough && o.State != client.OrderApproved || !keep {
			return enough, nil
		}
		// The order does not change, so there is no event. The log names who approved.
		t.Wake(TopicOrders)
		details := o.Details()
		return false, journal.AddAbout(ctx, t, journal.OrderApproval, callBackID, a.At, journal.Event{CallBackID: callBackID,
			TenantUserID: o.TenantUserID, Details: journal.DetailsOf(&details), Reason: a.Text, DecidedBy: a.Token})
	})
}

// OrderApprovals returns the approvals of an order, the oldest first.
func (b *Book) OrderApprovals(ctx context.Context, q db.Querier, o Order) ([]db.Vote, error) {
	return db.Votes(ctx, q, aboutOrder(o.CallBackID), o.digest())
}

// digest returns a digest of everything in an order that is approved. An order never changes, but one that a restore
// lost and that was added again may differ.
func (o *Order) digest() string {
	return db.Digest(o.CallBackID, o.TenantUserID, o.Address, o.ChainName, o.Symbol, o.Amount.String(),
		storedLabels(o.Labels), o.ExpiresAt, o.OrderedBy, o.Created)
}

// WhyNotDecided returns why nobody may approve, decline or cancel the order now. It returns "" if somebody may.
func (o Order) WhyNotDecided(now db.Millis) string {
	switch {
	case !o.State.Undecided():
		return "the order is " + string(o.State)
	case o.Expired(now):
		return "the order has expired"
	case o.Restored:
		return errOrderRestored.Reason
	}
	return ""
}

// DeclineOrder declines an undecided order. Repeating it changes nothing. It returns a *ConflictError for any other
// state.
func (b *Book) DeclineOrder(ctx context.Context, callBackID, by, reason string, now db.Millis) (Order, error) {
	return b.personal(ctx, OrderChange{CallBackID: callBackID, To: client.OrderDeclined, By: by, Reason: reason}, now, nil)
}

// CancelOrder cancels an undecided order. Repeating it changes nothing. It returns a *ConflictError for any other
// state.
func (b *Book) CancelOrder(ctx context.Context, callBackID, by, reason string, now db.Millis) (Order, error) {
	return b.personal(ctx, OrderChange{CallBackID: callBackID, To: client.OrderCancelled, By: by,
		Reason: reason}, now, nil)
}

// personal makes a change that a person or the merchant's application requests. If first is not nil, it gets the
// locked order and reports whether to make the change.
func (b *Book) personal(ctx context.Context, c OrderChange, now db.Millis,
	first func(context.Context, *db.Tx, *Order) (bool, error)) (o Order, err error) {
	if err := db.CheckTexts("reason", c.Reason, "by", c.By); err != nil {
		return Order{}, err
	}
	err = b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		if o, err = findOrder(ctx, t, lockOrderSQL, c.CallBackID); err != nil {
			return err
		}
		if o.State == c.To && first == nil {
			return nil
		}
		if why := o.WhyNotDecided(now); why != "" {
			return &db.ConflictError{Reason: why}
		}
		if first != nil {
			if is, err := first(ctx, t, &o); err != nil || !is || o.State == c.To {
				return err
			}
		}
		c.From = o.State
		return b.changeOrder(ctx, t, &o, c, now)
	})
	return o, err
}

const overdueOrdersSQL = `
SELECT call_back_id, state FROM orders WHERE state IN ('open', 'held', 'approved') AND expires < 4611686018427387904 AND expires <= $1
	AND restored = 0
ORDER BY expires LIMIT $2`

// ExpireOrders ends at most limit undecided orders that have expired and returns their number. If it returns limit,
// there may be more.
func (b *Book) ExpireOrders(ctx context.Context, now db.Millis, limit int) (n int, err error) {
	open, err := db.EpochIsOpen(ctx, b)
	if err != nil || open {
		return 0, err
	}
	changes, err := db.List(ctx, b, overdueOrdersSQL, []any{int64(now), limit}, func(r db.Rows) (OrderChange, error) {
		c := OrderChange{To: client.OrderExpired}
		err := r.Scan(&c.CallBackID, &c.From)
		return c, err
	})
	if err != nil {
		return 0, err
	}
	for _, c := range changes {
		if _, err := b.ChangeOrder(ctx, c, now); err != nil && !errors.Is(err, ErrChanged) {
			return n, err
		}
		n++
	}
	return n, nil
}
