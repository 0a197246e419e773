package merchant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"countersign"
	"countersign/envelope"
)

// What Config.NotifyPath, WithdrawPath, Timeout, BodyTimeout and MaxBody are
// where they are zero.
const (
	DefaultNotifyPath   = "/callbacks/notify"
	DefaultWithdrawPath = "/callbacks/withdraw"
	DefaultTimeout      = 10 * time.Second
	DefaultBodyTimeout  = 5 * time.Second
)

// Binding says what a Handler demands of the binding of a request
// (PROTOCOL.md, Binding).
type Binding int

const (
	// BindingRequired takes nothing but requests whose binding holds. It is the
	// zero value because it is the only one that a thief of sealed requests
	// cannot get around: against a service that does not bind it refuses every
	// callback, loudly and without loss, since the service asks again, whereas
	// a weaker default would fail in silence and with money.
	BindingRequired Binding = iota

	// BindingWhenPresent refuses a binding that is broken and takes requests
	// without one, under the first-block rule. For services that do not
	// bind or are about to.
	BindingWhenPresent

	// BindingOff looks at no binding. The first-block rule stands for all
	// requests. For a service whose requestUUIDs happen to be UUIDs of version 8.
	BindingOff
)

// String names b as a setting does: required, seen or off.
func (b Binding) String() string {
	switch b {
	case BindingRequired:
		return "required"
	case BindingWhenPresent:
		return "seen"
	case BindingOff:
		return "off"
	}
	return fmt.Sprintf("Binding(%d)", int(b))
}

// ParseBinding inverts Binding.String.
func ParseBinding(s string) (Binding, error) {
	for _, b := range []Binding{BindingRequired, BindingWhenPresent, BindingOff} {
		if s == b.String() {
			return b, nil
		}
	}
	return BindingRequired, fmt.Errorf("binding is off, seen or required")
}

// Config is what New makes a Handler of.
type Config struct {
	// Key opens requests. Required. In scheme service it is the public part
	// that the service handed over; in the schemes where the merchant makes the
	// pair it is the merchant's own, private part included
	// (PROTOCOL.md, Keys).
	Key *envelope.Key
	// Padding is that of requests. Zero: PKCS#1 v1.5.
	Padding envelope.Padding

	// ResponseKey seals answers: the public part of a pair of the service.
	// Nil: Key, which must then have no private part.
	ResponseKey *envelope.Key
	// ResponsePadding is that of answers. Zero: PKCS#1 v1.5.
	ResponsePadding envelope.Padding

	// APIKey is said in every response. Required.
	APIKey countersign.APIKey
	// CallbackAPIKeys are the values of the header X-API-KEY that are taken:
	// one, or two while the service changes from one to the other. Empty: the
	// header is not looked at, and strangers can cost the merchant RSA
	// operations and read APIKey in the response.
	CallbackAPIKeys []countersign.APIKey

	// Binding is what is demanded of the binding. Zero: it must hold.
	Binding Binding
	// Lenient takes requests of services that leave out members on which no
	// effect rests (PROTOCOL.md, Messages). Zero: those are malformed.
	Lenient bool

	// Inbox keeps what was taken and answered. Nil: a MemoryInbox, which
	// forgets everything at the end of the process and so is for a try only.
	Inbox Inbox

	// OnDeposit does the merchant's part of a deposit. A nil error accepts it.
	// It may be called again for one trackingId if the process died, so it
	// must do its work only once for each; see the package comment. Nil:
	// being recorded in the Inbox is all that happens to a deposit.
	OnDeposit func(context.Context, Deposit) error
	// OnPossibleDuplicate does the merchant's part of a deposit that may have
	// been taken before under another trackingId (PROTOCOL.md, Deposit
	// identity). It must not credit without a decision. Nil: such a deposit is
	// recorded in the Inbox as possible duplicate, accepted and logged as a
	// warning, and does not come to OnDeposit.
	OnPossibleDuplicate func(context.Context, Deposit) error
	// OnWithdrawal answers a withdrawal with Confirm, Refuse or Hold. An error
	// confirms nothing; a *CodeError says which errCode is returned. Nil:
	// every order is unknown.
	OnWithdrawal func(context.Context, countersign.WithdrawalRequest) (Answer, error)
	// OnNotice does the merchant's part of types 3 to 7: *WithdrawalDone,
	// *AddressChange, *WithdrawalEnded, *FundsShort of package countersign. A
	// type 4 without trackingId comes once for every attempt, since nothing
	// says which attempts belong together. Nil: accepted and recorded.
	OnNotice func(context.Context, countersign.Callback) error

	// Timeout bounds everything between a parsed request and the end of the
	// merchant's function, waiting for another delivery of the same
	// callback included. Keeping the outcome may take as long again. Zero: 10 s.
	Timeout time.Duration
	// BodyTimeout bounds reading the body. Zero: 5 s.
	BodyTimeout time.Duration
	// MaxBody is the largest body taken, in bytes. Zero, and the most:
	// 65,536 (PROTOCOL.md, HTTP).
	MaxBody int

	// NotifyPath takes types 1 and 3 to 7. Zero: /callbacks/notify.
	NotifyPath string
	// WithdrawPath takes type 2 and must be another path. Zero:
	// /callbacks/withdraw.
	WithdrawPath string

	// Log gets one line for every request. Nil: nothing is logged.
	Log *slog.Logger
	// Now is the clock of leases and records. Nil: time.Now.
	Now func() time.Time
	// Observer counts. Nil: nothing is counted.
	Observer Observer
}

