package outbox

import (
	"context"
	"fmt"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const createLanesSQL = `
INSERT INTO lanes (merchant, lane, active, version, concurrency, rate) VALUES ($1, 0, $2, $3, $4, $5), ($1, 1, $2, $3, $4, $5)`

// CreateMerchant stores a new merchant and returns it with Version 1. It returns a *ConflictError if the id is in
// use. An empty State means MerchantActive.
func (o *Outbox) CreateMerchant(ctx context.Context, m Merchant, now db.Millis) (Merchant, error) {
	if m.State == "" {
		m.State = client.MerchantActive
	}
	m.Version, m.Created, m.Updated = 1, now, now
	m.dateKeys(nil, now)
	row, err := m.row(o.DB)
	if err != nil {
		return Merchant{}, err
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		n, err := t.Exec(ctx, insertMerchantSQL, row...)
		if err != nil {
			return err
		}
		if n == 0 {
			return &db.ConflictError{Member: "id", Reason: "is in use by another merchant"}
		}
		if _, err := t.Exec(ctx, createLanesSQL, m.ID, active(m.State), m.Version, m.Concurrency,
			m.RatePerSecond); err != nil {
			return err
		}
		return recordMerchant(ctx, t, nil, &m, now)
	})
	if err != nil {
		return Merchant{}, err
	}
	o.known.Store(m.ID, true)
	return m, nil
}

// A changed rate starts with a bucket of one second's callbacks.
const updateLanesSQL = `
UPDATE lanes SET active = $2, version = $3, concurrency = $4,
	bucket = CASE WHEN rate = $5 THEN bucket ELSE 0 END, rate_ready = CASE WHEN rate = $5 THEN rate_ready ELSE 0 END,
	rate = $5
WHERE merchant = $1`

// LockMerchant returns a merchant, its secrets opened, and locks it until t ends. Nobody decides or releases on any node
// meanwhile.
func (o *Outbox) LockMerchant(ctx context.Context, t *db.Tx, id string) (Merchant, error) {
	if err := o.changeStops(ctx, t); err != nil {
		return Merchant{}, err
	}
	return o.readMerchant(ctx, t, readMerchantSQL+`{lock}`, id)
}

// StoreMerchant stores m, which was is as LockMerchant returned it in t, with the next Version. ID and Created stay.
// Once t is committed, no answer to a question that was asked under an earlier version decides on any node.
func (o *Outbox) StoreMerchant(ctx context.Context, t *db.Tx, was, m *Merchant, now db.Millis) error {
	m.ID, m.Created, m.Version, m.Updated = was.ID, was.Created, was.Version+1, now
	m.dateKeys(was, now)
	row, err := m.row(o.DB)
	if err != nil {
		return err
	}
	if _, err := t.Exec(ctx, updateMerchantSQL, row...); err != nil {
		return err
	}
	if _, err := t.Exec(ctx, updateLanesSQL, m.ID, active(m.State), m.Version, m.Concurrency,
		m.RatePerSecond); err != nil {
		return err
	}
	wakeSenders(t)
	return recordMerchant(ctx, t, was, m, now)
}

// ChangeMerchant stores what change makes of a merchant, as LockMerchant and StoreMerchant do.
func (o *Outbox) ChangeMerchant(ctx context.Context, t *db.Tx, id string, now db.Millis,
	change func(*Merchant) error) (Merchant, error) {
	was, err := o.LockMerchant(ctx, t, id)
	if err != nil {
		return Merchant{}, err
	}
	m := was
	if err := change(&m); err != nil {
		return Merchant{}, err
	}
	return m, o.StoreMerchant(ctx, t, &was, &m, now)
}

const merchantVersionSQL = `SELECT version FROM merchants WHERE id = $1`

