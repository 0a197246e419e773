package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"countersign"
)

// ledger gathers what a transaction of the merchant's end appends to the feeds
// and writes it last, for the reasons that feedEntries names.
type ledger struct {
	m *MerchantEnd
	feedEntries
	deposits []TakenDeposit
	events   []Event
	sums     map[spentKey]exact // by how much each changes
}

func (l *ledger) event(e Event) { l.events = append(l.events, e) }

const (
	insertDepositSQL = `
INSERT INTO deposits (seq, tracking_id, tenant_user_id, tx_id, chain_name, symbol, amount, from_address, to_address,
	risk_from, risk_to, tx_index, business, state, taken)
VALUES `

	insertEventSQL = `
INSERT INTO events (seq, kind, at, call_back_id, deposit, tenant_user_id, state, address, old_address, chain_name, symbol, amount,
	tx_id, reason, decided_by)
VALUES `

	insertForwardSQL = `INSERT INTO forwards (feed, seq, due, created) VALUES `
)

// write appends everything, the feeds in the order of their names.
func (l *ledger) write(ctx context.Context, t *tx) error {
	if err := l.feedEntries.write(ctx, t); err != nil {
		return err
	}
	if len(l.alarms) > 0 {
		t.wake(TopicEvents) // alarms have no topic of their own
	}
	var fresh, forwards [][]any
	if len(l.deposits) > 0 {
		seq, err := lockFeed(ctx, t, FeedDeposits)
		if err != nil {
			return err
		}
		for i := range l.deposits {
			seq++
			d := &l.deposits[i]
			c := &d.Deposit
			fresh = append(fresh, []any{seq, c.TrackingID, c.TenantUserID, c.TxID, c.ChainName, c.Symbol, c.Amount.String(), c.FromAddress,
				c.ToAddress, c.RiskLevelFrom, c.RiskLevelTo, c.TxIndex, c.Business, string(d.State), int64(d.Taken)})
			forwards = append(forwards, []any{int64(FeedDeposits), seq, int64(d.Taken), int64(d.Taken)})
		}
		if err := l.append(ctx, t, FeedDeposits, seq, insertDepositSQL, fresh, forwards); err != nil {
			return err
		}
		t.wake(TopicDeposits)
	}
	if len(l.events) > 0 {
		fresh, forwards = nil, nil
		seq, err := lockFeed(ctx, t, FeedEvents)
		if err != nil {
			return err
		}
		if err := l.writeSpent(ctx, t); err != nil { // sums change with events alone
			return err
		}
		for i := range l.events {
			seq++
			e := &l.events[i]
			fresh = append(fresh, []any{seq, e.Kind, int64(e.At), e.CallBackID, e.Deposit, e.TenantUserID, e.State, e.Details.Address,
				e.OldAddress, e.Details.ChainName, e.Details.Symbol, e.Details.Amount.String(), e.TxID, e.Reason, e.DecidedBy})
			forwards = append(forwards, []any{int64(FeedEvents), seq, int64(e.At), int64(e.At)})
		}
		if err := l.append(ctx, t, FeedEvents, seq, insertEventSQL, fresh, forwards); err != nil {
			return err
		}
		t.wake(TopicEvents)
	}
	return nil
}

// append writes the new rows of one feed, which end with seq.
func (l *ledger) append(ctx context.Context, t *tx, feed Feed, seq int64, text string, fresh, forwards [][]any) error {
	statements := insertRows(nil, text, fresh)
	if l.m.forward {
		statements = insertRows(statements, insertForwardSQL, forwards)
		t.wake(TopicForwards)
	}
	return t.batch(ctx, append(statements, statement{sql: writeFeedSQL, args: []any{feed.String(), seq}}))
}

// insertRows appends statements that insert rows by text, which ends with
// VALUES. Many rows share a statement, which takes half the time of one each;
// only so many that the statements, which stay prepared, are few.
func insertRows(list []statement, text string, rows [][]any) []statement {
	for len(rows) > 0 {
		n := 1
		for _, many := range [...]int{32, 8} {
			if len(rows) >= many {
				n = many
				break
			}
		}
		width := len(rows[0])
		args := make([]any, 0, n*width)
		for _, row := range rows[:n] {
			args = append(args, row...)
		}
		list = append(list, statement{sql: text + valuesText(n, width), args: args})
		rows = rows[n:]
	}
	return list
}

// valuesTexts keeps "($1, $2), ($3, $4)" by the numbers of rows and columns.
var valuesTexts sync.Map

func valuesText(n, width int) string {
	key := [2]int{n, width}
	if text, ok := valuesTexts.Load(key); ok {
		return text.(string)
	}
	var b strings.Builder
	for i := range n * width {
		switch {
		case i == 0:
			b.WriteString("(")
		case i%width == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(i+1))
	}
	b.WriteString(")")
	valuesTexts.Store(key, b.String())
	return b.String()
}

func lockFeed(ctx context.Context, t *tx, feed Feed) (seq int64, err error) {
	_, err = one(ctx, t, lockFeedSQL, []any{feed.String()}, &seq)
	return seq, err
}

