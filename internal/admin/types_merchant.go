package admin

import (
	"log/slog"
)

// KeySpec says where an RSA key comes from. At most one member is set.
type KeySpec struct {
	Bits       int    `json:"bits,omitempty" enum:"1024,2048,3072,4096" doc:"make a pair of this size; 1024 only for peers that take nothing else"`
	PrivateKey Secret `json:"privateKey,omitempty" minLength:"1" maxLength:"16384" doc:"a private key, PEM or bare Base64 DER"`
	PublicKey  string `json:"publicKey,omitempty" minLength:"1" maxLength:"16384" doc:"the merchant's public key, PEM or bare Base64 DER; only where the merchant made the pair"`
}

// CodeRange is a range of errCodes, both ends included.
type CodeRange struct {
	From int64 `json:"from" minimum:"1" maximum:"9007199254740991"`
	To   int64 `json:"to" minimum:"1" maximum:"9007199254740991"`
}

// Schedule is when a callback is tried again.
type Schedule struct {
	Delays []Duration `json:"delays" minItems:"1" maxItems:"50" nullable:"false" doc:"before attempt 1, 2, …; each 0s to 168h"`
	Every  Duration   `json:"every,omitzero" doc:"after the last delay, again and again; absent: the schedule ends there; 1s to 168h"`
}

// Retry holds a merchant's own schedules; an absent one is the lane's default.
type Retry struct {
	Notify   *Schedule `json:"notify,omitempty" doc:"of every type but 2"`
	Withdraw *Schedule `json:"withdraw,omitempty" doc:"of type 2; ends with the deadline of the withdrawal"`
}

// NewMerchant is a merchant to be made.
type NewMerchant struct {
	ID             string      `json:"id" pattern:"^[a-z0-9_-]{1,64}$" patternDescription:"1 to 64 of a-z, 0-9, _ and -" example:"acme"`
	Name           string      `json:"name" minLength:"1" maxLength:"200"`
	APIKey         Secret      `json:"apiKey,omitempty" pattern:"^[!-~]{1,256}$" patternDescription:"1 to 256 visible ASCII characters" doc:"what the merchant's responses carry; made and shown once where absent"`
	CallbackAPIKey Secret      `json:"callbackApiKey,omitempty" pattern:"^[!-~]{1,256}$" patternDescription:"1 to 256 visible ASCII characters" doc:"sent in the header X-API-KEY; absent: no such header"`
	NotifyURL      string      `json:"notifyUrl" minLength:"1" maxLength:"2048" example:"https://merchant.example/callbacks/notify"`
	WithdrawURL    string      `json:"withdrawUrl" minLength:"1" maxLength:"2048" doc:"of type 2 alone; differs from notifyUrl" example:"https://merchant.example/callbacks/withdraw"`
	Scheme         string      `json:"scheme,omitempty" enum:"service,merchant,merchant-oaep" default:"service" doc:"who made the pair that requests are sealed with"`
	Key            *KeySpec    `json:"key,omitempty" doc:"request key: bits or privateKey in scheme service (default: a new pair of 2048 bits), publicKey in the others"`
	ResponseKey    *KeySpec    `json:"responseKey,omitempty" doc:"pair that answers are sealed to: bits or privateKey; default: the request pair in scheme service, a new pair of 2048 bits in the others"`
	FinalCodes     []CodeRange `json:"finalCodes,omitempty" minItems:"1" maxItems:"50" nullable:"false" doc:"errCodes that refuse for good, instead of 2000 to 2999"`
	Retry          *Retry      `json:"retry,omitempty"`
	Concurrency    int         `json:"concurrency,omitempty" minimum:"1" maximum:"1000" default:"64" doc:"exchanges at once in each lane"`
	RatePerSecond  float64     `json:"ratePerSecond,omitempty" minimum:"0.01" maximum:"100000" doc:"callbacks a second in each lane; absent: no limit"`
	ConfirmWithin  Duration    `json:"confirmWithin,omitzero" doc:"how long a withdrawal awaits its confirmation: 10s to 168h; default 1h"`
	AllowPrivate   *bool       `json:"allowPrivate,omitempty" doc:"allow URLs on private networks; default: as the service was started"`
	ContentType    string      `json:"contentType,omitempty" minLength:"1" maxLength:"200" doc:"of the requests; default application/x-www-form-urlencoded"`
	Body           string      `json:"body,omitempty" enum:"bare,form,json" default:"bare" doc:"how the sealed text is written"`
}

// LogValue keeps the secrets out of a log.
func (m NewMerchant) LogValue() slog.Value { return slog.StringValue("merchant " + m.ID) }

