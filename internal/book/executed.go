package book

import (
	"cmp"
	"context"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/merchant"
)

// execution is a transaction that executed a withdrawal, as the service reports.
type execution struct {
	callBackID, payment string
	txID, user, symbol  string // symbol folded
	amount              countersign.Amount
	counted             countersign.Sum
	reported            db.Millis
	fresh               bool // to be written
}

const (
	readExecutionsSQL = `
SELECT payment, tx_id, tenant_user_id, folded_symbol, amount, counted, reported FROM executions WHERE call_back_id = $1 ORDER BY reported, payment`

	writeExecutionSQL = `
INSERT INTO executions (call_back_id, payment, tx_id, tenant_user_id, folded_symbol, amount, counted, reported) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (call_back_id, payment) DO UPDATE SET amount = excluded.amount, counted = excluded.counted`
)

func readExecutions(ctx context.Context, t *db.Tx, callBackID string) ([]execution, error) {
	return db.List(ctx, t, readExecutionsSQL, []any{callBackID}, func(r db.Rows) (execution, error) {
		x := execution{callBackID: callBackID}
		err := r.Scan(&x.payment, &x.txID, &x.user, &x.symbol, db.Parsed(&x.amount, countersign.ParseAmount),
			db.Parsed(&x.counted, countersign.ParseSum), &x.reported)
		return x, err
	})
}

// takeExecution records that the service executed a withdrawal (type 3). Money has left, whatever the state of the
// order. The limits therefore count it, and the application learns of it.
func (in *inboxTx) takeExecution(ctx context.Context, e *merchant.Entry, c *countersign.WithdrawalDone) error {
	at := db.MillisOf(e.At)
	o, err := findOrder(ctx, in.t, lockOrderSQL, c.CallBackID)
	known := err == nil
	if err != nil && !isNotFound(err) {
		return err
	}
	list, err := readExecutions(ctx, in.t, c.CallBackID)
	if err != nil {
		return err
	}
	if c.TxID == "" && len(list) > 0 {
		return nil // it names no other transaction
	}
	reported := sentDetails(o, c)
	x := execution{callBackID: c.CallBackID, txID: c.TxID, user: c.TenantUserID,
		symbol: countersign.FoldSymbol(reported.Symbol), amount: reported.Amount, reported: at, fresh: true}
	x.payment = db.Digest(countersign.FoldTxID(c.TxID), x.symbol, x.user)
	first := true // of this transaction
	for i := range list {
		if list[i].payment == x.payment {
			if x.amount.Sum().Cmp(list[i].amount.Sum()) <= 0 {
				return nil // the service repeats it under another trackingId
			}
			list[i].amount, list[i].fresh, first = x.amount, true, false
		}
	}
	if first {
		list = append(list, x)
	}
	moved, why := Order{Order: client.Order{State: client.OrderUnknown, Reason: string(neverOrdered)}}, neverOrdered
	switch {
	case !known && in.restored: // a backup may have lost it
	case !known:
		err = overBeforeOrder(ctx, in.t, c.CallBackID, c.TenantUserID, "the service executed it before it was ordered", at)
	case c.TenantUserID != o.TenantUserID:
		moved, why = o, otherUser
	default:
		if moved, why = o.executed(c, at); moved.State != o.State || moved.TxID != o.TxID {
			err = in.storeMove(ctx, o, moved)
		}
		if !first {
			why = otherDetails
		}
	}
	if err != nil {
		return err
	}
	in.ledger.orderAlarm(why, c.CallBackID, at)
	in.ledger.event(client.EventEntry{Kind: client.EventOrderExecuted, At: at, CallBackID: c.CallBackID,
		TenantUserID: c.TenantUserID, State: string(client.OrderExecuted), Address: reported.Address,
		ChainName: reported.ChainName, Symbol: reported.Symbol, Amount: reported.Amount,
		TxID: c.TxID, Reason: moved.Reason, DecidedBy: moved.DecidedBy})
	return in.ledger.recount(ctx, in.t, moved, list)
}

