package store

import (
	"context"
	"fmt"

	"countersign"
)

const depositColumns = `seq, tracking_id, tenant_user_id, tx_id, chain_name, symbol, amount, from_address, to_address,
	risk_from, risk_to, tx_index, business, state, taken, decided, decided_by, reason`

func scanDeposit(r rows) (TakenDeposit, error) {
	var d TakenDeposit
	var amount string
	c := &d.Deposit
	err := r.Scan(&d.Seq, &c.TrackingID, &c.TenantUserID, &c.TxID, &c.ChainName, &c.Symbol, &amount, &c.FromAddress, &c.ToAddress,
		&c.RiskLevelFrom, &c.RiskLevelTo, &c.TxIndex, &c.Business, &d.State, &d.Taken, &d.Decided, &d.DecidedBy, &d.Reason)
	if err == nil {
		c.Amount, err = countersign.ParseAmount(amount)
	}
	if err != nil {
		return d, fmt.Errorf("deposit %d: %w", d.Seq, err)
	}
	return d, nil
}

const (
	listDepositsSQL = `SELECT ` + depositColumns + ` FROM deposits WHERE seq > $1 ORDER BY seq LIMIT $2`

	listDepositsInSQL = `SELECT ` + depositColumns + ` FROM deposits
WHERE state <> 'taken' AND state = $1 AND seq > $2 ORDER BY seq LIMIT $3`

	readDepositSQL = `SELECT ` + depositColumns + ` FROM deposits WHERE seq = $1`

	lockDepositSQL = readDepositSQL + `{lock}`
)

// Deposits gives deposits after seq after, in order and without gaps. They are
// as they stand now.
func (m *MerchantEnd) Deposits(ctx context.Context, after int64, limit int) ([]TakenDeposit, error) {
	return m.listDeposits(ctx, listDepositsSQL, after, limit)
}

// DepositsIn gives those in one of the states of doubt: held, credited or
// rejected.
func (m *MerchantEnd) DepositsIn(ctx context.Context, state DepositState, after int64, limit int) ([]TakenDeposit, error) {
	return m.listDeposits(ctx, listDepositsInSQL, string(state), after, limit)
}

func (m *MerchantEnd) listDeposits(ctx context.Context, text string, args ...any) ([]TakenDeposit, error) {
	var list []TakenDeposit
	err := each(ctx, m.s.db, text, args, func(r rows) error {
		d, err := scanDeposit(r)
		list = append(list, d)
		return err
	})
	return list, err
}

// Deposit gives one deposit.
func (m *MerchantEnd) Deposit(ctx context.Context, seq int64) (TakenDeposit, error) {
	return findDeposit(ctx, m.s.db, readDepositSQL, seq)
}

func findDeposit(ctx context.Context, q querier, text string, seq int64) (d TakenDeposit, err error) {
	found := false
	err = each(ctx, q, text, []any{seq}, func(r rows) error {
		found = true
		d, err = scanDeposit(r)
		return err
	})
	if err == nil && !found {
		err = ErrNotFound
	}
	return d, err
}

const decideDepositSQL = `
UPDATE deposits SET state = $2, decided = $3, decided_by = $4, reason = $5 WHERE seq = $1 AND state = 'held'`

// DecideDeposit ends the doubt about a held deposit, as DepositCredited or
// DepositRejected, and tells of it. The same decision again changes nothing;
// any other is a *ConflictError.
func (m *MerchantEnd) DecideDeposit(ctx context.Context, seq int64, to DepositState, by, reason string, now Millis) (d TakenDeposit, err error) {
	if to != DepositCredited && to != DepositRejected {
		return TakenDeposit{}, fmt.Errorf("state is %w: %q", ErrInvalid, to)
	}
	if checkText("", by) != nil || checkText("", reason) != nil {
		return TakenDeposit{}, &ItemError{Member: "reason", Err: checkText("reason", "\x00")}
	}
	err = m.writeFeeds(ctx, func(ctx context.Context, t *tx) error {
		if d, err = findDeposit(ctx, t, lockDepositSQL, seq); err != nil {
			return err
		}
		switch d.State {
		case to:
			return nil
		case DepositHeld:
		case DepositTaken:
			return &ConflictError{Reason: "the deposit is no possible duplicate: it counts already"}
		default:
			return &ConflictError{Reason: "the deposit is " + string(d.State)}
		}
		if n, err := t.exec(ctx, decideDepositSQL, seq, string(to), int64(now), by, reason); err != nil || n != 1 {
			return fmt.Errorf("deciding: %d rows: %w", n, err)
		}
		d.State, d.Decided, d.DecidedBy, d.Reason = to, now, by, reason
		l := ledger{m: m}
		l.event(Event{Kind: "deposit." + string(to), At: now, Deposit: seq, TenantUserID: d.Deposit.TenantUserID, State: string(to),
			Details: countersign.Details{Address: d.Deposit.ToAddress, ChainName: d.Deposit.ChainName, Symbol: d.Deposit.Symbol,
				Amount: d.Deposit.Amount}, TxID: d.Deposit.TxID, Reason: reason, DecidedBy: by})
		return l.write(ctx, t)
	})
	if err != nil {
		return TakenDeposit{}, err
	}
	return d, nil
}

const eventColumns = `seq, kind, at, call_back_id, deposit, tenant_user_id, state, address, old_address, chain_name, symbol, amount,
	tx_id, reason, decided_by`

