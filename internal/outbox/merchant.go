package outbox

import (
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
)

// MerchantState says whether a merchant takes part.
type MerchantState = client.MerchantState

// Its states.
const (
	MerchantActive  = client.MerchantActive
	MerchantPaused  = client.MerchantPaused
	MerchantDeleted = client.MerchantDeleted
)

// Scheme says whose RSA pair seals requests (PROTOCOL.md, Keys).
type Scheme = client.Scheme

// The schemes.
const (
	SchemeService      = client.SchemeService
	SchemeMerchant     = client.SchemeMerchant
	SchemeMerchantOAEP = client.SchemeMerchantOAEP
)

// Retry is a delay schedule; nil or zero members mean the lane's default.
type Retry struct {
	// Delays in milliseconds before attempt 1, 2, …
	Delays []int64 `json:"delays,omitempty"`
	// Every is the delay after Delays is used up; 0 ends the schedule there.
	Every int64 `json:"every,omitempty"`
}

// CodeRange is a range of errCodes, both ends included.
type CodeRange struct {
	From countersign.ErrCode `json:"from"`
	To   countersign.ErrCode `json:"to"`
}

// Collect is what an answer must show that says the details of a withdrawal, where
// the service has no order to compare them with (PROTOCOL.md, Decision, D7).
type Collect = client.Collect

// What it may be. The empty Collect is CollectBound.
const (
	CollectBound = client.CollectBound
	CollectAny   = client.CollectAny
)

// Settings are the parts of a merchant that only the sender interprets.
type Settings struct {
	FinalCodes    []CodeRange `json:"finalCodes,omitempty"`    // nil: 2000–2999
	NotifyRetry   *Retry      `json:"notifyRetry,omitempty"`   // nil: default
	WithdrawRetry *Retry      `json:"withdrawRetry,omitempty"` // nil: default
	ContentType   string      `json:"contentType,omitempty"`   // empty: application/x-www-form-urlencoded
	Body          string      `json:"body,omitempty"`          // how the body is written: "bare" (default), "form", "json"
	AllowPrivate  bool        `json:"allowPrivate,omitempty"`  // private and loopback targets
	Collect       Collect     `json:"collect,omitempty"`       // empty: CollectBound
}

// Merchant is what the service knows of one merchant. Its secrets are sealed at rest and
// are empty in lists; Merchant (by id) opens them.
type Merchant struct {
	ID            string // 1 to 64 of a–z 0–9 _ -
	Name          string
	State         MerchantState
	PausedReason  string // why, if State is MerchantPaused
	NotifyURL     string
	WithdrawURL   string
	Scheme        Scheme
	Settings      Settings
	Concurrency   int           // exchanges at once per lane; above 0
	RatePerSecond float64       // callbacks a second over both ends of a lane; 0: no limit
	ConfirmWithin time.Duration // default deadline of a withdrawal
	ReleaseWithin time.Duration // how long a confirmed withdrawal can be released; 0: DefaultReleaseWithin
	Version       int64         // grows with every change; caches compare it
	Created       db.Millis
	Updated       db.Millis

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

// DefaultReleaseWithin is how long a confirmed withdrawal can be released, where the
// merchant says nothing else.
const DefaultReleaseWithin = 72 * time.Hour
