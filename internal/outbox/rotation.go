package outbox

import (
	"cmp"
	"context"
	"time"

	"countersign/client"
	"countersign/internal/db"
)

// ErrRotating means that the merchant already has two sets of keys, so it is unclear which of them would change.
var ErrRotating = &db.ConflictError{Reason: "keys of the merchant are being replaced: finish or cancel that first"}

// Stage gives m a second set of keys. A key that k lacks is taken from the present set. Stage returns ErrRotating if
// m has two sets already, and a *ConflictError if the keys are the same.
func (m *Merchant) Stage(k MerchantKeys) error {
	if m.Rotation != nil {
		return ErrRotating
	}
	other := newKeySet(MerchantKeys{cmp.Or(k.APIKey, m.APIKey), cmp.Or(k.CallbackAPIKey, m.CallbackAPIKey),
		cmp.Or(k.Key, m.Key), cmp.Or(k.ResponseKey, m.ResponseKey)})
	m.Rotation = &Rotation{Other: other}
	if len(m.Others()) == 0 {
		return &db.ConflictError{Reason: "the merchant has these keys already"}
	}
	return nil
}

// Activate makes the newer keys seal. The older ones stay valid for the time overlap.
func (m *Merchant) Activate(overlap time.Duration) error {
	r := m.Rotation
	if r == nil || r.Active {
		return &db.ConflictError{Reason: "no keys of the merchant wait to be activated"}
	}
	m.Rotation = &Rotation{Staged: r.Staged, Active: true, Overlap: overlap, Other: m.KeySet}
	m.KeySet = r.Other
	return nil
}

// Finish ends the older keys once the newer ones are activated.
func (m *Merchant) Finish() error {
	if m.Rotation == nil || !m.Rotation.Active {
		return &db.ConflictError{Reason: "no newer keys of the merchant are active"}
	}
	m.Rotation = nil
	return nil
}

// Cancel removes the newer keys, so that the older ones are the only set.
func (m *Merchant) Cancel() error {
	r := m.Rotation
	if r == nil {
		return &db.ConflictError{Reason: "no keys of the merchant are being replaced"}
	}
	if r.Active {
		m.KeySet = r.Other
	}
	m.Rotation = nil
	return nil
}

// dateKeys dates the keys of m. A key that prev has, in either set, keeps its date; any other key gets now. prev may
// be nil.
func (m *Merchant) dateKeys(prev *Merchant, now db.Millis) {
	known := map[client.Key]db.Millis{} // by kind and fingerprint
	know := func(s *KeySet) {
		for _, k := range s.Shown {
			known[client.Key{Kind: k.Kind, Fingerprint: k.Fingerprint}] = k.Since
		}
	}
	if prev != nil && prev.Rotation != nil {
		know(&prev.Rotation.Other)
	}
	if prev != nil {
		know(&prev.KeySet)
	}
	date := func(s *KeySet) {
		s.Shown = s.keys()
		for i, k := range s.Shown {
			s.Shown[i].Since = cmp.Or(known[k], now)
		}
	}
	date(&m.KeySet)
	if m.Rotation == nil {
		return
	}
	r := *m.Rotation // a copy, because the caller may hold the earlier merchant
	date(&r.Other)
	r.Staged = cmp.Or(r.Staged, now)
	if r.Active {
		r.Activated = cmp.Or(r.Activated, now)
	}
	m.Rotation = &r
}

const endedRotationsSQL = `SELECT id FROM merchants WHERE older_until <= $1 AND older_until < 4611686018427387904 ORDER BY id LIMIT 100`

// EndedRotations returns the merchants whose older keys have reached their end, at most 100.
func (o *Outbox) EndedRotations(ctx context.Context, now db.Millis) ([]string, error) {
	return db.List(ctx, o, endedRotationsSQL, []any{int64(now)}, func(r db.Rows) (id string, err error) {
		err = r.Scan(&id)
		return id, err
	})
}