// MerchantVersion returns the present version of a merchant.
func MerchantVersion(ctx context.Context, q db.Querier, id string) (version int64, err error) {
	found, err := db.One(ctx, q, merchantVersionSQL, []any{id}, &version)
	if err == nil && !found {
		err = db.ErrNotFound
	}
	return version, err
}

// active returns a state as lanes store it.
func active(s client.MerchantState) int64 { return flag(s == client.MerchantActive) }

const (
	setStateSQL = `
UPDATE merchants SET state = $2, paused_reason = $3, version = version + 1, updated = $4 WHERE id = $1 AND `

	setOtherStateSQL  = setStateSQL + `(state <> $2 OR paused_reason <> $3) RETURNING version`
	setActiveStateSQL = setStateSQL + `state = 'active' RETURNING version`
)

// What the breakers know is of before.
const setLanesActiveSQL = `UPDATE lanes SET active = $2, version = $3, failures = 0, failing = 0, open_until = 0 WHERE merchant = $1`

const forgetFailuresSQL = `DELETE FROM open_failures WHERE merchant = $1`

// SetMerchantState pauses or resumes a merchant. Once a pause has returned, nothing of the merchant is decided or
// released on any node. Resuming also removes its opening failures, closes its breakers and raises
// AlarmControlChanged. Repeating it changes nothing.
func (o *Outbox) SetMerchantState(ctx context.Context, id string, state client.MerchantState, reason string,
	now db.Millis) (Merchant, error) {
	if state != client.MerchantActive && state != client.MerchantPaused {
		return Merchant{}, fmt.Errorf("merchant state is %w", db.ErrInvalid)
	}
	if err := db.CheckText("reason", reason); err != nil {
		return Merchant{}, err
	}
	if state == client.MerchantActive {
		reason = ""
	}
	err := o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := o.changeStops(ctx, t); err != nil {
			return err
		}
		_, err := o.setState(ctx, t, setOtherStateSQL, id, state, reason, now)
		return err
	})
	if err != nil {
		return Merchant{}, err
	}
	return o.Merchant(ctx, id)
}

// setState sets the state by the statement text, and reports whether anything changed. It locks the merchant's row
// before its lanes.
func (o *Outbox) setState(ctx context.Context, t *db.Tx, text, id string, state client.MerchantState, reason string,
	now db.Millis) (bool, error) {
	var version int64
	changed, err := db.One(ctx, t, text, []any{id, string(state), reason, int64(now)}, &version)
	if err != nil || !changed {
		return false, err
	}
	kind := journal.MerchantPaused
	if state == client.MerchantActive {
		kind = journal.MerchantResumed
	}
	if err := journal.AddAbout(ctx, t, kind, id, now, journal.Changed{Version: version,
		After: map[string]string{"state": string(state), "pausedReason": reason}}); err != nil {
		return false, err
	}
	rest := []db.Statement{{SQL: setLanesActiveSQL, Args: []any{id, active(state), version}}}
	if state == client.MerchantActive {
		rest = append(rest, db.Statement{SQL: forgetFailuresSQL, Args: []any{id}})
	}
	if err := t.Batch(ctx, rest); err != nil || state == client.MerchantPaused {
		return true, err
	}
	wakeSenders(t)
	return true, resumed(ctx, t, id, fmt.Sprintf("the pause (version %d)", version), client.AlarmOpenFailures, now)
}

// wakeSenders wakes the senders of both lanes on all nodes.
func wakeSenders(t *db.Tx) {
	t.Wake(TopicOf(countersign.LaneNotify))
	t.Wake(TopicOf(countersign.LaneWithdraw))
}

// pause pauses an active merchant because of opening failures, and reports whether the merchant was active. It is part
// of a settlement and cannot wait for others, so a decision that is being made at the same time may still be kept.
func (o *Outbox) pause(ctx context.Context, t *db.Tx, id string, now db.Millis) (bool, error) {
	return o.setState(ctx, t, setActiveStateSQL, id, client.MerchantPaused, "open failures", now)
}