func scanEvent(r rows) (Event, error) {
	var e Event
	var amount string
	err := r.Scan(&e.Seq, &e.Kind, &e.At, &e.CallBackID, &e.Deposit, &e.TenantUserID, &e.State, &e.Details.Address, &e.OldAddress,
		&e.Details.ChainName, &e.Details.Symbol, &amount, &e.TxID, &e.Reason, &e.DecidedBy)
	if err == nil && amount != "" {
		e.Details.Amount, err = countersign.ParseAmount(amount)
	}
	if err != nil {
		return e, fmt.Errorf("event %d: %w", e.Seq, err)
	}
	return e, nil
}

const listEventsSQL = `SELECT ` + eventColumns + ` FROM events WHERE seq > $1 ORDER BY seq LIMIT $2`

// Events gives events after seq after, in order and without gaps.
func (m *MerchantEnd) Events(ctx context.Context, after int64, limit int) ([]Event, error) {
	var list []Event
	err := each(ctx, m.s.db, listEventsSQL, []any{after, limit}, func(r rows) error {
		e, err := scanEvent(r)
		list = append(list, e)
		return err
	})
	return list, err
}

const (
	readCursorSQL = `SELECT name, deposits, events, updated FROM cursors WHERE name = $1`

	moveCursorSQL = `
INSERT INTO cursors (name, deposits, events, updated) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET
	deposits = CASE WHEN excluded.deposits > cursors.deposits THEN excluded.deposits ELSE cursors.deposits END,
	events = CASE WHEN excluded.events > cursors.events THEN excluded.events ELSE cursors.events END,
	updated = excluded.updated`

	readFeedsSQL = `SELECT name, last_seq FROM feeds`
)

// Cursor gives how far a reader has acknowledged the feeds: 0 in both where
// there is no such reader yet.
func (m *MerchantEnd) Cursor(ctx context.Context, name string) (Cursor, error) {
	c := Cursor{Name: name}
	if checkText("", name) != nil {
		return c, ErrNotFound
	}
	_, err := one(ctx, m.s.db, readCursorSQL, []any{name}, &c.Name, &c.Deposits, &c.Events, &c.Updated)
	return c, err
}

// MoveCursor acknowledges both feeds up to the given numbers, 0 for neither.
// A cursor never goes back: acknowledging less than before changes nothing.
// More than a feed has is a *ConflictError.
func (m *MerchantEnd) MoveCursor(ctx context.Context, name string, deposits, events int64, now Millis) (c Cursor, err error) {
	if name == "" || checkText("", name) != nil {
		return c, fmt.Errorf("name is %w", ErrInvalid)
	}
	err = m.s.db.write(ctx, func(ctx context.Context, t *tx) error {
		last, err := lastSeqs(ctx, t)
		switch {
		case err != nil:
			return err
		case deposits > last[FeedDeposits.String()]:
			return &ConflictError{Member: "deposits", Reason: "is beyond the end of the feed"}
		case events > last[FeedEvents.String()]:
			return &ConflictError{Member: "events", Reason: "is beyond the end of the feed"}
		}
		if _, err := t.exec(ctx, moveCursorSQL, name, deposits, events, int64(now)); err != nil {
			return err
		}
		_, err = one(ctx, t, readCursorSQL, []any{name}, &c.Name, &c.Deposits, &c.Events, &c.Updated)
		return err
	})
	return c, err
}

// lastSeqs gives the number given last in each feed.
func lastSeqs(ctx context.Context, q querier) (map[string]int64, error) {
	last := map[string]int64{}
	err := each(ctx, q, readFeedsSQL, nil, func(r rows) error {
		var name string
		var seq int64
		err := r.Scan(&name, &seq)
		last[name] = seq
		return err
	})
	return last, err
}

const (
	countOpenSQL     = `SELECT COUNT(*) FROM inbox WHERE settled = 0`
	countHeldSQL     = `SELECT COUNT(*) FROM deposits WHERE state <> 'taken' AND state = 'held'`
	countOrdersSQL   = `SELECT state, COUNT(*) FROM orders GROUP BY state`
	countForwardsSQL = `SELECT COUNT(*), COALESCE(MIN(created), 4611686018427387904) FROM forwards`
)

// Stats counts. Its cost grows with the orders and with what waits, not with
// deposits.
func (m *MerchantEnd) Stats(ctx context.Context) (GatewayStats, error) {
	s := GatewayStats{Orders: map[OrderState]int64{}}
	last, err := lastSeqs(ctx, m.s.db)
	if err != nil {
		return s, err
	}
	s.Inbox, s.Deposits, s.Events = last["inbox"], last[FeedDeposits.String()], last[FeedEvents.String()]
	return s, m.s.db.batch(ctx, []statement{
		{sql: countOpenSQL, row: func(r rows) error { return r.Scan(&s.InboxOpen) }},
		{sql: countHeldSQL, row: func(r rows) error { return r.Scan(&s.DepositsHeld) }},
		{sql: countForwardsSQL, row: func(r rows) error { return r.Scan(&s.Forwards, &s.ForwardOldest) }},
		{sql: countOrdersSQL, row: func(r rows) error {
			var state OrderState
			var n int64
			err := r.Scan(&state, &n)
			s.Orders[state] = n
			return err
		}},
	})
}
