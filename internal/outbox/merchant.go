package outbox

import (
	"countersign/client"
	"countersign/internal/db"
)

// Merchant is what the service knows of one merchant. Its secrets are sealed at rest and
// are empty in lists; Merchant (by id) opens them.
type Merchant struct {
	ID                      string // 1 to 64 of a–z 0–9 _ -
	State                   client.MerchantState
	PausedReason            string // why, if State is MerchantPaused
	Scheme                  client.Scheme
	client.MerchantSettings       // those that are zero are kept as their defaults
	Version                 int64 // grows with every change; caches compare it
	Created                 db.Millis
	Updated                 db.Millis

	Fingerprint         string // of the request key
	ResponseFingerprint string // of the response key

	Since KeySince

	// Rotation is there while keys are replaced. Nil: there is one set of keys.
	Rotation *Rotation

	MerchantKeys // those that seal; never logged, never listed
}

// keyKinds are the kinds of a merchant's keys.
var keyKinds = [...]client.KeyKind{client.KeyRequest, client.KeyResponse, client.KeyAPI, client.KeyCallbackAPI}

// KeySince is since when a merchant has each of its keys, in the order of keyKinds. 0: it has no such key.
type KeySince struct{ Key, ResponseKey, APIKey, CallbackAPIKey db.Millis }

func (s *KeySince) all() [len(keyKinds)]*db.Millis {
	return [...]*db.Millis{&s.Key, &s.ResponseKey, &s.APIKey, &s.CallbackAPIKey}
}
