package client

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
)

// MerchantState says whether a merchant takes part.
type MerchantState string

// The states of a merchant.
const (
	MerchantActive MerchantState = "active"
	MerchantPaused MerchantState = "paused"
)

var _ = newWords(words[MerchantState]{
	{is: MerchantActive, means: "It takes part."},
	{is: MerchantPaused, means: "An operator or an alarm paused it: callbacks are accepted and not sent, and nothing is decided or released."},
})

// Scheme says which end made the RSA pair that seals requests (PROTOCOL.md, Keys).
type Scheme string

// The schemes.
const (
	SchemeService      Scheme = "service"       // the service's; the merchant holds the public part
	SchemeMerchant     Scheme = "merchant"      // the merchant's; the service holds the public part
	SchemeMerchantOAEP Scheme = "merchant-oaep" // likewise, with OAEP and SHA-256 as padding
)

var _ = plainWords(SchemeService, SchemeMerchant, SchemeMerchantOAEP)

// BodyForm is how the sealed text of a request is written in its body
// (PROTOCOL.md, Body forms).
type BodyForm string

// The forms of a body.
const (
	BodyBare BodyForm = "bare" // the Base64 and nothing else
	BodyData BodyForm = "form" // a form whose field data is the Base64
	BodyJSON BodyForm = "json" // a JSON object whose member data is the Base64
)

var _ = plainWords(BodyBare, BodyData, BodyJSON)

// Collect says what an answer must prove about the details of a withdrawal if the service has no order to compare them
// with (PROTOCOL.md, Decision, D7).
type Collect string

// The values of Collect.
const (
	CollectBound Collect = "bound" // the details share blocks with their callBackId or requestUUID
	CollectAny   Collect = "any"   // nothing; whoever has stolen answers can put other details in
)

var _ = plainWords(CollectBound, CollectAny)

// KeySpec says where an RSA key comes from. At most one member is set.
type KeySpec struct {
	Bits       int    `json:"bits,omitempty" enum:"1024,2048,3072,4096" doc:"make a pair with a modulus of this many bits; use 1024 only for peers that accept nothing else"`
	PrivateKey Secret `json:"privateKey,omitempty" minLength:"1" maxLength:"16384" doc:"a private key, PEM or bare Base64 of its DER, of at most 16,384 characters"`
	PublicKey  string `json:"publicKey,omitempty" minLength:"1" maxLength:"16384" doc:"the merchant's public key, PEM or bare Base64 of its DER, of at most 16,384 characters; only if the merchant made the pair"`
}

// Format hides k from every fmt verb. With a verb that does not fit a pointer to k, fmt would print what is in k
// without asking PrivateKey how.
func (k KeySpec) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenSecret)) }

// ProtocolCodes returns the final errCodes of a merchant that follows PROTOCOL.md (E1), such as
// countersign's gateway: 2000 to 2999.
func ProtocolCodes() CodeRanges { return CodeRanges{{From: 2000, To: 2999}} }

// CodeRanges are errCodes.
type CodeRanges []CodeRange

// CodeRange is a range of errCodes, both ends included.
type CodeRange struct {
	From int64 `json:"from" minimum:"1" maximum:"9007199254740991" doc:"the first errCode of the range, 1 to 9007199254740991"`
	To   int64 `json:"to" minimum:"1" maximum:"9007199254740991" doc:"the last errCode of the range, not below from"`
}

// Schedule is when a callback is tried again.
type Schedule struct {
	Delays []Duration `json:"delays" minItems:"1" maxItems:"50" nullable:"false" doc:"waits before attempts 1, 2 and so on; 1 to 50 of them, each 0s to 168h"`
	Every  Duration   `json:"every,omitzero" doc:"wait before each attempt after the last delay, 1s to 168h; absent: the schedule ends with the last delay"`
}

// NewMerchant is a merchant to be made.
type NewMerchant struct {
	ID string `json:"id" pattern:"^[a-z0-9_-]{1,64}$" patternDescription:"1 to 64 of a-z, 0-9, _ and -" doc:"identifies the merchant permanently: 1 to 64 of a-z, 0-9, _ and -" example:"acme"`
	MerchantSettings
	MerchantSecrets
	Scheme      Scheme   `json:"scheme,omitempty" default:"service" doc:"which end made the pair that seals requests"`
	Key         *KeySpec `json:"key,omitempty" doc:"request key: bits or privateKey in scheme service (absent: a new pair of 2048 bits), publicKey in the others"`
	ResponseKey *KeySpec `json:"responseKey,omitempty" doc:"pair that seals answers: bits or privateKey; absent: the request pair in scheme service, a new pair of 2048 bits in the others. A pair apart from the request's is better: then nothing done with answers can forge a request"`
}

// LogValue keeps the secrets out of logs.
func (m NewMerchant) LogValue() slog.Value { return slog.StringValue("merchant " + m.ID) }

