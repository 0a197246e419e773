package outbox

import (
	"context"
	"errors"
	"fmt"

	"countersign"
	"countersign/internal/db"
)

// merchantPurposes are the secrets of a merchant in the order of their columns.
var merchantPurposes = []string{"api_key", "callback_api_key", "request_key", "response_key"}

const merchantColumns = `id, name, state, paused_reason, notify_url, withdraw_url, scheme, settings, concurrency,
	rate, confirm_within, release_within, version, created, updated, fingerprint, response_fingerprint`

const createMerchantSQL = `
INSERT INTO merchants (` + merchantColumns + `,
	secret_version, data_key, api_key, callback_api_key, request_key, response_key)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
ON CONFLICT (id) DO NOTHING`

const createLaneSQL = `
INSERT INTO lanes (merchant, lane, active, concurrency, rate, version) VALUES ($1, $2, $3, $4, $5, $6)`

// CreateMerchant keeps a new merchant and returns it with Version 1. A known id is a
// *ConflictError. A zero State is MerchantActive.
func (o *Outbox) CreateMerchant(ctx context.Context, m Merchant, now db.Millis) (Merchant, error) {
	if m.State == "" {
		m.State = MerchantActive
	}
	m.Version, m.Created, m.Updated = 1, now, now
	args, err := o.args(ctx, &m, 1)
	if err != nil {
		return Merchant{}, err
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		n, err := t.Exec(ctx, createMerchantSQL, args...)
		if err != nil {
			return err
		}
		if n == 0 {
			return &db.ConflictError{Member: "id", Reason: "is in use by another merchant"}
		}
		for _, lane := range []countersign.Lane{countersign.LaneNotify, countersign.LaneWithdraw} {
			if _, err := t.Exec(ctx, createLaneSQL, m.ID, int64(lane), m.active(), m.Concurrency, m.RatePerSecond, m.Version); err != nil {
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

const updateMerchantSQL = `
UPDATE merchants SET name = $2, state = $3, paused_reason = $4, notify_url = $5, withdraw_url = $6, scheme = $7,
	settings = $8, concurrency = $9, rate = $10, confirm_within = $11, release_within = $12, version = $13, created = $14, updated = $15,
	fingerprint = $16, response_fingerprint = $17, secret_version = $18, data_key = $19, api_key = $20,
	callback_api_key = $21, request_key = $22, response_key = $23
WHERE id = $1 AND version = $13 - 1`

// A changed rate starts with the callbacks of one second.
const updateLanesSQL = `
UPDATE lanes SET active = $2, concurrency = $3, version = $5,
	bucket = CASE WHEN rate = $4 THEN bucket ELSE 0 END, rate_ready = CASE WHEN rate = $4 THEN rate_ready ELSE 0 END,
	rate = $4
WHERE merchant = $1`

// ErrVersion: the merchant has another version than the caller has seen.
var ErrVersion = errors.New("the merchant was changed meanwhile")

// UpdateMerchant calls change with the merchant, secrets opened, and keeps the changed
// merchant with Version one higher. If another update was faster, it calls change
// again. ID, Created and Version cannot be changed. When it has returned, no answer to
// a question that was asked under an earlier version decides on any node.
func (o *Outbox) UpdateMerchant(ctx context.Context, id string, now db.Millis, change func(*Merchant) error) (Merchant, error) {
	for {
		m, err := o.changeMerchant(ctx, id, 0, now, change, nil)
		if !errors.Is(err, ErrVersion) {
			return m, err
		}
	}
}

// ChangeMerchant is UpdateMerchant of the merchant at one version; any other is
// ErrVersion. also runs in the same transaction, after the change; where it fails nothing
// is changed.
func (o *Outbox) ChangeMerchant(ctx context.Context, id string, version int64, now db.Millis, change func(*Merchant) error,
	also func(context.Context, *db.Tx) error) (Merchant, error) {
	return o.changeMerchant(ctx, id, version, now, change, also)
}

// changeMerchant tries once. Version 0 stands for any.
func (o *Outbox) changeMerchant(ctx context.Context, id string, version int64, now db.Millis, change func(*Merchant) error,
	also func(context.Context, *db.Tx) error) (Merchant, error) {
	// Outside the transaction, because change and the key wrapper may take long.
	was, secretVersion, err := o.merchant(ctx, id)
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
	args, err := o.args(ctx, &m, secretVersion+1)
	if err != nil {
		return Merchant{}, err
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := o.changeStops(ctx, t); err != nil {
			return err
		}
		n, err := t.Exec(ctx, updateMerchantSQL, args...)
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrVersion
		}
		if err := recordMerchant(ctx, t, &was, &m, now); err != nil {
			return err
		}
		if err := o.updateLanes(ctx, t, &m); err != nil || also == nil {
			return err
		}
		return also(ctx, t)
	})
	if err != nil {
		return Merchant{}, err
	}
	return m, nil
}

func (o *Outbox) updateLanes(ctx context.Context, t *db.Tx, m *Merchant) error {
	_, err := t.Exec(ctx, updateLanesSQL, m.ID, m.active(), m.Concurrency, m.RatePerSecond, m.Version)
	t.Wake(TopicOf(countersign.LaneNotify))
	t.Wake(TopicOf(countersign.LaneWithdraw))
	return err
}

const readMerchantSQL = `
SELECT ` + merchantColumns + `, secret_version, data_key, api_key, callback_api_key, request_key, response_key
FROM merchants WHERE id = $1`

// Merchant gives one merchant with its secrets opened.
func (o *Outbox) Merchant(ctx context.Context, id string) (Merchant, error) {
	m, _, err := o.merchant(ctx, id)
	return m, err
}

func (o *Outbox) merchant(ctx context.Context, id string) (Merchant, int64, error) {
	if !validMerchantID(id) {
		return Merchant{}, 0, db.ErrNotFound
	}
	var dataKey []byte
	sealed := make([][]byte, len(merchantPurposes))
	place := db.Record{Table: "merchants", Row: id}
	m, err := db.Find(ctx, o, readMerchantSQL, []any{id}, func(r db.Rows) (m Merchant, err error) {
		err = m.scan(r, &place.Version, &dataKey, &sealed[0], &sealed[1], &sealed[2], &sealed[3])
		return m, err
	})
	if err != nil {
		return Merchant{}, 0, err
	}
	plain, err := o.Unseal(ctx, place, merchantPurposes, dataKey, sealed)
	if err != nil {
		return Merchant{}, 0, err
	}
	m.APIKey, m.CallbackAPIKey = countersign.APIKey(plain[0]), countersign.APIKey(plain[1])
	if m.Key, err = readKey(plain[2]); err != nil {
		return Merchant{}, 0, fmt.Errorf("request key of merchant %s: %w", id, err)
	}
	if m.ResponseKey, err = readKey(plain[3]); err != nil {
		return Merchant{}, 0, fmt.Errorf("response key of merchant %s: %w", id, err)
	}
	return m, place.Version, nil
}

const (
	listMerchantsSQL = `SELECT ` + merchantColumns + ` FROM merchants WHERE id > $1 ORDER BY id LIMIT CAST($2 AS BIGINT)`
	merchantsOfSQL   = `SELECT ` + merchantColumns + ` FROM merchants WHERE id > $1 AND id {in}$2{end} ORDER BY id LIMIT CAST($3 AS BIGINT)`
)

// Merchants lists the merchants after id after, in order of id, without their secrets.
func (o *Outbox) Merchants(ctx context.Context, after string, limit int) ([]Merchant, error) {
	return o.merchants(ctx, listMerchantsSQL, after, limit)
}

// MerchantsOf is Merchants of these ids alone.
func (o *Outbox) MerchantsOf(ctx context.Context, ids []string, after string, limit int) ([]Merchant, error) {
	return o.merchants(ctx, merchantsOfSQL, after, o.Dialect().List(ids), limit)
}

func (o *Outbox) merchants(ctx context.Context, text string, args ...any) ([]Merchant, error) {
	return db.List(ctx, o, text, args, func(r db.Rows) (m Merchant, err error) {
		err = m.scan(r)
		return m, err
	})
}
