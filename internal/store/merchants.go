package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"countersign"
	"countersign/envelope"
)

// merchantPurposes are the secrets of a merchant in the order of their columns.
var merchantPurposes = []string{"api_key", "callback_api_key", "request_key", "response_key"}

const merchantColumns = `id, name, state, paused_reason, notify_url, withdraw_url, scheme, settings, concurrency,
	rate, confirm_within, version, created, updated, fingerprint, response_fingerprint`

const createMerchantSQL = `
INSERT INTO merchants (` + merchantColumns + `,
	secret_version, data_key, api_key, callback_api_key, request_key, response_key)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
ON CONFLICT (id) DO NOTHING`

const createLaneSQL = `
INSERT INTO lanes (merchant, lane, active, concurrency, rate, version) VALUES ($1, $2, $3, $4, $5, $6)`

// CreateMerchant keeps a new merchant and gives it back with Version 1. An id
// that is taken is a *ConflictError. A zero State is MerchantActive.
func (s *Store) CreateMerchant(ctx context.Context, m Merchant, now Millis) (Merchant, error) {
	if m.State == "" {
		m.State = MerchantActive
	}
	m.Version, m.Created, m.Updated = 1, now, now
	if err := m.check(); err != nil {
		return Merchant{}, err
	}
	sealed, err := s.sealMerchant(ctx, &m, 1)
	if err != nil {
		return Merchant{}, err
	}
	args, err := m.args()
	if err != nil {
		return Merchant{}, err
	}
	args = append(args, sealed...)
	err = s.db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, createMerchantSQL, args...)
		if err != nil {
			return err
		}
		if n == 0 {
			return &ConflictError{Member: "id", Reason: "is taken by another merchant"}
		}
		for _, lane := range []Lane{LaneNotify, LaneWithdraw} {
			if _, err := t.exec(ctx, createLaneSQL, m.ID, int64(lane), m.active(), m.Concurrency, m.RatePerSecond, m.Version); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Merchant{}, err
	}
	s.known.Store(m.ID, true)
	return m, nil
}

const updateMerchantSQL = `
UPDATE merchants SET name = $2, state = $3, paused_reason = $4, notify_url = $5, withdraw_url = $6, scheme = $7,
	settings = $8, concurrency = $9, rate = $10, confirm_within = $11, version = $12, created = $13, updated = $14,
	fingerprint = $15, response_fingerprint = $16, secret_version = $17, data_key = $18, api_key = $19,
	callback_api_key = $20, request_key = $21, response_key = $22
WHERE id = $1 AND version = $12 - 1`

// A changed rate starts with a bucket that holds one second's worth.
const updateLanesSQL = `
UPDATE lanes SET active = $2, concurrency = $3, version = $5,
	bucket = CASE WHEN rate = $4 THEN bucket ELSE 0 END, rate_ready = CASE WHEN rate = $4 THEN rate_ready ELSE 0 END,
	rate = $4
WHERE merchant = $1`

// errRaced means that another update came first.
var errRaced = errors.New("raced")

// UpdateMerchant calls change with the merchant, secrets opened, and keeps what
// change made of it, with Version one higher. It may call change again where
// another update came between. ID, Created and Version can't be changed.
func (s *Store) UpdateMerchant(ctx context.Context, id string, now Millis, change func(*Merchant) error) (Merchant, error) {
	for {
		// Outside the transaction: change and the key wrapper may take long.
		was, secretVersion, err := s.merchant(ctx, id)
		if err != nil {
			return Merchant{}, err
		}
		m := was
		if err := change(&m); err != nil {
			return Merchant{}, err
		}
		m.ID, m.Created, m.Version, m.Updated = was.ID, was.Created, was.Version+1, now
		if err := m.check(); err != nil {
			return Merchant{}, err
		}
		sealed, err := s.sealMerchant(ctx, &m, secretVersion+1)
		if err != nil {
			return Merchant{}, err
		}
		args, err := m.args()
		if err != nil {
			return Merchant{}, err
		}
		args = append(args, sealed...)
		err = s.db.write(ctx, func(ctx context.Context, t *tx) error {
			n, err := t.exec(ctx, updateMerchantSQL, args...)
			if err != nil {
				return err
			}
			if n == 0 {
				return errRaced
			}
			return s.updateLanes(ctx, t, &m)
		})
		if err == nil {
			return m, nil
		}
		if !errors.Is(err, errRaced) {
			return Merchant{}, err
		}
	}
}

