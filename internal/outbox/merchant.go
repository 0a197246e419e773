package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Merchant is what the service knows of a merchant: what client.Merchant shows, and the secrets, which no answer of
// the API may contain. Secrets are sealed at rest. They are empty in lists; the method Merchant opens them.
type Merchant struct {
	ID                      string // 1 to 64 of a–z 0–9 _ -
	State                   client.MerchantState
	PausedReason            string // why it is paused, if State is MerchantPaused
	Scheme                  client.Scheme
	client.MerchantSettings       // zero members are stored as their defaults
	Version                 int64 // increases with every change; caches compare it
	Created                 db.Millis
	Updated                 db.Millis

	Fingerprint         string // of the request key
	ResponseFingerprint string // of the response key

	Since KeySince

	// Rotation is set while keys are replaced. Nil: there is one set of keys.
	Rotation *Rotation

	MerchantKeys // the keys that seal requests; never logged, never listed
}

// keyKinds lists the kinds of a merchant's keys.
var keyKinds = [...]client.KeyKind{client.KeyRequest, client.KeyResponse, client.KeyAPI, client.KeyCallbackAPI}

// KeySince is when a merchant got each of its keys, in the order of keyKinds. 0: it has no such key.
type KeySince struct{ Key, ResponseKey, APIKey, CallbackAPIKey db.Millis }

func (s *KeySince) all() [len(keyKinds)]*db.Millis {
	return [...]*db.Millis{&s.Key, &s.ResponseKey, &s.APIKey, &s.CallbackAPIKey}
}

// ValidMerchantID reports whether id can name a merchant: 1 to 64 of a-z 0-9 _ -.
func ValidMerchantID(id string) bool {
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(id) >= 1 && len(id) <= 64
}

// seal returns the values of the secret columns.
func (k MerchantKeys) seal(d *db.DB, place db.Record) ([]any, error) {
	request, err := KeyPEM(k.Key)
	if err != nil {
		return nil, err
	}
	response, err := KeyPEM(k.ResponseKey)
	if err != nil {
		return nil, err
	}
	dataKey, sealed := d.Seal(place, secretPurposes,
		[][]byte{[]byte(k.APIKey.Reveal()), []byte(k.CallbackAPIKey.Reveal()), request, response})
	return []any{place.Version, dataKey, sealed[0], sealed[1], sealed[2], sealed[3]}, nil
}

// sealedKeys holds the secret columns of a row.
type sealedKeys struct {
	version int64
	dataKey []byte
	sealed  [4][]byte // in the order of secretPurposes
}

func (s *sealedKeys) to() []any {
	return []any{&s.dataKey, &s.sealed[0], &s.sealed[1], &s.sealed[2], &s.sealed[3]}
}

// open inverts seal.
func (s *sealedKeys) open(d *db.DB, table, id string) (k MerchantKeys, err error) {
	plain, err := d.Unseal(db.Record{Table: table, Row: id, Version: s.version}, secretPurposes, s.dataKey, s.sealed[:])
	if err != nil {
		return k, err
	}
	k.APIKey, k.CallbackAPIKey = countersign.APIKey(plain[0]), countersign.APIKey(plain[1])
	if k.Key, err = ReadKey(plain[2]); err != nil {
		return k, fmt.Errorf("request key of merchant %s: %w", id, err)
	}
	if k.ResponseKey, err = ReadKey(plain[3]); err != nil {
		return k, fmt.Errorf("response key of merchant %s: %w", id, err)
	}
	return k, nil
}

// KeyPEM returns k with all its parts in the form that ReadKey reads. It returns no bytes if k is nil.
func KeyPEM(k *envelope.Key) ([]byte, error) {
	switch {
	case k == nil:
		return nil, nil
	case k.HasPrivate():
		return k.PrivatePEM()
	}
	return k.PublicPEM(), nil
}

// ReadKey inverts KeyPEM.
func ReadKey(b []byte) (*envelope.Key, error) {
	if len(b) == 0 {
		return nil, nil
	}
	return envelope.ParseKey(b)
}

// check returns an error if a member that this package relies on is wrong. The API checks the rest.
func (m *Merchant) check() error {
	switch {
	case !ValidMerchantID(m.ID):
		return fmt.Errorf("merchant id is %w: want 1 to 64 of a-z 0-9 _ -", db.ErrInvalid)
	case m.State != client.MerchantActive && m.State != client.MerchantPaused:
		return fmt.Errorf("merchant state is %w", db.ErrInvalid)
	case m.Concurrency < 1:
		return fmt.Errorf("concurrency is %w: want at least 1", db.ErrInvalid)
	case m.ReleaseWithin < client.Duration(time.Millisecond):
		return fmt.Errorf("releaseWithin is %w: want at least 1 ms", db.ErrInvalid)
	case !(m.RatePerSecond >= 0) || math.IsInf(m.RatePerSecond, 0):
		return fmt.Errorf("ratePerSecond is %w: want 0 or more", db.ErrInvalid)
	case !slices.Contains(client.Collect("").Values(), m.Collect):
		return fmt.Errorf("collect is %w: want bound or any", db.ErrInvalid)
	case m.Key == nil:
		return fmt.Errorf("merchant is %w: it has no request key", db.ErrInvalid)
	}
	if m.Rotation != nil {
		if err := m.Rotation.check(); err != nil {
			return err
		}
	}
	return db.CheckTexts("name", m.Name, "pausedReason", m.PausedReason, "notifyUrl", m.NotifyURL, "withdrawUrl", m.WithdrawURL,
		"scheme", string(m.Scheme), "contentType", m.ContentType, "body", string(m.Body))
}