// MerchantPatch changes the members that are there. Null sets an optional
// member back to its default.
type MerchantPatch struct {
	Name           Patch[string]      `json:"name,omitzero" minLength:"1" maxLength:"200"`
	APIKey         Patch[Secret]      `json:"apiKey,omitzero" pattern:"^[!-~]{1,256}$" patternDescription:"1 to 256 visible ASCII characters"`
	CallbackAPIKey Patch[Secret]      `json:"callbackApiKey,omitzero" nullable:"true" pattern:"^[!-~]{1,256}$" patternDescription:"1 to 256 visible ASCII characters"`
	NotifyURL      Patch[string]      `json:"notifyUrl,omitzero" minLength:"1" maxLength:"2048"`
	WithdrawURL    Patch[string]      `json:"withdrawUrl,omitzero" minLength:"1" maxLength:"2048"`
	FinalCodes     Patch[[]CodeRange] `json:"finalCodes,omitzero" nullable:"true" minItems:"1" maxItems:"50"`
	Retry          Patch[RetryPatch]  `json:"retry,omitzero" doc:"null: both schedules back to their defaults"`
	Concurrency    Patch[int]         `json:"concurrency,omitzero" nullable:"true" minimum:"1" maximum:"1000"`
	RatePerSecond  Patch[float64]     `json:"ratePerSecond,omitzero" nullable:"true" minimum:"0.01" maximum:"100000" doc:"null: no limit"`
	ConfirmWithin  Patch[Duration]    `json:"confirmWithin,omitzero" nullable:"true"`
	AllowPrivate   Patch[bool]        `json:"allowPrivate,omitzero" nullable:"true"`
	ContentType    Patch[string]      `json:"contentType,omitzero" nullable:"true" minLength:"1" maxLength:"200"`
	Body           Patch[string]      `json:"body,omitzero" nullable:"true" enum:"bare,form,json"`
}

// LogValue keeps the secrets out of a log.
func (MerchantPatch) LogValue() slog.Value { return slog.StringValue("merchant patch") }

// RetryPatch changes one schedule or both.
type RetryPatch struct {
	Notify   Patch[Schedule] `json:"notify,omitzero" doc:"null: the default"`
	Withdraw Patch[Schedule] `json:"withdraw,omitzero" doc:"null: the default"`
}

// Merchant is a merchant as it is shown. It holds no key and no API key.
type Merchant struct {
	ID                  string      `json:"id"`
	Name                string      `json:"name"`
	State               string      `json:"state" enum:"active,paused"`
	PausedReason        string      `json:"pausedReason,omitempty"`
	NotifyURL           string      `json:"notifyUrl"`
	WithdrawURL         string      `json:"withdrawUrl"`
	Scheme              string      `json:"scheme" enum:"service,merchant,merchant-oaep"`
	Fingerprint         string      `json:"fingerprint" doc:"SHA-256 of the request key's SubjectPublicKeyInfo, in hex"`
	ResponseFingerprint string      `json:"responseFingerprint" doc:"likewise of the response key"`
	FinalCodes          []CodeRange `json:"finalCodes" nullable:"false"`
	Retry               *Retry      `json:"retry,omitempty" doc:"absent: the defaults"`
	Concurrency         int         `json:"concurrency"`
	RatePerSecond       float64     `json:"ratePerSecond,omitempty" doc:"absent: no limit"`
	ConfirmWithin       Duration    `json:"confirmWithin"`
	AllowPrivate        bool        `json:"allowPrivate"`
	ContentType         string      `json:"contentType"`
	Body                string      `json:"body" enum:"bare,form,json"`
	Version             int64       `json:"version" doc:"grows with every change"`
	Created             Time        `json:"created"`
	Updated             Time        `json:"updated"`
}

// Keys is what a merchant must be given after its keys were made. It is shown
// once.
type Keys struct {
	PublicKey           string   `json:"publicKey,omitempty" doc:"Base64 SubjectPublicKeyInfo of the request pair, where the service holds its private part"`
	ResponsePublicKey   string   `json:"responsePublicKey,omitempty" doc:"likewise of the pair that answers are sealed to, where it is another pair"`
	Fingerprint         string   `json:"fingerprint"`
	ResponseFingerprint string   `json:"responseFingerprint"`
	Warnings            []string `json:"warnings,omitempty" nullable:"false"`
}

// LogValue keeps the keys out of a log.
func (k Keys) LogValue() slog.Value { return slog.StringValue("keys " + k.Fingerprint) }

// CreatedMerchant is a new merchant with what is shown once.
type CreatedMerchant struct {
	Merchant
	PublicKey         string   `json:"publicKey,omitempty" doc:"Base64 SubjectPublicKeyInfo of the request pair, where the service holds its private part"`
	ResponsePublicKey string   `json:"responsePublicKey,omitempty" doc:"likewise of the pair that answers are sealed to, where it is another pair"`
	APIKey            Secret   `json:"apiKey,omitempty" doc:"where the service made it"`
	Warnings          []string `json:"warnings,omitempty" nullable:"false"`
}

// LogValue keeps the secrets out of a log.
func (m CreatedMerchant) LogValue() slog.Value { return slog.StringValue("merchant " + m.ID) }

// NewKeys says which keys of a merchant to make anew. The empty request makes
// a new request pair of 2048 bits in scheme service, and a new response pair
// in the others.
type NewKeys struct {
	Key         *KeySpec `json:"key,omitempty" doc:"request key: bits or privateKey in scheme service, publicKey in the others"`
	ResponseKey *KeySpec `json:"responseKey,omitempty" doc:"pair that answers are sealed to: bits or privateKey"`
}

// LogValue keeps the keys out of a log.
func (NewKeys) LogValue() slog.Value { return slog.StringValue("new keys") }

// MerchantPage is a page of merchants, by id.
type MerchantPage struct {
	Merchants []Merchant `json:"merchants" nullable:"false"`
	Next      *string    `json:"next" doc:"cursor of the page after; null: none"`
}

// Pause says why a merchant is paused.
type Pause struct {
	Reason string `json:"reason,omitempty" minLength:"1" maxLength:"200" doc:"shown with the merchant; default: paused by an operator"`
}