// sentDetails returns the details of an execution that the service sent. If a lenient parse let it omit a member,
// that of the order is used.
func sentDetails(o Order, c *countersign.WithdrawalDone) countersign.Details {
	d := countersign.Details{Address: cmp.Or(c.ToAddress, o.Address), ChainName: cmp.Or(c.ChainName, o.ChainName),
		Symbol: cmp.Or(c.Symbol, o.Symbol), Amount: c.Amount}
	if !d.Amount.IsSet() {
		d.Amount = o.Amount
	}
	return d
}

// recount makes the limits count what the executions of o paid beyond what they count for o itself. For the symbol
// and user of o, the greater of the paid and the ordered sum counts. An execution for another user or without an
// order counts in full.
func (l *ledger) recount(ctx context.Context, t *db.Tx, o Order, list []execution) error {
	ordered := o.spentKey()
	none := countersign.Sum{}
	counts := none // of the order so far
	if o.Confirmed > 0 && o.State != client.OrderEnded {
		counts = o.Amount.Sum()
	}
	paid := map[string]countersign.Sum{} // of the order's user, by symbol
	var writes []db.Statement
	for _, x := range list {
		counted := x.amount.Sum()
		if o.CallBackID != "" && x.user == ordered.user {
			before := paid[x.symbol]
			paid[x.symbol] = before.Plus(counted)
			if x.symbol == ordered.symbol {
				now := o.Amount.Sum()
				if paid[x.symbol].Cmp(now) > 0 {
					now = paid[x.symbol]
				}
				counted = now.Plus(counts.Negative())
				counts = now
			}
		}
		if by := counted.Plus(x.counted.Negative()); by.Cmp(none) != 0 {
			l.changeSpent(spentKey{symbol: x.symbol, user: x.user, start: x.reported}, by)
		} else if !x.fresh {
			continue
		}
		writes = append(writes, db.Statement{SQL: writeExecutionSQL,
			Args: []any{x.callBackID, x.payment, x.txID, x.user, x.symbol, x.amount.String(), counted.String(),
				int64(x.reported)}})
	}
	return t.Batch(ctx, writes)
}

// recountAll does recount for all executions of o after its confirmation has changed.
func (l *ledger) recountAll(ctx context.Context, t *db.Tx, o Order) error {
	list, err := readExecutions(ctx, t, o.CallBackID)
	if err != nil {
		return err
	}
	return l.recount(ctx, t, o, list)
}

// executed returns the order after an execution, and the cause of an alarm to raise. Money has moved, so an order
// that is not final becomes executed even if the details differ from the ordered ones. Otherwise a later callback of
// type 5 would free its funds.
func (o Order) executed(c *countersign.WithdrawalDone, at db.Millis) (Order, cause) {
	to := o
	to.TxID, to.Updated = c.TxID, at
	switch {
	case o.State == client.OrderExecuted && o.TxID == "":
		// Reconciled books said that it was executed, and named no transaction.
		return to, ""
	case o.State == client.OrderExecuted && countersign.FoldTxID(o.TxID) == countersign.FoldTxID(c.TxID):
		return o, ""
	case o.State == client.OrderExecuted:
		return o, secondTransaction
	case o.State == client.OrderEnded:
		return o, executedAfterEnd
	case !o.State.Undecided() && o.State != client.OrderConfirmed:
		return o, notConfirmed
	}
	to.State, to.Waiting, to.Ended = client.OrderExecuted, "", at
	if o.State != client.OrderConfirmed {
		to.Reason = string(notConfirmed)
		return to, notConfirmed
	}
	if member := sentDetails(o, c).Differs(o.Details()); member != "" {
		to.Reason = "executed with another " + member
		return to, otherDetails
	}
	return to, ""
}
