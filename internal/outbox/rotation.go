package outbox

import (
	"cmp"
	"encoding/json"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// MerchantKeys holds the keys of a merchant that belong together.
type MerchantKeys struct {
	APIKey         countersign.APIKey // expected in every response
	CallbackAPIKey countersign.APIKey // sent as X-API-KEY; may be empty
	Key            *envelope.Key      // request key: private part in SchemeService, else the merchant's public part
	ResponseKey    *envelope.Key      // response key with private part; nil: same as Key
}

// plainKeys is the form in which keys are sealed, as JSON. The RSA keys are PEM with all their parts.
type plainKeys struct {
	APIKey, CallbackAPIKey string
	Key, ResponseKey       []byte
}

// Plain returns k in a form that may be stored only sealed.
func (k MerchantKeys) Plain() (json.RawMessage, error) {
	p := plainKeys{APIKey: k.APIKey.Reveal(), CallbackAPIKey: k.CallbackAPIKey.Reveal()}
	for to, key := range map[*[]byte]*envelope.Key{&p.Key: k.Key, &p.ResponseKey: k.ResponseKey} {
		if key == nil {
			continue
		}
		if *to = key.PublicPEM(); key.HasPrivate() {
			var err error
			if *to, err = key.PrivatePEM(); err != nil {
				return nil, err
			}
		}
	}
	return json.Marshal(p)
}

// ParseKeys inverts Plain.
func ParseKeys(plain []byte) (k MerchantKeys, err error) {
	var p plainKeys
	if err = json.Unmarshal(plain, &p); err != nil {
		return k, err
	}
	k.APIKey, k.CallbackAPIKey = countersign.APIKey(p.APIKey), countersign.APIKey(p.CallbackAPIKey)
	for to, text := range map[**envelope.Key][]byte{&k.Key: p.Key, &k.ResponseKey: p.ResponseKey} {
		if len(text) == 0 {
			continue
		}
		if *to, err = envelope.ParseKey(text); err != nil {
			return k, err
		}
	}
	return k, nil
}

// response returns the key that opens answers.
func (k MerchantKeys) response() *envelope.Key { return cmp.Or(k.ResponseKey, k.Key) }

// texts returns, for each kind of key in the order of keyKinds, a text that identifies the key: the fingerprint of an
// RSA key, or the API key itself. An empty text means that there is no such key.
func (k MerchantKeys) texts() [len(keyKinds)]string {
	return [...]string{k.Key.Fingerprint(), k.response().Fingerprint(), k.APIKey.Reveal(), k.CallbackAPIKey.Reveal()}
}

// Rotation is the period in which a merchant has two sets of keys. Answers under both count. One set seals requests:
// the older one until the newer one is activated.
type Rotation struct {
	Staged    db.Millis     // when the newer keys were made
	Active    bool          // the newer keys seal
	Activated db.Millis     // when they were activated
	Overlap   time.Duration // how long after that the older keys stay valid

	// Other holds the keys that do not seal: the newer ones, or the older ones if Active. Since and the fingerprints
	// are those of Other.
	Other                            MerchantKeys `json:"-"`
	Since                            KeySince
	Fingerprint, ResponseFingerprint string
}

// Until returns when the older keys end. It returns Never before the newer ones are activated.
func (r *Rotation) Until() db.Millis {
	if !r.Active {
		return db.Never
	}
	return r.Activated + db.Millis(r.Overlap.Milliseconds())
}

func (m *Merchant) setKeys(k MerchantKeys) {
	m.MerchantKeys = k
	m.Fingerprint, m.ResponseFingerprint = k.Key.Fingerprint(), k.response().Fingerprint()
}

// ErrRotating means that the merchant already has two sets of keys, so it is unclear which of them would change.
var ErrRotating = &db.ConflictError{Reason: "keys of the merchant are being replaced: finish or cancel that first"}

// Stage gives m a second set of keys. A key that k lacks is taken from the present set. Stage returns ErrRotating if
// m has two sets already, and a *ConflictError if the keys are the same.
func (m *Merchant) Stage(k MerchantKeys) error {
	if m.Rotation != nil {
		return ErrRotating
	}
	k = MerchantKeys{cmp.Or(k.APIKey, m.APIKey), cmp.Or(k.CallbackAPIKey, m.CallbackAPIKey), cmp.Or(k.Key, m.Key),
		cmp.Or(k.ResponseKey, m.ResponseKey)}
	r := &Rotation{Other: k, Fingerprint: k.Key.Fingerprint(), ResponseFingerprint: k.response().Fingerprint()}
	if len(r.differ(m)) == 0 {
		return &db.ConflictError{Reason: "the merchant has these keys already"}
	}
	m.Rotation = r
	return nil
}

// Activate makes the newer keys seal. The older ones stay valid for the time overlap.
func (m *Merchant) Activate(overlap time.Duration) error {
	r := m.Rotation
	if r == nil || r.Active {
		return &db.ConflictError{Reason: "no keys of the merchant wait to be activated"}
	}
	next := &Rotation{Staged: r.Staged, Active: true, Overlap: overlap, Other: m.MerchantKeys, Fingerprint: m.Fingerprint,
		ResponseFingerprint: m.ResponseFingerprint}
	m.setKeys(r.Other)
	m.Rotation = next
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
		m.setKeys(r.Other)
	}
	m.Rotation = nil
	return nil
}

