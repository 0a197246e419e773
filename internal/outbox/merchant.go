package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"countersign/client"
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

	KeySet             // the keys that seal requests
	Rotation *Rotation // set while keys are replaced; nil: there is one set of keys
}

// ValidMerchantID reports whether id can name a merchant: 1 to 64 of a-z 0-9 _ -.
func ValidMerchantID(id string) bool {
	return len(id) >= 1 && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// sealPurposes lists the sealed values of a merchant: the keys that seal requests, and those of its rotation.
var sealPurposes = []string{"keys", "other_keys"}

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
	case !slices.Contains(client.Values[client.Collect](), m.Collect):
		return fmt.Errorf("collect is %w: want bound or any", db.ErrInvalid)
	case m.Key == nil:
		return fmt.Errorf("merchant is %w: it has no request key", db.ErrInvalid)
	}
	return db.CheckTexts("name", m.Name, "pausedReason", m.PausedReason, "notifyUrl", m.NotifyURL, "withdrawUrl",
		m.WithdrawURL, "scheme", string(m.Scheme), "contentType", m.ContentType, "body", string(m.Body))
}

// keptKeys is what a merchant's row says of its keys in plain text, as JSON.
type keptKeys struct {
	KeySet
	Rotation *Rotation
}

// row checks m and returns its row. The secrets are bound to m.Version, which is never used
// again.
func (m *Merchant) row(d *db.DB) ([]any, error) {
	m.SetDefaults()
	if err := m.check(); err != nil {
		return nil, err
	}
	until, other := db.Never, []byte(nil)
	own, err := m.Plain()
	if r := m.Rotation; err == nil && r != nil {
		until = r.Until()
		other, err = r.Other.Plain()
	}
	if err != nil {
		return nil, err
	}
	settings, err := json.Marshal(m.MerchantSettings)
	if err != nil {
		return nil, err
	}
	keys, err := json.Marshal(keptKeys{m.KeySet, m.Rotation})
	if err != nil {
		return nil, err
	}
	dataKey, sealed := d.Seal(db.Record{Table: "merchants", Row: m.ID, Version: m.Version}, sealPurposes,
		[][]byte{own, other})
	return []any{m.ID, string(m.State), m.PausedReason, string(m.Scheme), string(settings), m.Version, int64(m.Created),
		int64(m.Updated), string(keys), int64(until), m.Version, dataKey, sealed[0], sealed[1]}, nil
}

// scanMerchant reads a row of merchantSelect, followed by the columns more. The secrets stay empty.
func scanMerchant(r db.Rows, more ...any) (m Merchant, err error) {
	var kept keptKeys
	err = r.Scan(append([]any{&m.ID, &m.State, &m.PausedReason, &m.Scheme, db.JSON(&m.MerchantSettings), &m.Version,
		&m.Created, &m.Updated, db.JSON(&kept)}, more...)...)
	if err != nil {
		return Merchant{}, fmt.Errorf("merchant %s: %w", m.ID, err)
	}
	m.KeySet, m.Rotation = kept.KeySet, kept.Rotation
	return m, nil
}

// ofMerchants returns the statement that reads the merchants with the given ids into to, without their secrets.
func ofMerchants(d *db.Dialect, ids []string, to map[string]Merchant) db.Statement {
	return db.Statement{SQL: merchantsByIDSQL, Args: []any{d.List(ids)}, Row: func(r db.Rows) error {
		m, err := scanMerchant(r)
		to[m.ID] = m
		return err
	}}
}

const (
	merchantColumns = `id, state, paused_reason, scheme, settings, version, created, updated, keys`

	merchantSelect = `SELECT ` + merchantColumns + ` FROM merchants `

	insertMerchantSQL = `
INSERT INTO merchants (` + merchantColumns + `, older_until, secret_version, data_key, secrets, other_secrets)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (id) DO NOTHING`

	updateMerchantSQL = `
UPDATE merchants SET state = $2, paused_reason = $3, scheme = $4, settings = $5, version = $6, created = $7, updated = $8,
	keys = $9, older_until = $10, secret_version = $11, data_key = $12, secrets = $13, other_secrets = $14
WHERE id = $1`
)

const (
	readMerchantSQL = `SELECT ` + merchantColumns +
		`, secret_version, data_key, secrets, other_secrets FROM merchants WHERE id = $1`
	merchantsByIDSQL = merchantSelect + `WHERE id {in}$1{end}`
)

// Merchant returns one merchant with its secrets opened.
func (o *Outbox) Merchant(ctx context.Context, id string) (Merchant, error) {
	return o.readMerchant(ctx, o, readMerchantSQL, id)
}