// row checks m, sets its fingerprints, and returns its row and that of its rotation, which is nil if there is none.
// The secrets are bound to m.Version, which is never used again.
func (m *Merchant) row(d *db.DB) (row, rotation []any, err error) {
	m.SetDefaults()
	if err := m.check(); err != nil {
		return nil, nil, err
	}
	m.setKeys(m.MerchantKeys)
	sealed, err := m.seal(d, db.Record{Table: "merchants", Row: m.ID, Version: m.Version})
	if err != nil {
		return nil, nil, err
	}
	settings, err := json.Marshal(m.MerchantSettings)
	if err != nil {
		return nil, nil, err
	}
	row = append([]any{m.ID, string(m.State), m.PausedReason, string(m.Scheme), string(settings), m.Version, int64(m.Created), int64(m.Updated),
		m.Fingerprint, m.ResponseFingerprint, int64(m.Since.Key), int64(m.Since.ResponseKey), int64(m.Since.APIKey), int64(m.Since.CallbackAPIKey)}, sealed...)
	if r := m.Rotation; r != nil {
		if sealed, err = r.Other.seal(d, db.Record{Table: rotations.Name, Row: m.ID, Version: m.Version}); err != nil {
			return nil, nil, err
		}
		rotation = append([]any{m.ID, int64(r.Staged), int64(r.Activated), r.Overlap.Milliseconds(), r.Fingerprint, r.ResponseFingerprint,
			int64(r.Since.Key), int64(r.Since.ResponseKey), int64(r.Since.APIKey), int64(r.Since.CallbackAPIKey)}, sealed...)
	}
	return row, rotation, nil
}

// keptMerchant is a stored merchant.
type keptMerchant struct {
	Merchant
	settings   string
	own, other sealedKeys // its secrets and its rotation's, if the query reads them
}

// scan reads a row of merchantSelect, or of sealedMerchantSelect.
func (k *keptMerchant) scan(sealed bool, r db.Rows) error {
	var overlap db.Millis
	m, t := &k.Merchant, Rotation{}
	to := []any{&m.ID, &m.Version, &m.State, &m.PausedReason, &m.Scheme, &k.settings, &m.Created, &m.Updated,
		&m.Fingerprint, &m.ResponseFingerprint, &m.Since.Key, &m.Since.ResponseKey, &m.Since.APIKey, &m.Since.CallbackAPIKey,
		&t.Staged, &t.Activated, &overlap, &t.Fingerprint, &t.ResponseFingerprint, &t.Since.Key, &t.Since.ResponseKey, &t.Since.APIKey, &t.Since.CallbackAPIKey,
		&k.own.version, &k.other.version}
	if sealed {
		to = append(append(to, k.own.to()...), k.other.to()...)
	}
	if err := r.Scan(to...); err != nil {
		return err
	}
	if t.Staged != 0 {
		t.Active, t.Overlap = t.Activated != 0, time.Duration(overlap)*time.Millisecond
		m.Rotation = &t
	}
	return nil
}

// whole returns the merchant with its settings. It parses the settings once.
func (k *keptMerchant) whole() (Merchant, error) {
	if k.settings != "" {
		if err := json.Unmarshal([]byte(k.settings), &k.MerchantSettings); err != nil {
			return Merchant{}, fmt.Errorf("settings of merchant %s: %w", k.ID, err)
		}
		k.settings = ""
	}
	return k.Merchant, nil
}

// ofMerchants returns the statement that reads the merchants with the given ids into to, without settings and
// secrets.
func ofMerchants(d *db.Dialect, ids []string, to map[string]*keptMerchant) db.Statement {
	return db.Statement{SQL: merchantsByIDSQL, Args: []any{d.List(ids)}, Row: func(r db.Rows) error {
		k := &keptMerchant{}
		err := k.scan(false, r)
		to[k.ID] = k
		return err
	}}
}

// secretPurposes lists the secrets of a merchant in the order of their columns.
var secretPurposes = []string{"api_key", "callback_api_key", "request_key", "response_key"}

const merchantColumns = `id, state, paused_reason, scheme, settings, version, created, updated, fingerprint, response_fingerprint,
	request_key_since, response_key_since, api_key_since, callback_api_key_since`

// merchantSelect reads merchants with their rotations. sealedMerchantSelect reads their secrets as well.
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

// Merchants returns the merchants after id after, in the order of ids and without their secrets. If ids is not nil,
// it returns only those.
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

// Texts returns the settings and keys of m that are set, as people and records see them. Secrets and keys are shown
// by their fingerprints.
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

// recordMerchant adds the record of a change of a merchant, with the members that differ. was is nil for a new
// merchant.
func recordMerchant(ctx context.Context, t *db.Tx, was, is *Merchant, now db.Millis) error {
	members := func(m *Merchant) map[string]string {
		all := m.Texts()
		all["state"], all["pausedReason"] = string(m.State), m.PausedReason
		return all
	}
	kind, c := journal.MerchantCreated, journal.Changed{Version: is.Version, After: members(is)}
	if was != nil {
		kind, c.Before = journal.MerchantChanged, members(was)
		for name, text := range c.After {
			if before, had := c.Before[name]; had && before == text {
				delete(c.Before, name)
				delete(c.After, name)
			}
		}
	}
	return journal.AddAbout(ctx, t, kind, is.ID, now, c)
}

const endedRotationsSQL = `
SELECT merchant FROM rotations WHERE activated > 0 AND activated + overlap <= $1 ORDER BY merchant LIMIT 100`

// EndedRotations returns the merchants whose older keys have reached their end, at most 100.
func (o *Outbox) EndedRotations(ctx context.Context, now db.Millis) ([]string, error) {
	return db.List(ctx, o, endedRotationsSQL, []any{int64(now)}, func(r db.Rows) (id string, err error) {
		err = r.Scan(&id)
		return id, err
	})
}
