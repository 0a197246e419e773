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

// keyKinds lists the kinds of a merchant's keys.
var keyKinds = [...]client.KeyKind{client.KeyRequest, client.KeyResponse, client.KeyAPI, client.KeyCallbackAPI}

// texts returns, for each kind of key in the order of keyKinds, a text that identifies the key: the fingerprint of an
// RSA key, or the API key itself. An empty text means that there is no such key.
func (k MerchantKeys) texts() [len(keyKinds)]string {
	return [...]string{k.Key.Fingerprint(), k.response().Fingerprint(), k.APIKey.Reveal(), k.CallbackAPIKey.Reveal()}
}

// KeySince is when a merchant got each of its keys, in the order of keyKinds. 0: it has no such key.
type KeySince struct{ Key, ResponseKey, APIKey, CallbackAPIKey db.Millis }

func (s *KeySince) all() [len(keyKinds)]*db.Millis {
	return [...]*db.Millis{&s.Key, &s.ResponseKey, &s.APIKey, &s.CallbackAPIKey}
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