// DateKeys dates the keys of m. A key that prev has, in either set, keeps its date; any other key gets now. prev may
// be nil.
func (m *Merchant) DateKeys(prev *Merchant, now db.Millis) {
	type key struct {
		kind int // its place in keyKinds
		text string
	}
	known := map[key]db.Millis{}
	know := func(k MerchantKeys, since KeySince) {
		texts := k.texts()
		for i, at := range since.all() {
			if *at != 0 {
				known[key{i, texts[i]}] = *at
			}
		}
	}
	if prev != nil && prev.Rotation != nil {
		know(prev.Rotation.Other, prev.Rotation.Since)
	}
	if prev != nil {
		know(prev.MerchantKeys, prev.Since)
	}
	sinceOf := func(k MerchantKeys) (s KeySince) {
		texts := k.texts()
		for i, at := range s.all() {
			if texts[i] != "" {
				*at = cmp.Or(known[key{i, texts[i]}], now)
			}
		}
		return s
	}
	m.Since = sinceOf(m.MerchantKeys)
	if m.Rotation == nil {
		return
	}
	r := *m.Rotation // a copy, because the caller may hold the earlier merchant
	r.Since = sinceOf(r.Other)
	r.Staged = cmp.Or(r.Staged, now)
	if r.Active {
		r.Activated = cmp.Or(r.Activated, now)
	}
	m.Rotation = &r
}

// Others returns the keys of the other set that differ from those that seal. API keys have no fingerprint if m is
// from a list, because the secrets were not read.
func (m *Merchant) Others() []client.Key {
	if m.Rotation == nil {
		return nil
	}
	return m.Rotation.differ(m)
}

func (r *Rotation) differ(m *Merchant) (list []client.Key) {
	theirs, ours := r.Other.texts(), m.texts()
	listed := r.Other.Key == nil // the secrets were not read; dates distinguish API keys
	if listed {
		theirs[0], theirs[1], ours[0], ours[1] = r.Fingerprint, r.ResponseFingerprint, m.Fingerprint, m.ResponseFingerprint
	}
	since, ourSince := r.Since.all(), m.Since.all()
	for i, kind := range keyKinds {
		if theirs[i] == ours[i] && (!listed || *since[i] == *ourSince[i]) {
			continue
		}
		if kind == client.KeyAPI || kind == client.KeyCallbackAPI {
			theirs[i] = journal.Fingerprint(theirs[i])
		}
		list = append(list, client.Key{Kind: kind, Fingerprint: theirs[i], Since: *since[i]})
	}
	return list
}

// RotationTexts returns the state of a replacement of keys for people and records: which keys are next, or old, by
// their fingerprints. It returns nil if no keys are being replaced.
func (m *Merchant) RotationTexts() map[string]string {
	r := m.Rotation
	if r == nil {
		return nil
	}
	texts, prefix := map[string]string{"rotation": "staged"}, "next"
	if r.Active {
		texts["rotation"], texts["overlap"], prefix = "active", r.Overlap.String(), "old"
	}
	names := map[client.KeyKind]string{client.KeyRequest: "RequestKey", client.KeyResponse: "ResponseKey",
		client.KeyAPI: "ApiKey", client.KeyCallbackAPI: "CallbackApiKey"}
	for _, k := range r.differ(m) {
		texts[prefix+names[k.Kind]] = k.Fingerprint
	}
	return texts
}