func (s *Store) updateLanes(ctx context.Context, t *tx, m *Merchant) error {
	_, err := t.exec(ctx, updateLanesSQL, m.ID, m.active(), m.Concurrency, m.RatePerSecond, m.Version)
	t.wake(TopicNotify)
	t.wake(TopicWithdraw)
	return err
}

const readMerchantSQL = `
SELECT ` + merchantColumns + `, secret_version, data_key, api_key, callback_api_key, request_key, response_key
FROM merchants WHERE id = $1`

// Merchant gives one merchant with its secrets opened.
func (s *Store) Merchant(ctx context.Context, id string) (Merchant, error) {
	m, _, err := s.merchant(ctx, id)
	return m, err
}

func (s *Store) merchant(ctx context.Context, id string) (Merchant, int64, error) {
	if !validMerchantID(id) {
		return Merchant{}, 0, ErrNotFound
	}
	var m Merchant
	var dataKey []byte
	sealed := make([][]byte, len(merchantPurposes))
	place := record{table: "merchants", row: id}
	found := false
	err := each(ctx, s.db, readMerchantSQL, []any{id}, func(r rows) error {
		found = true
		return m.scan(r, &place.version, &dataKey, &sealed[0], &sealed[1], &sealed[2], &sealed[3])
	})
	if err != nil {
		return Merchant{}, 0, err
	}
	if !found {
		return Merchant{}, 0, ErrNotFound
	}
	plain, err := openSecrets(ctx, s.keys, place, merchantPurposes, dataKey, sealed)
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
	return m, place.version, nil
}

// sealMerchant sets the fingerprints and gives the arguments of the secret
// columns.
func (s *Store) sealMerchant(ctx context.Context, m *Merchant, version int64) ([]any, error) {
	request, err := writeKey(m.Key)
	if err != nil {
		return nil, err
	}
	response, err := writeKey(m.ResponseKey)
	if err != nil {
		return nil, err
	}
	m.Fingerprint, m.ResponseFingerprint = m.Key.Fingerprint(), m.Key.Fingerprint()
	if m.ResponseKey != nil {
		m.ResponseFingerprint = m.ResponseKey.Fingerprint()
	}
	dataKey, sealed, err := sealSecrets(ctx, s.keys, record{"merchants", m.ID, version}, merchantPurposes,
		[][]byte{[]byte(m.APIKey.Reveal()), []byte(m.CallbackAPIKey.Reveal()), request, response})
	if err != nil {
		return nil, err
	}
	return []any{version, dataKey, sealed[0], sealed[1], sealed[2], sealed[3]}, nil
}

// writeKey and readKey turn a key into bytes and back; no key is no bytes.
func writeKey(k *envelope.Key) ([]byte, error) {
	switch {
	case k == nil:
		return nil, nil
	case k.HasPrivate():
		return k.PrivatePEM()
	}
	return k.PublicPEM(), nil
}

func readKey(b []byte) (*envelope.Key, error) {
	if len(b) == 0 {
		return nil, nil
	}
	return envelope.ParseKey(b)
}

func (m *Merchant) active() int {
	if m.State == MerchantActive {
		return 1
	}
	return 0
}

// check guards what the store itself relies on; the API checks the rest.
func (m *Merchant) check() error {
	switch {
	case !validMerchantID(m.ID):
		return fmt.Errorf("merchant id is %w: want 1 to 64 of a-z 0-9 _ -", ErrInvalid)
	case m.State != MerchantActive && m.State != MerchantPaused:
		return fmt.Errorf("merchant state is %w", ErrInvalid)
	case m.Concurrency < 1:
		return fmt.Errorf("concurrency is %w: want at least 1", ErrInvalid)
	case !(m.RatePerSecond >= 0) || math.IsInf(m.RatePerSecond, 0):
		return fmt.Errorf("ratePerSecond is %w: want 0 or more", ErrInvalid)
	case m.Key == nil:
		return fmt.Errorf("merchant is %w: it has no request key", ErrInvalid)
	}
	for _, text := range []struct{ member, text string }{
		{"name", m.Name}, {"pausedReason", m.PausedReason}, {"notifyUrl", m.NotifyURL}, {"withdrawUrl", m.WithdrawURL},
		{"scheme", string(m.Scheme)}, {"contentType", m.Settings.ContentType}, {"body", m.Settings.Body},
	} {
		if err := checkText(text.member, text.text); err != nil {
			return err
		}
	}
	return nil
}