// Merchant is a merchant without its secrets: it holds no key and no API key.
type Merchant struct {
	ID string `json:"id" doc:"identifies the merchant permanently"`
	MerchantSettings
	State                     MerchantState   `json:"state" doc:"paused: callbacks are accepted and not sent, and no withdrawal is decided or released"`
	PausedReason              string          `json:"pausedReason,omitempty" doc:"why it is paused"`
	Scheme                    Scheme          `json:"scheme" doc:"which end made the pair that seals requests"`
	Fingerprint               string          `json:"fingerprint" doc:"SHA-256 of the request key's SubjectPublicKeyInfo, in hexadecimal digits"`
	ResponseFingerprint       string          `json:"responseFingerprint" doc:"SHA-256 of the response key's SubjectPublicKeyInfo, in hexadecimal digits"`
	KeySince                  Time            `json:"keySince,omitzero" doc:"since when it has this request key"`
	ResponseKeySince          Time            `json:"responseKeySince,omitzero" doc:"since when it has this response key"`
	APIKeySince               Time            `json:"apiKeySince,omitzero" doc:"since when its responses carry this API key"`
	APIKeyFingerprint         string          `json:"apiKeyFingerprint,omitempty" doc:"the beginning of the SHA-256 of the API key, in hexadecimal digits"`
	CallbackAPIKeyFingerprint string          `json:"callbackApiKeyFingerprint,omitempty" doc:"the same of the X-API-KEY; absent: there is none"`
	CallbackAPIKeySince       Time            `json:"callbackApiKeySince,omitzero" doc:"since when requests carry this X-API-KEY; absent: they carry none"`
	ServiceSigningKey         string          `json:"serviceSigningKey,omitempty" doc:"the public part of the service's signing key, for --service-signing-key of the merchant's gateway: Base64 of its SubjectPublicKeyInfo; only GET /v1/merchants/{id} gives it"`
	Rotation                  *Rotation       `json:"rotation,omitempty" doc:"how far the replacement of its keys is; absent: none is under way"`
	Health                    *MerchantHealth `json:"health,omitempty" doc:"how attempts to tell it something end; absent: there was none, or a change answers"`
	Version                   int64           `json:"version" doc:"increases with every change of the merchant"`
	Created                   Time            `json:"created" doc:"when it was made"`
	Updated                   Time            `json:"updated" doc:"when it was last changed"`
}

// CreatedMerchant is a new merchant with its secrets, which are shown only once.
type CreatedMerchant struct {
	Merchant
	PublicKey         string   `json:"publicKey,omitempty" doc:"the key with which the merchant opens requests: Base64 SubjectPublicKeyInfo of the request pair; absent if the merchant made it. Shown only once"`
	ResponsePublicKey string   `json:"responsePublicKey,omitempty" doc:"the key with which the merchant seals answers: Base64 SubjectPublicKeyInfo of the response pair; absent if that is the request pair. Shown only once"`
	APIKey            Secret   `json:"apiKey,omitempty" doc:"the API key that the merchant's responses must carry; absent if the request gave it. Shown only once"`
	CallbackAPIKey    Secret   `json:"callbackApiKey,omitempty" doc:"the X-API-KEY that requests carry; absent if the request gave it. Shown only once"`
	Warnings          []string `json:"warnings,omitempty" nullable:"false" doc:"what is dangerous about the merchant, such as the size of a key"`
}

// LogValue keeps the secrets out of logs.
func (m CreatedMerchant) LogValue() slog.Value { return slog.StringValue("merchant " + m.ID) }

// UpdatedMerchant is a merchant after a change or a step of a rotation.
type UpdatedMerchant struct {
	Merchant
	Warnings []string `json:"warnings,omitempty" nullable:"false" doc:"what is dangerous about the merchant's settings"`

	Task string `json:"task,omitempty" doc:"id of the task that an approver must approve: nothing has changed yet; absent: it is changed"`
}

// Pause says why a merchant is paused.
type Pause struct {
	Reason string `json:"reason,omitempty" minLength:"1" maxLength:"200" doc:"shown with the merchant, 1 to 200 characters; absent: paused by an operator"`
}

// Resume says how sending is resumed.
type Resume struct {
	Resend bool `json:"resend,omitempty" doc:"make all pending callbacks of the merchant due at once and restart their schedules"`
}

// CreateMerchant makes a merchant and its keys. The answer's keys are shown only
// once.
func (s *Service) CreateMerchant(ctx context.Context, m NewMerchant) (CreatedMerchant, error) {
	return Post[CreatedMerchant](ctx, s, "/v1/merchants", m)
}

// Merchants returns a page of merchants: those whose last attempt failed, then the others, both by id.
func (s *Service) Merchants(ctx context.Context, o PageOptions) (List[Merchant], error) {
	return Get[List[Merchant]](ctx, s, "/v1/merchants", o)
}

// AllMerchants returns every merchant, in the order of Merchants.
func (s *Service) AllMerchants(ctx context.Context) iter.Seq2[Merchant, error] {
	page := func(ctx context.Context, _ struct{}, o PageOptions) (List[Merchant], error) {
		return s.Merchants(ctx, o)
	}
	return All(ctx, page, struct{}{})
}

// Merchant returns one merchant.
func (s *Service) Merchant(ctx context.Context, id string) (Merchant, error) {
	return Get[Merchant](ctx, s, Path("merchants", id))
}

// UpdateMerchant changes the members that p sets. Where the answer has a Task, nothing
// has changed yet: it waits for an approver.
func (s *Service) UpdateMerchant(ctx context.Context, id string, p MerchantPatch) (UpdatedMerchant, error) {
	return ask[UpdatedMerchant](ctx, s, http.MethodPatch, Path("merchants", id), p)
}

// PauseMerchant stops sending to a merchant, deciding its withdrawals and releasing
// them. When it returns, that holds on every node. An empty reason becomes "paused by
// an operator".
func (s *Service) PauseMerchant(ctx context.Context, id, reason string) (Merchant, error) {
	return Post[Merchant](ctx, s, Path("merchants", id, "pause"), Pause{reason})
}

// ResumeMerchant ends the pause of a merchant.
func (s *Service) ResumeMerchant(ctx context.Context, id string, r Resume) (Merchant, error) {
	return Post[Merchant](ctx, s, Path("merchants", id, "resume"), r)
}
