package outbox

import (
	"countersign"
	"countersign/client"
	"countersign/envelope"
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

	// Secrets. Never logged, never listed.
	APIKey         countersign.APIKey // expected in every response
	CallbackAPIKey countersign.APIKey // sent as X-API-KEY; may be empty
	Key            *envelope.Key      // request key: private part in SchemeService, else the merchant's public part
	ResponseKey    *envelope.Key      // response key with private part; nil: same as Key
}

// KeySince is since when a merchant has each of its keys. 0: it has no such key.
type KeySince struct{ Key, ResponseKey, APIKey, CallbackAPIKey db.Millis }
