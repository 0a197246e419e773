package outbox

import (
	"cmp"
	"encoding/json"
	"slices"
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

// keys returns what may be shown of k's keys, without their dates.
func (k MerchantKeys) keys() []client.Key {
	list := []client.Key{{Kind: client.KeyRequest, Fingerprint: k.Key.Fingerprint()},
		{Kind: client.KeyResponse, Fingerprint: k.response().Fingerprint()},
		{Kind: client.KeyAPI, Fingerprint: journal.Fingerprint(k.APIKey.Reveal())},
		{Kind: client.KeyCallbackAPI, Fingerprint: journal.Fingerprint(k.CallbackAPIKey.Reveal())}}
	return slices.DeleteFunc(list, func(k client.Key) bool { return k.Fingerprint == "" })
}

// KeySet is one of a merchant's sets of keys. Lists have only what is shown of it.
type KeySet struct {
	MerchantKeys `json:"-"`
	Shown        []client.Key
}

func newKeySet(k MerchantKeys) KeySet { return KeySet{k, k.keys()} }

// Of returns what is shown of the key of a kind. It is empty if there is no such key.
func (s *KeySet) Of(kind client.KeyKind) (k client.Key) {
	if i := slices.IndexFunc(s.Shown, func(k client.Key) bool { return k.Kind == kind }); i >= 0 {
		k = s.Shown[i]
	}
	return k
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