// ErrConfig is what New fails with.
var ErrConfig = errors.New("merchant: configuration")

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrConfig, fmt.Errorf(format, args...))
}

// complete checks c and fills in what is zero.
func (c *Config) complete() error {
	if err := c.completeKeys(); err != nil {
		return err
	}
	if c.APIKey == "" {
		return configError("APIKey is missing: it is said in every response")
	}
	for i, k := range c.CallbackAPIKeys {
		if k == "" {
			return configError("CallbackAPIKeys[%d] is empty; leave the list empty to check none", i)
		}
	}
	switch {
	case c.Binding < BindingRequired || c.Binding > BindingOff:
		return configError("Binding has no meaning")
	case c.Timeout < 0 || c.BodyTimeout < 0:
		return configError("a time-out is negative")
	case c.MaxBody < 0 || c.MaxBody > envelope.MaxBody:
		return configError("MaxBody is not between 1 and %d", envelope.MaxBody)
	}
	setDefault(&c.Timeout, DefaultTimeout)
	setDefault(&c.BodyTimeout, DefaultBodyTimeout)
	setDefault(&c.MaxBody, envelope.MaxBody)
	setDefault(&c.NotifyPath, DefaultNotifyPath)
	setDefault(&c.WithdrawPath, DefaultWithdrawPath)
	for name, path := range map[string]string{"NotifyPath": c.NotifyPath, "WithdrawPath": c.WithdrawPath} {
		if path[0] != '/' {
			return configError("%s does not start with /", name)
		}
	}
	if c.NotifyPath == c.WithdrawPath {
		return configError("NotifyPath and WithdrawPath are the same; type 2 needs a path of its own")
	}
	if c.Inbox == nil {
		c.Inbox = NewMemoryInbox()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// completeKeys finds out at the start what would otherwise fail with the first
// callback.
func (c *Config) completeKeys() error {
	if c.Key.Size() == 0 {
		return configError("Key is missing: it is what the service handed over, for envelope.ParseKey")
	}
	if c.Padding == envelope.OAEP && !c.Key.HasPrivate() {
		return configError("Padding is OAEP, which only the private part opens, and Key has none")
	}
	if c.ResponseKey == nil {
		if c.Key.HasPrivate() {
			return configError("ResponseKey is missing: Key has a private part, so it is not the service's, " +
				"and answers are sealed to a pair of the service")
		}
		c.ResponseKey = c.Key
	}
	if c.ResponseKey.HasPrivate() {
		return configError("ResponseKey has a private part; only the service has that of a pair that opens answers")
	}
	if _, err := envelope.Seal(c.ResponseKey, c.ResponsePadding, []byte("{}")); err != nil {
		return configError("ResponseKey: %w", err)
	}
	if c.Padding != envelope.PKCS1v15 && c.Padding != envelope.OAEP {
		return configError("Padding: %w", envelope.ErrPadding)
	}
	return nil
}
