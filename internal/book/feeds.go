package book

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// taken returns the entry of a deposit that the service sent.
func taken(c *countersign.Deposit, at db.Millis) client.DepositEntry {
	d := client.DepositEntry{TrackingID: c.TrackingID, TenantUserID: c.TenantUserID, TxID: c.TxID, ChainName: c.ChainName,
		Symbol: c.Symbol, Amount: c.Amount, FromAddress: c.FromAddress, ToAddress: c.ToAddress,
		RiskLevelFrom: knownRisk(c.RiskLevelFrom),
		RiskLevelTo:   knownRisk(c.RiskLevelTo), TxIndex: c.TxIndex, Business: c.Business,
		State: client.DepositTaken, Taken: at}
	for _, m := range slices.Concat(c.AsSent, c.Extra) {
		if d.AsSent == nil {
			d.AsSent = map[string]json.RawMessage{}
		}
		d.AsSent[m.Name] = json.RawMessage(m.Value)
	}
	return d
}

// knownRisk returns the level of a risk. It returns nil if the service did not send it.
func knownRisk(level int64) *int64 {
	if level == countersign.RiskUnknown {
		return nil
	}
	return &level
}

// storedRisk inverts knownRisk.
func storedRisk(level *int64) int64 {
	if level == nil {
		return countersign.RiskUnknown
	}
	return *level
}

// storedAsSent returns the members of d.AsSent as a JSON object. It returns "" if there are none.
func storedAsSent(d *client.DepositEntry) (string, error) {
	if len(d.AsSent) == 0 {
		return "", nil
	}
	b, err := journal.Marshal(d.AsSent)
	return string(b), err
}

const depositColumns = `seq, tracking_id, tenant_user_id, tx_id, chain_name, symbol, amount, from_address, to_address,
	risk_from, risk_to, tx_index, business, state, suspect, taken, decided, decided_by, reason, as_sent`

func scanDeposit(r db.Rows) (client.DepositEntry, error) {
	var d client.DepositEntry
	var amount, asSent string
	var riskFrom, riskTo, suspect int64
	err := r.Scan(&d.Seq, &d.TrackingID, &d.TenantUserID, &d.TxID, &d.ChainName, &d.Symbol, &amount, &d.FromAddress,
		&d.ToAddress, &riskFrom, &riskTo, &d.TxIndex, &d.Business, &d.State, &suspect, &d.Taken, &d.Decided, &d.DecidedBy,
		&d.Reason, &asSent)
	d.RiskLevelFrom, d.RiskLevelTo, d.Suspect = knownRisk(riskFrom), knownRisk(riskTo), suspect != 0
	d.PossibleDuplicate = d.State != client.DepositTaken && !d.Suspect
	if err == nil {
		d.Amount, err = countersign.ParseAmount(amount)
	}
	if err == nil && asSent != "" {
		err = json.Unmarshal([]byte(asSent), &d.AsSent)
	}
	if err != nil {
		return d, fmt.Errorf("deposit %d: %w", d.Seq, err)
	}
	return d, nil
}

const (
	listDepositsSQL = `SELECT ` + depositColumns + ` FROM deposits WHERE seq > $1 ORDER BY seq LIMIT $2`

	readDepositSQL = `SELECT ` + depositColumns + ` FROM deposits WHERE seq = $1`

	lockDepositSQL = readDepositSQL + `{lock}`
)

// Deposits returns the deposits after number after, in order and in their present state. Only purged deposits are
// missing; see CheckKept.
func (b *Book) Deposits(ctx context.Context, after int64, limit int) ([]client.DepositEntry, error) {
	return db.List(ctx, b, listDepositsSQL, []any{after, limit}, scanDeposit)
}

// Deposit returns one deposit. It returns db.ErrPurged if the deposit was purged.
func (b *Book) Deposit(ctx context.Context, seq int64) (client.DepositEntry, error) {
	return findDeposit(ctx, b, readDepositSQL, seq)
}

func findDeposit(ctx context.Context, q db.Querier, text string, seq int64) (client.DepositEntry, error) {
	d, err := db.Find(ctx, q, text, []any{seq}, scanDeposit)
	if err == db.ErrNotFound {
		err = notKept(ctx, q, seq)
	}
	return d, err
}