// effect does what follows from a callback that was taken just now.
func (b *inboxBatchTx) effect(ctx context.Context, e *InboxEntry, row *inboxRow) error {
	switch c := e.Callback.(type) {
	case *countersign.Deposit:
		d := TakenDeposit{Deposit: *c, State: DepositTaken, Taken: e.At}
		if row.duplicate {
			d.State = DepositHeld
			b.ledger.alarm("", AlarmPossibleDuplicate, c.TrackingID, e.At)
		}
		b.ledger.deposits = append(b.ledger.deposits, d)
	case *countersign.AddressChange:
		b.ledger.event(Event{Kind: EventAddressChanged, At: e.At, TenantUserID: c.TenantUserID, OldAddress: c.ToAddress,
			Details: countersign.Details{Address: c.CountingAddress(), ChainName: c.ChainName, Symbol: c.Symbol}})
	case *countersign.WithdrawalDone:
		return b.moveOrder(ctx, e, func(o, to Order) (Order, bool, string) { return o.executed(to, c) })
	case *countersign.WithdrawalEnded:
		return b.moveOrder(ctx, e, Order.withdrawn)
	case *countersign.FundsShort:
		return b.moveOrder(ctx, e, func(o, to Order) (Order, bool, string) { return o.waits(to, c.Type) })
	default: // a withdrawal request, which is answered and not taken, or a type that nothing is written for here
		return fmt.Errorf("a callback of type %d has no effect to record", int(c.CallbackType()))
	}
	return nil
}

const moveOrderSQL = `
UPDATE orders SET state = $2, reason = $3, waiting = $4, tx_id = $5, updated = $6, ended = $7 WHERE call_back_id = $1`

// move says what an order becomes by a callback, whether that is a change, and
// which alarm it is worth. to is the order with what every change changes. An
// order never goes back: what the service says last does not undo what it said
// first.
type move func(o, to Order) (moved Order, moves bool, alarm string)

// moveOrder lets a callback of types 3, 5, 6 or 7 act on its order.
func (b *inboxBatchTx) moveOrder(ctx context.Context, e *InboxEntry, by move) error {
	id := e.Callback.OrderID()
	o, err := findOrder(ctx, b.t, lockOrderSQL, id)
	switch {
	case isNotFound(err) && e.Callback.CallbackType() == countersign.TypeWithdraw:
		b.ledger.alarm("", AlarmOrderUnknown, id, e.At)
		return nil
	case isNotFound(err):
		return nil // nothing was ordered, so nothing is frozen
	case err != nil:
		return err
	}
	if e.Callback.User() != o.TenantUserID {
		b.ledger.alarm("", AlarmUserDiffers, id, e.At)
		return nil
	}
	to := o
	to.Updated, to.Reason = e.At, ""
	to, moves, alarm := by(o, to)
	if alarm != "" {
		b.ledger.alarm("", alarm, id, e.At)
	}
	if !moves {
		return nil
	}
	if to.State == OrderEnded && to.Confirmed > 0 {
		b.ledger.unspent(to)
	}
	_, err = b.t.exec(ctx, moveOrderSQL, id, string(to.State), to.Reason, int64(to.Waiting), to.TxID, int64(to.Updated), int64(to.Ended))
	kind := eventOrderStatePrefix + string(to.State)
	if to.Waiting != 0 {
		kind = EventOrderWaiting
	}
	b.ledger.event(orderEvent(kind, to, e.At))
	return err
}

// withdrawn is what type 5 does: the order's funds are free.
func (o Order) withdrawn(to Order) (Order, bool, string) {
	switch {
	case o.State == OrderExecuted:
		return o, false, AlarmEndedAfterExecution
	case !o.State.Undecided() && o.State != OrderConfirmed:
		return o, false, "" // final already: its funds are free
	}
	to.State, to.Waiting, to.Ended = OrderEnded, 0, to.Updated
	return to, true, ""
}

// waits is what types 6 and 7 do: the order stays frozen.
func (o Order) waits(to Order, what countersign.Type) (Order, bool, string) {
	if !o.State.Undecided() && o.State != OrderConfirmed || o.Waiting == what {
		return o, false, "" // overtaken
	}
	to.Waiting = what
	return to, true, ""
}

// executed is what type 3 does. Money has moved, so an order that could
// still end otherwise becomes executed even where what moved is not what was
// ordered: were it left, a later type 5 would free its funds.
func (o Order) executed(to Order, c *countersign.WithdrawalDone) (Order, bool, string) {
	switch {
	case o.State == OrderExecuted && o.TxID != c.TxID:
		return o, false, AlarmExecutedTwice
	case o.State == OrderExecuted:
		return o, false, ""
	case o.State == OrderEnded:
		return o, false, AlarmExecutedAfterEnd
	case !o.State.Undecided() && o.State != OrderConfirmed:
		return o, false, AlarmExecutedUnconfirmed
	}
	to.State, to.TxID, to.Waiting, to.Ended = OrderExecuted, c.TxID, 0, to.Updated
	if o.State != OrderConfirmed {
		to.Reason = "executed without confirmation"
		return to, true, AlarmExecutedUnconfirmed
	}
	if member := executedDiffers(o.Details, c); member != "" {
		to.Reason = "executed with another " + member
		return to, true, AlarmExecutedDiffers
	}
	return to, true, ""
}

// executedDiffers names the first member in which c is not what was ordered.
// Members that a lenient service left out say nothing.
func executedDiffers(d countersign.Details, c *countersign.WithdrawalDone) string {
	switch {
	case c.ToAddress != "" && !countersign.SameAddress(c.ToAddress, d.Address):
		return "toAddress"
	case c.ChainName != "" && c.ChainName != d.ChainName:
		return "chainName"
	case c.Symbol != "" && c.Symbol != d.Symbol:
		return "symbol"
	case c.Amount.IsSet() && !c.Amount.Equal(d.Amount):
		return "amount"
	}
	return ""
}
