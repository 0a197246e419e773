package outbox

import (
	"context"
	"errors"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// ErrVersion means that a merchant has another version than the caller has seen.
var ErrVersion = errors.New("the merchant was changed meanwhile")

const createLaneSQL = `
INSERT INTO lanes (merchant, lane, active, concurrency, rate) VALUES ($1, $2, $3, $4, $5)`

// CreateMerchant keeps a new merchant and returns it with Version 1. A known id is a
// *ConflictError. A zero State is MerchantActive.
func (o *Outbox) CreateMerchant(ctx context.Context, m Merchant, now db.Millis) (Merchant, error) {
	if m.State == "" {
		m.State = client.MerchantActive
	}
	m.Version, m.Created, m.Updated = 1, now, now
	m.Aged(nil, now)
	row, err := m.row(o.DB)
	if err != nil {
		return Merchant{}, err
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		n, err := t.Exec(ctx, insertMerchantSQL, row.values...)
		if err != nil {
			return err
		}
		if n == 0 {
			return &db.ConflictError{Member: "id", Reason: "is in use by another merchant"}
		}
		for _, lane := range []countersign.Lane{countersign.LaneNotify, countersign.LaneWithdraw} {
			if _, err := t.Exec(ctx, createLaneSQL, m.ID, int64(lane), active(m.State), m.Concurrency, m.RatePerSecond); err != nil {
				return err
			}
		}
		return recordMerchant(ctx, t, nil, &m, now)
	})
	if err != nil {
		return Merchant{}, err
	}
	o.known.Store(m.ID, true)
	return m, nil
}

// A changed rate starts with the callbacks of one second.
const updateLanesSQL = `
UPDATE lanes SET active = $2, concurrency = $3,
	bucket = CASE WHEN rate = $4 THEN bucket ELSE 0 END, rate_ready = CASE WHEN rate = $4 THEN rate_ready ELSE 0 END,
	rate = $4
WHERE merchant = $1`

// ChangeMerchant calls change with the merchant, secrets opened, and keeps the changed merchant with
// Version one higher. It must have the given version, 0 for any; another one, or another change
// meanwhile, is ErrVersion. ID, Created and Version cannot be changed. also, which may be nil, runs in
// the same transaction, after the change; where it fails nothing is changed. When it has returned, no
// answer to a question that was asked under an earlier version decides on any node.
func (o *Outbox) ChangeMerchant(ctx context.Context, id string, version int64, now db.Millis, change func(*Merchant) error,
	also func(context.Context, *db.Tx) error) (Merchant, error) {
	// Outside the transaction, because change and the key wrapper may take long.
	was, err := o.Merchant(ctx, id)
	if err != nil {
		return Merchant{}, err
	}
	if version != 0 && was.Version != version {
		return Merchant{}, ErrVersion
	}
	m := was
	if err := change(&m); err != nil {
		return Merchant{}, err
	}
	m.ID, m.Created, m.Version, m.Updated = was.ID, was.Created, was.Version+1, now
	m.Aged(&was, now)
	row, err := m.row(o.DB)
	if err != nil {
		return Merchant{}, err
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := o.changeStops(ctx, t); err != nil {
			return err
		}
		updated, err := updateMerchant(ctx, t, row, was.Version)
		if err != nil {
			return err
		}
		if !updated {
			return ErrVersion
		}
		if err := recordMerchant(ctx, t, &was, &m, now); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, updateLanesSQL, m.ID, active(m.State), m.Concurrency, m.RatePerSecond); err != nil {
			return err
		}
		t.Wake(TopicOf(countersign.LaneNotify))
		t.Wake(TopicOf(countersign.LaneWithdraw))
		if also == nil {
			return nil
		}
		return also(ctx, t)
	})
	if err != nil {
		return Merchant{}, err
	}
	return m, nil
}

// active is the stored form of a state in lanes.
func active(s client.MerchantState) int64 { return flag(s == client.MerchantActive) }