const decideDepositSQL = `
UPDATE deposits SET state = $2, decided = $3, decided_by = $4, reason = $5 WHERE seq = $1 AND state = 'held'`

// DecideDeposit moves a held deposit to DepositCredited or DepositRejected and appends the event. Repeating the
// decision changes nothing. It returns a *ConflictError if another decision was made.
func (b *Book) DecideDeposit(ctx context.Context, seq int64, to client.DepositState, by, reason string,
	now db.Millis) (d client.DepositEntry, err error) {
	if to != client.DepositCredited && to != client.DepositRejected {
		return client.DepositEntry{}, fmt.Errorf("state is %w: %q", db.ErrInvalid, to)
	}
	if err := db.CheckTexts("reason", reason, "by", by); err != nil {
		return client.DepositEntry{}, err
	}
	err = b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := checkReconciled(ctx, t); err != nil {
			return err
		}
		if d, err = findDeposit(ctx, t, lockDepositSQL, seq); err != nil || d.State == to {
			return err
		}
		switch d.State {
		case client.DepositHeld:
		case client.DepositTaken:
			return &db.ConflictError{Reason: "the deposit is not held: it counts already"}
		default:
			return &db.ConflictError{Reason: "the deposit is " + string(d.State)}
		}
		d.State, d.Decided, d.DecidedBy, d.Reason = to, now, by, reason
		l := ledger{}
		if err := l.decide(ctx, t, []client.DepositEntry{d}); err != nil {
			return err
		}
		return l.write(ctx, t)
	})
	return d, err
}

// decide stores decisions on deposits that were held and are locked.
func (l *ledger) decide(ctx context.Context, t *db.Tx, list []client.DepositEntry) error {
	statements := make([]db.Statement, len(list))
	changed := make([]int64, len(list))
	for i, d := range list {
		statements[i] = db.Statement{SQL: decideDepositSQL, Args: []any{d.Seq, string(d.State), int64(d.Decided), d.DecidedBy,
			d.Reason}, N: &changed[i]}
		l.event(decidedEvent(d.Seq, d))
	}
	if err := t.Batch(ctx, statements); err != nil {
		return err
	}
	if i := slices.IndexFunc(changed, func(n int64) bool { return n != 1 }); i >= 0 {
		return fmt.Errorf("deciding deposit %d: %d rows", list[i].Seq, changed[i])
	}
	return nil
}

// decidedEvent returns the event of the decision on d.
func decidedEvent(seq int64, d client.DepositEntry) client.EventEntry {
	return client.EventEntry{Kind: client.EventKind("deposit." + d.State), At: d.Decided, Deposit: seq,
		TenantUserID: d.TenantUserID, State: string(d.State), Address: d.ToAddress, ChainName: d.ChainName, Symbol: d.Symbol,
		Amount: d.Amount, TxID: d.TxID, Reason: d.Reason, DecidedBy: d.DecidedBy}
}

const eventColumns = `seq, kind, at, call_back_id, deposit, tenant_user_id, state, address, old_address, chain_name, symbol, amount,
	tx_id, reason, decided_by`

func scanEvent(r db.Rows) (client.EventEntry, error) {
	var e client.EventEntry
	var amount string
	err := r.Scan(&e.Seq, &e.Kind, &e.At, &e.CallBackID, &e.Deposit, &e.TenantUserID, &e.State, &e.Address, &e.OldAddress,
		&e.ChainName, &e.Symbol, &amount, &e.TxID, &e.Reason, &e.DecidedBy)
	if err == nil && amount != "" {
		e.Amount, err = countersign.ParseAmount(amount)
	}
	if err != nil {
		return e, fmt.Errorf("event %d: %w", e.Seq, err)
	}
	return e, nil
}

const (
	listEventsSQL = `SELECT ` + eventColumns + ` FROM events WHERE seq > $1 ORDER BY seq LIMIT $2`

	readEventSQL = `SELECT ` + eventColumns + ` FROM events WHERE seq = $1`
)

// Events returns the events after number after, in order and without gaps.
func (b *Book) Events(ctx context.Context, after int64, limit int) ([]client.EventEntry, error) {
	return db.List(ctx, b, listEventsSQL, []any{after, limit}, scanEvent)
}

