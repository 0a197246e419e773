package outbox

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
)

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

// merchantRow is a merchant as it is stored.
type merchantRow struct {
	id       string
	values   []any
	rotation []any // of the table of rotations; nil: there is none
}

// seal returns the arguments of the secret columns.
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

// sealedKeys are the secret columns of a row.
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

// KeyPEM returns all parts of k, which ReadKey reads again; of nil no bytes.
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

// check checks the members that this package relies on; the API checks the rest.
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

// row checks m, sets its fingerprints, and gives its row. The secrets are bound to its Version,
// which never comes again.
func (m *Merchant) row(d *db.DB) (merchantRow, error) {
	m.SetDefaults()
	if err := m.check(); err != nil {
		return merchantRow{}, err
	}
	m.setKeys(m.MerchantKeys)
	sealed, err := m.seal(d, db.Record{Table: "merchants", Row: m.ID, Version: m.Version})
	if err != nil {
		return merchantRow{}, err
	}
	settings, err := json.Marshal(m.MerchantSettings)
	if err != nil {
		return merchantRow{}, err
	}
	row := merchantRow{id: m.ID, values: append([]any{m.ID, string(m.State), m.PausedReason, string(m.Scheme), string(settings), m.Version, int64(m.Created), int64(m.Updated),
		m.Fingerprint, m.ResponseFingerprint, int64(m.Since.Key), int64(m.Since.ResponseKey), int64(m.Since.APIKey), int64(m.Since.CallbackAPIKey)}, sealed...)}
	if r := m.Rotation; r != nil {
		if sealed, err = r.Other.seal(d, db.Record{Table: rotations.Name, Row: m.ID, Version: m.Version}); err != nil {
			return merchantRow{}, err
		}
		row.rotation = append([]any{m.ID, int64(r.Staged), int64(r.Activated), r.Overlap.Milliseconds(), r.Fingerprint, r.ResponseFingerprint,
			int64(r.Since.Key), int64(r.Since.ResponseKey), int64(r.Since.APIKey), int64(r.Since.CallbackAPIKey)}, sealed...)
	}
	return row, nil
}

// keptMerchant is a merchant as its row has it.
type keptMerchant struct {
	Merchant
	settings   string
	own, other sealedKeys // its secrets and those of its rotation, where the query reads them
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

// whole returns the merchant with its settings, which it reads once.
func (k *keptMerchant) whole() (Merchant, error) {
	if k.settings != "" {
		if err := json.Unmarshal([]byte(k.settings), &k.MerchantSettings); err != nil {
			return Merchant{}, fmt.Errorf("settings of merchant %s: %w", k.ID, err)
		}
		k.settings = ""
	}
	return k.Merchant, nil
}

// ofMerchants returns the statement that reads merchants, with neither settings nor secrets, into
// to by their ids.
func ofMerchants(d *db.Dialect, ids []string, to map[string]*keptMerchant) db.Statement {
	return db.Statement{SQL: merchantsByIDSQL, Args: []any{d.List(ids)}, Row: func(r db.Rows) error {
		k := &keptMerchant{}
		err := k.scan(false, r)
		to[k.ID] = k
		return err
	}}
}
