package client

import (
	"context"
	"log/slog"
)

// RotationState says which keys of a merchant seal requests while keys are replaced.
type RotationState string

// The states of a rotation.
const (
	RotationStaged RotationState = "staged"
	RotationActive RotationState = "active"
)

var _ = newWords(words[RotationState]{
	{is: RotationStaged, means: "Requests are sealed with the older keys; answers under the newer ones count already."},
	{is: RotationActive, means: "Requests are sealed with the newer keys; answers under the older ones still count."},
})

// KeyKind says what a key is for.
type KeyKind string

// The kinds of keys.
const (
	KeyRequest     KeyKind = "request"      // RSA: seals or opens requests
	KeyResponse    KeyKind = "response"     // RSA: opens or seals answers
	KeyAPI         KeyKind = "api"          // the API key of responses
	KeyCallbackAPI KeyKind = "callback-api" // the X-API-KEY of requests
)

var _ = plainWords(KeyRequest, KeyResponse, KeyAPI, KeyCallbackAPI)

// Key names a key without showing it.
type Key struct {
	Kind        KeyKind `json:"kind" doc:"what it is for"`
	Fingerprint string  `json:"fingerprint,omitempty" doc:"of an RSA key the SHA-256 of its SubjectPublicKeyInfo, of any other the beginning of a SHA-256, in hexadecimal digits"`
	Since       Time    `json:"since,omitzero" doc:"since when it is there"`
}

// Rotation is the time in which a merchant has two sets of keys.
type Rotation struct {
	State     RotationState `json:"state" doc:"which of them seal"`
	Staged    Time          `json:"staged" doc:"when the newer keys were made"`
	Activated Time          `json:"activated,omitzero" doc:"when they began to seal; absent: they do not yet"`
	Until     Time          `json:"until,omitzero" doc:"when the older keys end, unless they are ended before; absent: the newer ones are not active"`
	Others    []Key         `json:"others" nullable:"false" doc:"the keys that do not seal, where they differ from those that do: staged, the newer ones; active, the older ones"`
}

// NewRotation says which keys of a merchant are replaced. The empty request makes a
// new request pair of 2048 bits in scheme service, and a new response pair of 2048 bits in the other
// schemes.
type NewRotation struct {
	Key                *KeySpec `json:"key,omitempty" doc:"request key: bits or privateKey in scheme service, publicKey in the others"`
	ResponseKey        *KeySpec `json:"responseKey,omitempty" doc:"pair that seals answers: bits or privateKey"`
	APIKey             Secret   `json:"apiKey,omitempty" pattern:"^[!-~]{1,256}$" patternDescription:"1 to 256 visible ASCII characters" doc:"the key that the merchant's responses will carry, 1 to 256 visible ASCII characters"`
	CallbackAPIKey     Secret   `json:"callbackApiKey,omitempty" pattern:"^[!-~]{1,256}$" patternDescription:"1 to 256 visible ASCII characters" doc:"the X-API-KEY that requests will carry, 1 to 256 visible ASCII characters"`
	MakeAPIKey         bool     `json:"makeApiKey,omitempty" doc:"in place of apiKey: the service makes one and shows it once"`
	MakeCallbackAPIKey bool     `json:"makeCallbackApiKey,omitempty" doc:"in place of callbackApiKey: the service makes one and shows it once"`
}

// LogValue keeps the keys out of a log.
func (NewRotation) LogValue() slog.Value { return slog.StringValue("new keys") }

// StagedKeys are the newer keys, which the merchant needs. They are shown only
// once.
type StagedKeys struct {
	PublicKey         string    `json:"publicKey,omitempty" doc:"the key with which the merchant opens requests: Base64 SubjectPublicKeyInfo of the request pair; absent if it stays, or the merchant made it"`
	ResponsePublicKey string    `json:"responsePublicKey,omitempty" doc:"the key with which the merchant seals answers: Base64 SubjectPublicKeyInfo of the response pair; absent if it stays, or is the request pair"`
	APIKey            Secret    `json:"apiKey,omitempty" doc:"the API key of responses, where the service made it"`
	CallbackAPIKey    Secret    `json:"callbackApiKey,omitempty" doc:"the X-API-KEY of requests, where the service made it"`
	Rotation          *Rotation `json:"rotation,omitempty" doc:"what was staged"`
	Warnings          []string  `json:"warnings,omitempty" nullable:"false" doc:"dangers of the keys, such as their size"`

	Task string `json:"task,omitempty" doc:"id of the task that an approver must approve before answers under these keys count; absent: they count"`
}

// LogValue keeps the keys out of a log.
func (StagedKeys) LogValue() slog.Value { return slog.StringValue("staged keys") }

// Activation says how long the older keys stay valid.
type Activation struct {
	Overlap Duration `json:"overlap,omitzero" within:"1s to 2160h" doc:"how long after the activation answers under the older keys still count, 1s to 2160h; absent: 168h"`
}

// StageRotation makes a second set of keys of a merchant. The present ones still seal, and answers under either set are
// accepted. Where the answer has a Task, an approver must approve it first.
func (s *Service) StageRotation(ctx context.Context, id string, n NewRotation) (StagedKeys, error) {
	return Post[StagedKeys](ctx, s, Path("merchants", id, "rotation"), n)
}

// StepRotation takes the next step. activate makes the newer keys of a merchant seal, and the older ones stay valid for
// overlap from then on; 0 is 168 h. finish ends the older keys now. cancel ends the newer ones: the older ones seal, alone.
func (s *Service) StepRotation(ctx context.Context, id, step string, overlap Duration) (UpdatedMerchant, error) {
	var in any
	if step == "activate" {
		in = Activation{overlap}
	}
	return Post[UpdatedMerchant](ctx, s, Path("merchants", id, "rotation", step), in)
}