// Event returns one event.
func (b *Book) Event(ctx context.Context, seq int64) (client.EventEntry, error) {
	return db.Find(ctx, b, readEventSQL, []any{seq}, scanEvent)
}

const (
	readCursorSQL = `SELECT name, deposits, events, updated FROM cursors WHERE name = $1`

	moveCursorSQL = `
INSERT INTO cursors (name, deposits, events, updated) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET
	deposits = CASE WHEN excluded.deposits > cursors.deposits THEN excluded.deposits ELSE cursors.deposits END,
	events = CASE WHEN excluded.events > cursors.events THEN excluded.events ELSE cursors.events END,
	updated = excluded.updated
RETURNING name, deposits, events, updated`
)

// Cursor returns the last entries that a reader has acknowledged. For an unknown reader both numbers are 0.
func (b *Book) Cursor(ctx context.Context, name string) (client.Cursor, error) {
	c := client.Cursor{Name: name}
	if db.CheckText("", name) != nil {
		return c, db.ErrNotFound
	}
	_, err := db.One(ctx, b, readCursorSQL, []any{name}, &c.Name, &c.Deposits, &c.Events, &c.Updated)
	return c, err
}

// MoveCursor acknowledges both feeds up to the given numbers; 0 leaves a feed as it is. A cursor never goes back, so
// a lower number changes nothing. It returns a *ConflictError for a number beyond the end of a feed.
func (b *Book) MoveCursor(ctx context.Context, name string, deposits, events int64,
	now db.Millis) (c client.Cursor, err error) {
	if name == "" || db.CheckText("", name) != nil {
		return c, fmt.Errorf("name is %w", db.ErrInvalid)
	}
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		last, err := db.LastSeqs(ctx, t)
		switch {
		case err != nil:
			return err
		case deposits > last[feedDeposits]:
			return &db.ConflictError{Member: "deposits", Reason: "is beyond the end of the feed"}
		case events > last[feedEvents]:
			return &db.ConflictError{Member: "events", Reason: "is beyond the end of the feed"}
		}
		if _, err = db.One(ctx, t, moveCursorSQL, []any{name, deposits, events, int64(now)}, &c.Name, &c.Deposits, &c.Events,
			&c.Updated); err != nil {
			return err
		}
		return journal.Add(ctx, t, journal.Record{Kind: journal.CursorMoved, At: now, Data: c})
	})
	return c, err
}

// waitingSQL counts what waits for an answer or a person. These rows are few, and each count has its own index.
const waitingSQL = `
SELECT (SELECT COUNT(*) FROM inbox WHERE settled = 0), (SELECT COUNT(*) FROM deposits WHERE state <> 'taken' AND state = 'held'),
	(SELECT COUNT(*) FROM addresses WHERE state = 'held')`

// Stats returns the numbers of rows. Its cost grows only with the rows that wait for an answer or a person.
func (b *Book) Stats(ctx context.Context) (client.GatewayStats, error) {
	s := client.GatewayStats{Orders: map[client.OrderState]int64{}}
	last, err := db.LastSeqs(ctx, b)
	if err != nil {
		return s, err
	}
	epochs, err := db.ReadEpochs(ctx, b)
	if err != nil {
		return s, err
	}
	assigned := func(feed client.FeedName) int64 { return epochs.Between(string(feed), 0, last[string(feed)]) }
	s.Callbacks, s.Deposits, s.Events = last[inboxFeed], assigned(client.FeedOfDeposits), assigned(client.FeedOfEvents)
	f, err := b.Forwarding(ctx)
	if err != nil {
		return s, err
	}
	s.Forwards, s.ForwardOldest = f.Waiting, f.Oldest
	counts, err := db.Counts(ctx, b)
	if err != nil {
		return s, err
	}
	for name, n := range counts {
		if state, ok := strings.CutPrefix(name, countOrders); ok && n != 0 {
			s.Orders[client.OrderState(state)] = n
		}
	}
	_, err = db.One(ctx, b, waitingSQL, nil, &s.CallbacksOpen, &s.DepositsHeld, &s.AddressesHeld)
	return s, err
}
