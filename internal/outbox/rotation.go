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

// KeySet is one of a merchant's sets of keys, with what is shown of it.
type KeySet struct {
	MerchantKeys `json:"-"`
	Since        KeySince

	Fingerprint, ResponseFingerprint string // of the request key and of the response key
}

func newKeySet(k MerchantKeys) KeySet {
	return KeySet{MerchantKeys: k, Fingerprint: k.Key.Fingerprint(), ResponseFingerprint: k.response().Fingerprint()}
}

// Rotation is the period in which a merchant has two sets of keys. Answers under both count. One set seals requests:
// the older one until the newer one is activated.
type Rotation struct {
	Staged    db.Millis     // when the newer keys were made
	Active    bool          // the newer keys seal
	Activated db.Millis     // when they were activated
	Overlap   time.Duration // how long after that the older keys stay valid
	Other     KeySet        // the keys that do not seal: the newer ones, or the older ones if Active
}

// Until returns when the older keys end. It returns Never before the newer ones are activated.
func (r *Rotation) Until() db.Millis {
	if !r.Active {
		return db.Never
	}
	return r.Activated + db.Millis(r.Overlap.Milliseconds())
}

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
	if len(other.differ(&m.KeySet)) == 0 {
		return &db.ConflictError{Reason: "the merchant has these keys already"}
	}
	m.Rotation = &Rotation{Other: other}
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
	type key struct {
		kind int // its place in keyKinds
		text string
	}
	known := map[key]db.Millis{}
	know := func(s *KeySet) {
		texts := s.texts()
		for i, at := range s.Since.all() {
			known[key{i, texts[i]}] = *at
		}
	}
	if prev != nil && prev.Rotation != nil {
		know(&prev.Rotation.Other)
	}
	if prev != nil {
		know(&prev.KeySet)
	}
	date := func(s *KeySet) {
		texts := s.texts()
		for i, at := range s.Since.all() {
			if *at = 0; texts[i] != "" {
				*at = cmp.Or(known[key{i, texts[i]}], now)
			}
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

// Others returns the keys of the other set that differ from those that seal. API keys have no fingerprint if m is
// from a list, because the secrets were not read.
func (m *Merchant) Others() []client.Key {
	if m.Rotation == nil {
		return nil
	}
	return m.Rotation.Other.differ(&m.KeySet)
}

// differ returns the keys of s that are not those of o.
func (s *KeySet) differ(o *KeySet) (list []client.Key) {
	texts, others := s.texts(), o.texts()
	listed := s.Key == nil // the secrets were not read; dates distinguish API keys
	if listed {
		texts[0], texts[1], others[0], others[1] = s.Fingerprint, s.ResponseFingerprint, o.Fingerprint, o.ResponseFingerprint
	}
	since, otherSince := s.Since.all(), o.Since.all()
	for i, kind := range keyKinds {
		if texts[i] == others[i] && (!listed || *since[i] == *otherSince[i]) {
			continue
		}
		if kind == client.KeyAPI || kind == client.KeyCallbackAPI {
			texts[i] = journal.Fingerprint(texts[i])
		}
		list = append(list, client.Key{Kind: kind, Fingerprint: texts[i], Since: *since[i]})
	}
	return list
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
	names := map[client.KeyKind]string{client.KeyRequest: "RequestKey", client.KeyResponse: "ResponseKey",
		client.KeyAPI: "ApiKey", client.KeyCallbackAPI: "CallbackApiKey"}
	for _, k := range m.Others() {
		texts[prefix+names[k.Kind]] = k.Fingerprint
	}
	return texts
}