func (o *Outbox) readMerchant(ctx context.Context, q db.Querier, text, id string) (Merchant, error) {
	if !ValidMerchantID(id) {
		return Merchant{}, db.ErrNotFound
	}
	place := db.Record{Table: "merchants", Row: id}
	dataKey, sealed := []byte(nil), make([][]byte, 2)
	m, err := db.Find(ctx, q, text, []any{id}, func(r db.Rows) (Merchant, error) {
		return scanMerchant(r, &place.Version, &dataKey, &sealed[0], &sealed[1])
	})
	if err != nil {
		return Merchant{}, err
	}
	plain, err := o.Unseal(place, sealPurposes, dataKey, sealed)
	if err != nil {
		return Merchant{}, err
	}
	if m.MerchantKeys, err = ParseKeys(plain[0]); err == nil && m.Rotation != nil {
		m.Rotation.Other.MerchantKeys, err = ParseKeys(plain[1])
	}
	if err != nil {
		return Merchant{}, fmt.Errorf("keys of merchant %s: %w", id, err)
	}
	return m, nil
}

const (
	listMerchantsSQL   = merchantSelect + `WHERE id > $1 ORDER BY id LIMIT CAST($2 AS BIGINT)`
	listMerchantsOfSQL = merchantSelect + `WHERE id > $1 AND id {in}$2{end} ORDER BY id LIMIT CAST($3 AS BIGINT)`
)

// Merchants returns the merchants after id after, in the order of ids and without their secrets. If ids is not nil,
// it returns only those.
func (o *Outbox) Merchants(ctx context.Context, ids []string, after string, limit int) ([]Merchant, error) {
	text, args := listMerchantsSQL, []any{after, limit}
	if ids != nil {
		text, args = listMerchantsOfSQL, []any{after, o.Dialect().List(ids), limit}
	}
	return db.List(ctx, o, text, args, func(r db.Rows) (Merchant, error) { return scanMerchant(r) })
}

// keyNames are the names of keys in Texts.
var keyNames = map[client.KeyKind]string{client.KeyRequest: "requestKey", client.KeyResponse: "responseKey",
	client.KeyAPI: "apiKey", client.KeyCallbackAPI: "callbackApiKey"}

// Texts returns the settings and keys of m that are set, as people and records see them. Secrets and keys are shown
// by their fingerprints.
func (m *Merchant) Texts() map[string]string {
	all := map[string]string{"scheme": string(m.Scheme)}
	for _, k := range m.keys() {
		all[keyNames[k.Kind]] = k.Fingerprint
	}
	for _, s := range client.Settings() {
		if text := s.Text(m); text != "" {
			all[s.Name] = text
		}
	}
	maps.Copy(all, m.rotationTexts())
	return all
}

// rotationTexts returns the state of a replacement of keys: which keys are next, or old, by their fingerprints. It
// returns nil if no keys are being replaced.
func (m *Merchant) rotationTexts() map[string]string {
	r := m.Rotation
	if r == nil {
		return nil
	}
	texts, prefix := map[string]string{"rotation": "staged"}, "next"
	if r.Active {
		texts["rotation"], texts["overlap"], prefix = "active", r.Overlap.String(), "old"
	}
	for _, k := range m.Others() {
		name := keyNames[k.Kind]
		texts[prefix+strings.ToUpper(name[:1])+name[1:]] = k.Fingerprint
	}
	return texts
}

// Others returns the keys of the other set that differ from those that seal.
func (m *Merchant) Others() (list []client.Key) {
	if m.Rotation == nil {
		return nil
	}
	for _, k := range m.Rotation.Other.Shown {
		if k.Fingerprint != m.Of(k.Kind).Fingerprint {
			list = append(list, k)
		}
	}
	return list
}

// Differences returns the texts of m and is, by which they differ. A member that one of them lacks is empty.
func (m *Merchant) Differences(is *Merchant) (before, after map[string]string) {
	before, after = m.Texts(), is.Texts()
	for name := range maps.Keys(before) {
		after[name] += ""
	}
	for name, text := range after {
		if before[name] == text {
			delete(before, name)
			delete(after, name)
		} else {
			before[name] += ""
		}
	}
	return before, after
}

// recordMerchant adds the record of a change of a merchant, with the members that differ. was is nil for a new
// merchant.
func recordMerchant(ctx context.Context, t *db.Tx, was, is *Merchant, now db.Millis) error {
	kind, c := journal.MerchantCreated, journal.Changed{Version: is.Version, After: is.Texts()}
	if was != nil {
		kind = journal.MerchantChanged
		c.Before, c.After = was.Differences(is)
	}
	return journal.AddAbout(ctx, t, kind, is.ID, now, c)
}
