package merchants

import (
	"context"
	"fmt"

	"countersign"
	"countersign/internal/audit"
	"countersign/internal/db"
	"countersign/internal/evidence"
)

// purposes are the secrets of a merchant in the order of their columns.
var purposes = []string{"api_key", "callback_api_key", "request_key", "response_key"}

const columns = `id, name, state, paused_reason, notify_url, withdraw_url, scheme, settings, concurrency,
	rate, confirm_within, release_within, version, created, updated, fingerprint, response_fingerprint,
	request_key_since, response_key_since, api_key_since, callback_api_key_since`

const insertSQL = `
INSERT INTO merchants (` + columns + `,
	secret_version, data_key, api_key, callback_api_key, request_key, response_key)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
	$24, $25, $26, $27)
ON CONFLICT (id) DO NOTHING`

// Insert keeps a new merchant. It reports false where its id is in use.
func Insert(ctx context.Context, t *db.Tx, r Row) (bool, error) {
	n, err := t.Exec(ctx, insertSQL, r.values...)
	return n == 1, err
}

const updateSQL = `
UPDATE merchants SET name = $2, state = $3, paused_reason = $4, notify_url = $5, withdraw_url = $6, scheme = $7,
	settings = $8, concurrency = $9, rate = $10, confirm_within = $11, release_within = $12, version = $13, created = $14, updated = $15,
	fingerprint = $16, response_fingerprint = $17, request_key_since = $18, response_key_since = $19, api_key_since = $20,
	callback_api_key_since = $21, secret_version = $22, data_key = $23, api_key = $24, callback_api_key = $25,
	request_key = $26, response_key = $27
WHERE id = $1 AND version = $13 - 1`

// Update keeps a merchant of the version after the one that is stored. It reports false
// where another is.
func Update(ctx context.Context, t *db.Tx, r Row) (bool, error) {
	n, err := t.Exec(ctx, updateSQL, r.values...)
	return n == 1, err
}

const readSQL = `
SELECT ` + columns + `, secret_version, data_key, api_key, callback_api_key, request_key, response_key
FROM merchants WHERE id = $1`

// Read gives one merchant with its secrets opened, and the version that sealed them.
func Read(ctx context.Context, d *db.DB, id string) (Merchant, int64, error) {
	if !ValidID(id) {
		return Merchant{}, 0, db.ErrNotFound
	}
	var dataKey []byte
	sealed := make([][]byte, len(purposes))
	place := db.Record{Table: "merchants", Row: id}
	m, err := db.Find(ctx, d, readSQL, []any{id}, func(r db.Rows) (m Merchant, err error) {
		err = m.scan(r, &place.Version, &dataKey, &sealed[0], &sealed[1], &sealed[2], &sealed[3])
		return m, err
	})
	if err != nil {
		return Merchant{}, 0, err
	}
	plain, err := d.Unseal(ctx, place, purposes, dataKey, sealed)
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

// ListSQL lists the merchants after an id.
const (
	ListSQL   = `SELECT ` + columns + ` FROM merchants WHERE id > $1 ORDER BY id LIMIT CAST($2 AS BIGINT)`
	listOfSQL = `SELECT ` + columns + ` FROM merchants WHERE id > $1 AND id {in}$2{end} ORDER BY id LIMIT CAST($3 AS BIGINT)`
)

// List lists the merchants after id after, in order of id, without their secrets.
func List(ctx context.Context, q db.Querier, after string, limit int) ([]Merchant, error) {
	return list(ctx, q, ListSQL, after, limit)
}

// ListOf is List of these ids alone.
func ListOf(ctx context.Context, d *db.DB, ids []string, after string, limit int) ([]Merchant, error) {
	return list(ctx, d, listOfSQL, after, d.Dialect().List(ids), limit)
}

func list(ctx context.Context, q db.Querier, text string, args ...any) ([]Merchant, error) {
	return db.List(ctx, q, text, args, func(r db.Rows) (m Merchant, err error) {
		err = m.scan(r)
		return m, err
	})
}

// members is a merchant as records have it: secrets by their fingerprints.
func members(m *Merchant) map[string]any {
	return map[string]any{"name": m.Name, "state": string(m.State), "pausedReason": m.PausedReason, "notifyUrl": m.NotifyURL, "withdrawUrl": m.WithdrawURL,
		"scheme": string(m.Scheme), "settings": m.Settings, "concurrency": m.Concurrency, "ratePerSecond": m.RatePerSecond,
		"confirmWithin": m.ConfirmWithin.String(), "releaseWithin": m.ReleaseWithin.String(), "requestKey": m.Fingerprint, "responseKey": m.ResponseFingerprint,
		"apiKey": audit.Fingerprint(m.APIKey.Reveal()), "callbackApiKey": audit.Fingerprint(m.CallbackAPIKey.Reveal())}
}

// Record adds a record about a merchant that was was; nil: it is new.
func Record(ctx context.Context, t *db.Tx, was, is *Merchant, now db.Millis) error {
	c := evidence.Changed{Version: is.Version, After: members(is)}
	if was != nil {
		c.Before = members(was)
	}
	return evidence.AddMerchant(ctx, t, is.ID, c, now)
}

const oldestKeysSQL = `
SELECT COALESCE(MIN(CASE WHEN request_key_since > 0 THEN request_key_since END), 0),
	COALESCE(MIN(CASE WHEN response_key_since > 0 THEN response_key_since END), 0),
	COALESCE(MIN(CASE WHEN api_key_since > 0 THEN api_key_since END), 0),
	COALESCE(MIN(CASE WHEN callback_api_key_since > 0 THEN callback_api_key_since END), 0)
FROM merchants`

// OldestKeys gives since when the oldest key of each kind is in use. 0: there is none.
func OldestKeys(ctx context.Context, q db.Querier) (s KeySince, err error) {
	_, err = db.One(ctx, q, oldestKeysSQL, nil, &s.Key, &s.ResponseKey, &s.APIKey, &s.CallbackAPIKey)
	return s, err
}
