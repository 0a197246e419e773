package book

import (
	"context"
	"fmt"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const eventColumns = `seq, kind, at, call_back_id, deposit, tenant_user_id, state, address, old_address, chain_name, symbol, amount,
	tx_id, reason, decided_by`

func scanEvent(r db.Rows) (e client.EventEntry, err error) {
	err = r.Scan(&e.Seq, &e.Kind, &e.At, &e.CallBackID, &e.Deposit, &e.TenantUserID, &e.State, &e.Address, &e.OldAddress,
		&e.ChainName, &e.Symbol, db.Parsed(&e.Amount, countersign.ParseAmount), &e.TxID, &e.Reason, &e.DecidedBy)
	if err != nil {
		err = fmt.Errorf("event %d: %w", e.Seq, err)
	}
	return e, err
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
