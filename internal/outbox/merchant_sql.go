package outbox

import (
	"context"
	"maps"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// secretPurposes are the secrets of a merchant in the order of their columns.
var secretPurposes = []string{"api_key", "callback_api_key", "request_key", "response_key"}

const merchantColumns = `id, state, paused_reason, scheme, settings, version, created, updated, fingerprint, response_fingerprint,
	request_key_since, response_key_since, api_key_since, callback_api_key_since`

// merchantSelect reads merchants with their rotations; sealedMerchantSelect their secrets as well.
const (
	merchantSelected = `SELECT m.id, m.version, m.state, m.paused_reason, m.scheme, m.settings, m.created, m.updated, m.fingerprint, m.response_fingerprint,
	m.request_key_since, m.response_key_since, m.api_key_since, m.callback_api_key_since,
	COALESCE(r.staged, 0), COALESCE(r.activated, 0), COALESCE(r.overlap, 0), COALESCE(r.fingerprint, ''), COALESCE(r.response_fingerprint, ''),
	COALESCE(r.request_key_since, 0), COALESCE(r.response_key_since, 0), COALESCE(r.api_key_since, 0), COALESCE(r.callback_api_key_since, 0),
	m.secret_version, COALESCE(r.secret_version, 0)`

	fromMerchants = ` FROM merchants m LEFT JOIN rotations r ON r.merchant = m.id `

	merchantSelect = merchantSelected + fromMerchants

	sealedMerchantSelect = merchantSelected + `, m.data_key, m.api_key, m.callback_api_key, m.request_key, m.response_key,
	r.data_key, r.api_key, r.callback_api_key, r.request_key, r.response_key` + fromMerchants
)

// rotations is the table of second sets of keys, with its data keys.
var rotations = db.SealedTable{Name: "rotations", Key: "merchant", DataKey: "data_key"}

const insertMerchantSQL = `
INSERT INTO merchants (` + merchantColumns + `,
	secret_version, data_key, api_key, callback_api_key, request_key, response_key)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
ON CONFLICT (id) DO NOTHING`

const updateMerchantSQL = `
UPDATE merchants SET state = $2, paused_reason = $3, scheme = $4, settings = $5, version = $6, created = $7, updated = $8,
	fingerprint = $9, response_fingerprint = $10, request_key_since = $11, response_key_since = $12, api_key_since = $13,
	callback_api_key_since = $14, secret_version = $15, data_key = $16, api_key = $17, callback_api_key = $18,
	request_key = $19, response_key = $20
WHERE id = $1 AND version = $21`

const (
	deleteRotationSQL = `DELETE FROM rotations WHERE merchant = $1`

	insertRotationSQL = `
INSERT INTO rotations (merchant, staged, activated, overlap, fingerprint, response_fingerprint,
	request_key_since, response_key_since, api_key_since, callback_api_key_since,
	secret_version, data_key, api_key, callback_api_key, request_key, response_key)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`
)

// updateMerchant keeps a merchant in place of version was, with its rotation. It reports false
// where another is stored.
func updateMerchant(ctx context.Context, t *db.Tx, r merchantRow, was int64) (bool, error) {
	if n, err := t.Exec(ctx, updateMerchantSQL, append(r.values, was)...); err != nil || n != 1 {
		return false, err
	}
	_, err := t.Exec(ctx, deleteRotationSQL, r.id)
	if err == nil && r.rotation != nil {
		_, err = t.Exec(ctx, insertRotationSQL, r.rotation...)
	}
	return true, err
}

const (
	readMerchantSQL  = sealedMerchantSelect + `WHERE m.id = $1`
	merchantsByIDSQL = merchantSelect + `WHERE m.id {in}$1{end}`
)

// Merchant returns one merchant with its secrets opened.
func (o *Outbox) Merchant(ctx context.Context, id string) (Merchant, error) {
	if !ValidMerchantID(id) {
		return Merchant{}, db.ErrNotFound
	}
	k, err := db.Find(ctx, o, readMerchantSQL, []any{id}, func(r db.Rows) (k keptMerchant, err error) {
		err = k.scan(true, r)
		return k, err
	})
	if err != nil {
		return Merchant{}, err
	}
	m, err := k.whole()
	if err != nil {
		return Merchant{}, err
	}
	if m.MerchantKeys, err = k.own.open(o.DB, "merchants", id); err == nil && m.Rotation != nil {
		m.Rotation.Other, err = k.other.open(o.DB, rotations.Name, id)
	}
	if err != nil {
		return Merchant{}, err
	}
	return m, nil
}

const (
	listMerchantsSQL   = merchantSelect + `WHERE m.id > $1 ORDER BY m.id LIMIT CAST($2 AS BIGINT)`
	listMerchantsOfSQL = merchantSelect + `WHERE m.id > $1 AND m.id {in}$2{end} ORDER BY m.id LIMIT CAST($3 AS BIGINT)`
)

// Merchants lists the merchants after id after, in order of id, without their secrets: those of ids
// alone, nil for all.
func (o *Outbox) Merchants(ctx context.Context, ids []string, after string, limit int) ([]Merchant, error) {
	text, args := listMerchantsSQL, []any{after, limit}
	if ids != nil {
		text, args = listMerchantsOfSQL, []any{after, o.Dialect().List(ids), limit}
	}
	return db.List(ctx, o, text, args, func(r db.Rows) (Merchant, error) {
		var k keptMerchant
		if err := k.scan(false, r); err != nil {
			return Merchant{}, err
		}
		return k.whole()
	})
}

// Texts are the settings and keys of a merchant for people and records: secrets and keys by
// their fingerprints, and only what there is.
func (m *Merchant) Texts() map[string]string {
	all := map[string]string{"scheme": string(m.Scheme), "requestKey": m.Fingerprint, "responseKey": m.ResponseFingerprint,
		"apiKey": journal.Fingerprint(m.APIKey.Reveal()), "callbackApiKey": journal.Fingerprint(m.CallbackAPIKey.Reveal())}
	for _, s := range client.Settings() {
		if text := s.Text(m); text != "" {
			all[s.Name] = text
		}
	}
	maps.Copy(all, m.RotationTexts())
	return all
}

// merchantMembers is a merchant as records have it.
func merchantMembers(m *Merchant) map[string]any {
	all := map[string]any{"state": string(m.State), "pausedReason": m.PausedReason}
	for name, text := range m.Texts() {
		all[name] = text
	}
	return all
}

// recordMerchant adds a record about a change of a merchant, from was; nil: it is new.
func recordMerchant(ctx context.Context, t *db.Tx, was, is *Merchant, now db.Millis) error {
	c := journal.Changed{Version: is.Version, After: merchantMembers(is)}
	if was != nil {
		c.Before = merchantMembers(was)
	}
	return journal.AddMerchant(ctx, t, is.ID, c, now)
}

const oldestKeysSQL = `
SELECT COALESCE(MIN(CASE WHEN request_key_since > 0 THEN request_key_since END), 0),
	COALESCE(MIN(CASE WHEN response_key_since > 0 THEN response_key_since END), 0),
	COALESCE(MIN(CASE WHEN api_key_since > 0 THEN api_key_since END), 0),
	COALESCE(MIN(CASE WHEN callback_api_key_since > 0 THEN callback_api_key_since END), 0)
FROM (SELECT request_key_since, response_key_since, api_key_since, callback_api_key_since FROM merchants
	UNION ALL SELECT request_key_since, response_key_since, api_key_since, callback_api_key_since FROM rotations) all_keys`

// OldestKeys returns since when the oldest key of each kind is in use. 0: there is none.
func (o *Outbox) OldestKeys(ctx context.Context) (s KeySince, err error) {
	_, err = db.One(ctx, o, oldestKeysSQL, nil, &s.Key, &s.ResponseKey, &s.APIKey, &s.CallbackAPIKey)
	return s, err
}

const endedRotationsSQL = `
SELECT merchant FROM rotations WHERE activated > 0 AND activated + overlap <= $1 ORDER BY merchant LIMIT 100`

// EndedRotations returns merchants whose older keys have come to their end.
func (o *Outbox) EndedRotations(ctx context.Context, now db.Millis) ([]string, error) {
	return db.List(ctx, o, endedRotationsSQL, []any{int64(now)}, func(r db.Rows) (id string, err error) {
		err = r.Scan(&id)
		return id, err
	})
}