func (m *Merchant) args() ([]any, error) {
	settings, err := json.Marshal(m.Settings)
	if err != nil {
		return nil, err
	}
	return []any{m.ID, m.Name, string(m.State), m.PausedReason, m.NotifyURL, m.WithdrawURL, string(m.Scheme), string(settings),
		int64(m.Concurrency), m.RatePerSecond, int64(m.ConfirmWithin), m.Version, int64(m.Created), int64(m.Updated),
		m.Fingerprint, m.ResponseFingerprint}, nil
}

// scan reads merchantColumns and what follows them.
func (m *Merchant) scan(r rows, more ...any) error {
	var settings string
	err := r.Scan(append([]any{&m.ID, &m.Name, &m.State, &m.PausedReason, &m.NotifyURL, &m.WithdrawURL, &m.Scheme, &settings,
		&m.Concurrency, &m.RatePerSecond, &m.ConfirmWithin, &m.Version, &m.Created, &m.Updated,
		&m.Fingerprint, &m.ResponseFingerprint}, more...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(settings), &m.Settings); err != nil {
		return fmt.Errorf("settings of merchant %s: %w", m.ID, err)
	}
	return nil
}

const listMerchantsSQL = `SELECT ` + merchantColumns + ` FROM merchants WHERE id > $1 ORDER BY id LIMIT CAST($2 AS BIGINT)`

// Merchants lists merchants in order of id, from the one after after, without
// their secrets.
func (s *Store) Merchants(ctx context.Context, after string, limit int) ([]Merchant, error) {
	var list []Merchant
	err := each(ctx, s.db, listMerchantsSQL, []any{after, limit}, func(r rows) error {
		var m Merchant
		if err := m.scan(r); err != nil {
			return err
		}
		list = append(list, m)
		return nil
	})
	return list, err
}

const setMerchantStateSQL = `
UPDATE merchants SET state = $2, paused_reason = $3, version = version + 1, updated = $4
WHERE id = $1 AND (state <> $2 OR paused_reason <> $3) RETURNING version`

const setLanesActiveSQL = `UPDATE lanes SET active = $2, version = $3 WHERE merchant = $1`

const forgetFailuresSQL = `DELETE FROM open_failures WHERE merchant = $1`

const closeBreakersSQL = `UPDATE lanes SET failures = 0, open_until = 0 WHERE merchant = $1`

// SetMerchantState pauses or resumes a merchant. Resuming also forgets its
// opening failures and closes its breakers. Repeating it changes nothing.
func (s *Store) SetMerchantState(ctx context.Context, id string, state MerchantState, reason string, now Millis) (Merchant, error) {
	if state != MerchantActive && state != MerchantPaused {
		return Merchant{}, fmt.Errorf("merchant state is %w", ErrInvalid)
	}
	if err := checkText("reason", reason); err != nil {
		return Merchant{}, err
	}
	if state == MerchantActive {
		reason = ""
	}
	err := s.db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := s.setState(ctx, t, id, state, reason, now)
		return err
	})
	if err != nil {
		return Merchant{}, err
	}
	return s.Merchant(ctx, id)
}

// setState reports whether anything changed. It locks the merchant's row and
// then its lanes.
func (s *Store) setState(ctx context.Context, t *tx, id string, state MerchantState, reason string, now Millis) (bool, error) {
	var version int64
	changed, err := one(ctx, t, setMerchantStateSQL, []any{id, string(state), reason, int64(now)}, &version)
	if err != nil || !changed {
		return false, err
	}
	m := Merchant{State: state}
	if _, err := t.exec(ctx, setLanesActiveSQL, id, m.active(), version); err != nil {
		return false, err
	}
	if state == MerchantPaused {
		return true, nil
	}
	if _, err := t.exec(ctx, forgetFailuresSQL, id); err != nil {
		return false, err
	}
	if _, err := t.exec(ctx, closeBreakersSQL, id); err != nil {
		return false, err
	}
	t.wake(TopicNotify)
	t.wake(TopicWithdraw)
	return true, nil
}

const pauseSQL = `
UPDATE merchants SET state = 'paused', paused_reason = $2, version = version + 1, updated = $3
WHERE id = $1 AND state = 'active' RETURNING version`

// pause stops sending to a merchant that is active, for opening failures. It
// reports whether the merchant was.
func (s *Store) pause(ctx context.Context, t *tx, id string, now Millis) (bool, error) {
	var version int64
	changed, err := one(ctx, t, pauseSQL, []any{id, pausedForOpenFailures, int64(now)}, &version)
	if err != nil || !changed {
		return false, err
	}
	_, err = t.exec(ctx, setLanesActiveSQL, id, 0, version)
	return true, err
}
