package merchant

import (
	"cmp"
	"time"

	"countersign"
)

// Profile says what a provider, the service at the other end, does (PROTOCOL.md,
// Profiles). The zero Profile is that of a service of this project.
type Profile struct {
	// Binding says which bindings are accepted. Zero: BindingRequired.
	Binding Binding
	// Lenient takes requests that lack the members marked L in PROTOCOL.md, M3,
	// or have members in other forms that say the same (M12). Zero: such requests
	// are malformed.
	Lenient bool
	// Header is the header that carries the callback API key. Empty: X-API-KEY.
	Header string
	// BodyField is the form field or the member of a JSON object that carries the
	// Base64, where the body is not the bare Base64 (PROTOCOL.md, F2). Empty: data.
	BodyField string

	// Hold says how a withdrawal that OnWithdrawal holds is answered. Zero: HoldAsk.
	Hold HoldMode
	// Wait is how long HoldWait keeps an exchange open, at most 90 s. Zero: 8 s, below the
	// 10 s that most HTTP clients wait. The http.Server's WriteTimeout must be longer.
	Wait time.Duration
	// MaxWaiting is how many exchanges HoldWait keeps open at once, at most 4 of them
	// about one withdrawal; what exceeds it is answered like HoldAsk. Zero: 64.
	MaxWaiting int

	// HoldCode, RefuseCode and RetryCode are what the provider gets in place of this
	// project's codes for "ask again", "refused for good" and "not now, or not understood"
	// (PROTOCOL.md, Error codes). Zero: this project's codes. Codes outside of 1000 to 3999
	// that the merchant's functions choose themselves stay.
	HoldCode, RefuseCode, RetryCode countersign.ErrCode
}

// OtherProvider is the Profile of a service that is not of this project and of which
// nothing more is known: it does not bind, may differ in the forms of members, and
// may take any errCode but 0 for a refusal.
func OtherProvider() Profile {
	return Profile{Binding: BindingWhenPresent, Lenient: true, Hold: HoldWait}
}

// The values of Profile.Header and BodyField if they are zero.
const (
	DefaultHeader    = "X-API-KEY"
	DefaultBodyField = "data"
)

// maxWait bounds Profile.Wait. The listeners of the gateway end a response after
// two minutes.
const maxWait = 90 * time.Second

// Binding says which bindings of requests a Handler accepts (PROTOCOL.md,
// Binding).
type Binding int

const (
	// BindingRequired accepts only requests whose binding holds (B4). It is the
	// zero value because it is the only setting that stops an attacker with
	// stolen sealed requests. With a service that does not bind, it refuses
	// every callback, but loses none, because the service asks again. A weaker
	// default would fail unnoticed and lose money.
	BindingRequired Binding = iota

	// BindingWhenPresent refuses broken bindings and accepts requests without
	// one under the rules of seen blocks (B5 and B7). It is for services that do
	// not bind. Settings and the log call it "seen".
	BindingWhenPresent

	// BindingOff checks no binding and applies those rules to all
	// requests. It is for a service that does not bind but whose requestUUIDs
	// are UUIDs of version 8.
	BindingOff
)

// String returns the name of b as settings have it: required, seen or off.
func (b Binding) String() string { return bindingNames.of("Binding", int(b)) }

var bindingNames = names{"required", "seen", "off"}

// ParseBinding inverts Binding.String.
func ParseBinding(s string) (Binding, error) {
	b, err := bindingNames.parse("binding", s)
	return Binding(b), err
}

// HoldMode says what the provider gets for a withdrawal that is held.
type HoldMode int

const (
	// HoldAsk answers at once with a code that makes the provider ask again.
	HoldAsk HoldMode = iota
	// HoldWait first keeps the exchange open for the merchant to decide. It is for
	// providers to which any errCode but 0 may be a refusal.
	HoldWait
)

// String returns the name of h as settings have it: ask or wait.
func (h HoldMode) String() string { return holdNames.of("HoldMode", int(h)) }

var holdNames = names{"ask", "wait"}

// ParseHold inverts HoldMode.String.
func ParseHold(s string) (HoldMode, error) {
	h, err := holdNames.parse("hold", s)
	return HoldMode(h), err
}

// CanHold reports whether the provider is known to ask again after an answer that holds.
func (p Profile) CanHold() bool { return p.Hold == HoldAsk || p.HoldCode != 0 }

// code returns the errCode that the provider gets for c.
func (p Profile) code(c countersign.ErrCode) countersign.ErrCode {
	switch class := c.Class(); {
	case class == countersign.ClassHold:
		return cmp.Or(p.HoldCode, c)
	case class == countersign.ClassRefused:
		return cmp.Or(p.RefuseCode, c)
	case class == countersign.ClassNotUnderstood || c == countersign.CodeInternal:
		return cmp.Or(p.RetryCode, c)
	}
	return c
}
