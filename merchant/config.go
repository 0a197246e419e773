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

// The values of Config.NotifyPath, WithdrawPath, Timeout and BodyTimeout if they are zero.
const (
	DefaultNotifyPath   = "/callbacks/notify"
	DefaultWithdrawPath = "/callbacks/withdraw"
	DefaultTimeout      = 10 * time.Second
	DefaultBodyTimeout  = 5 * time.Second
)

// Config has the settings of a Handler.
type Config struct {
	// Key opens requests. Required. In scheme service it is the public part
	// that the service handed over; in the schemes where the merchant makes the
	// pair it is that pair, private part included (PROTOCOL.md, K2 and K3).
	Key *envelope.Key
	// Padding is that of requests. Zero: PKCS#1 v1.5.
	Padding envelope.Padding

	// ResponseKey seals answers: the public part of a pair of the service.
	// Nil: Key, which must then have no private part.
	ResponseKey *envelope.Key
	// ResponsePadding is that of answers. Zero: PKCS#1 v1.5.
	ResponsePadding envelope.Padding

	// NextKey opens requests that Key does not open, while the service changes from
	// one to the other, in either order. It has a private part if and only if Key has
	// one. Nil: Key alone opens.
	NextKey *envelope.Key
	// NextResponseKey seals the answers to requests that NextKey opened. Nil:
	// ResponseKey if that is another pair than Key, otherwise NextKey.
	NextResponseKey *envelope.Key

	// Sign is the merchant's own pair of the signed link: it signs every response to a
	// request that is signed (PROTOCOL.md, L9). Nil: no response is signed.
	Sign *envelope.SigningKey
	// ServiceSigner is the service's public part of the signed link. Requests that it did not sign are refused
	// (PROTOCOL.md, L11). Nil: signatures of requests are not checked.
	ServiceSigner *envelope.SigningKey
	// NextServiceSigner is accepted as well, while the service replaces its key.
	NextServiceSigner *envelope.SigningKey
	// PublicURL is the beginning of the URL that the service posts to, without the path of this handler, such as
	// https://pay.shop.example. The signatures of requests cover it. Required with ServiceSigner.
	PublicURL string

	// APIKey goes into every response. Required.
	APIKey countersign.APIKey
	// CallbackAPIKeys are the accepted values of Profile.Header: one, or
	// two while the service changes from one to the other. Required where Key has
	// a private part, because its public part can forge callbacks (PROTOCOL.md,
	// K8). Otherwise empty means that the header is not checked: strangers can
	// read APIKey in the response, cause RSA operations, and post recorded bodies
	// again.
	CallbackAPIKeys []countersign.APIKey

	// Profile says what the provider does. Zero: it is a service of this project.
	// For others begin with OtherProvider.
	Profile Profile

	// Inbox records callbacks and answers. Required. NewMemoryInbox, which forgets
	// everything when the process ends, is only for trying out. A Transactor, such as
	// that of package sqlinbox, has functions of its own in place of those below.
	Inbox Inbox

	// Verify is the merchant's own check of a deposit before it counts: by a node or an explorer of the chain, or the
	// provider's query API. Yes lets it count. No refuses it with errCode 2003. Not yet, an error and a call that takes
	// too long answer with errCode 3002, so that the service asks again. It is called before anything is credited,
	// while no transaction is open. It is not called for a repetition or for a deposit that awaits a person. Several
	// processes may call it for one deposit at once. Nil: the service is believed.
	Verify func(context.Context, countersign.Deposit) (Verdict, error)
	// VerifyWait is how long an exchange waits for Verify. After it Verify goes on,
	// and the next attempt gets its result. At most Timeout. Zero: 1.5 s.
	VerifyWait time.Duration
	// VerifyTimeout bounds one call of Verify. Zero: 1 min.
	VerifyTimeout time.Duration
	// VerifyFor is how long after its first attempt an unverified deposit is held. After that it is refused with
	// errCode 2003 whenever the service sends it, until Verify says yes. With an Inbox that does not set
	// Claimed.Recorded it is held until the service gives up. Zero: 24 h.
	VerifyFor time.Duration

	// OnDeposit does the merchant's part of a deposit. A nil error accepts it.
	// It may be called again for a trackingId if the process died, so it must
	// credit a trackingId only once; see the package comment. Nil: deposits are
	// only recorded in the Inbox.
	OnDeposit func(context.Context, Deposit) error
	// OnPossibleDuplicate does the merchant's part of a deposit that may have been accepted
	// before under another trackingId (PROTOCOL.md, I2), or that may be joined from several
	// (B7, Deposit.Suspect); OnDeposit is not called for it. It must not credit before a
	// person has decided. Required where there is an OnDeposit, since somebody must decide;
	// KeepForReview leaves such deposits in the Inbox and in the log.
	OnPossibleDuplicate func(context.Context, Deposit) error
	// OnWithdrawal answers a withdrawal with Confirm, Refuse or Hold. An error confirms nothing; a *CodeError says
	// which errCode is returned. It is called again for each repetition of a confirmed question. It must then refuse
	// with countersign.CodeOrderCancelled (2005) if the withdrawal has ended (PROTOCOL.md, I1); its details do not
	// count. Nil: every order is unknown.
	OnWithdrawal func(context.Context, countersign.WithdrawalRequest) (Answer, error)
	// OnAnswer is called with every answer that confirms or refuses a withdrawal, repeated
	// ones too, before it is sent. If it fails, the service gets errCode 5000 and asks
	// again. Nil: nothing is called.
	OnAnswer func(context.Context, Exchange) error
	// OnRefused is called with every request that is refused although it opened, or although
	// it came with one of CallbackAPIKeys, and with every deposit that Verify holds. It is
	// called before the provider is answered, since some never send a request again, and may
	// block for Timeout. Handler.Retry takes such a request later. Nil: nothing is called.
	OnRefused func(context.Context, Refused)
	// OnHeld blocks until OnWithdrawal may have another answer to w than Hold, or
	// until ctx ends. It is called while Profile.Hold keeps an exchange open;
	// OnWithdrawal is called again after it. Nil: OnWithdrawal is called every second.
	OnHeld func(ctx context.Context, w countersign.WithdrawalRequest)
	// OnNotice does the merchant's part of the notices: *WithdrawalDone,
	// *AddressChange, *WithdrawalEnded, *WithdrawalNotice of package countersign. A
	// type 4 without trackingId comes once for every attempt, because nothing
	// says which attempts belong together. Nil: notices are only recorded.
	OnNotice func(context.Context, countersign.Callback) error

	// Timeout bounds the time from a parsed request to the end of the merchant's
	// function, including the wait for another delivery of the same callback.
	// Recording the answer may take as long again. Zero: 10 s.
	Timeout time.Duration
	// BodyTimeout bounds the time to read the body. Zero: 5 s.
	BodyTimeout time.Duration
	// MaxBody is the largest accepted body, in bytes, at most 65,536
	// (PROTOCOL.md, H2). Zero: 65,536.
	MaxBody int
	// MaxBodies is how many bytes of bodies are held at once, in all requests together.
	// A request beyond it gets status 503 with Retry-After. Zero: 256 MiB.
	MaxBodies int64
	// MaxOpening is how many requests the private part of Key opens at once.
	// Zero: one for each processor (GOMAXPROCS). It has no effect if Key has no
	// private part.
	MaxOpening int
	// MaxWaitingBlocks is how many blocks of RSA may wait for that, in all
	// requests together. A request beyond it, and one that has waited for
	// Timeout, gets status 503 with Retry-After. Zero: 4,096, some 800 deposits
	// at 1024 bits; a body of the largest size has 384 blocks at 1024 bits.
	MaxWaitingBlocks int

	// NotifyPath takes every type but 2. Zero: /callbacks/notify.
	NotifyPath string
	// WithdrawPath takes type 2 and must be another path. Zero:
	// /callbacks/withdraw.
	WithdrawPath string

	// Log gets one line for every request. Nil: slog.Default().
	Log *slog.Logger
	// Now is the clock of leases and records. Nil: time.Now.
	Now func() time.Time
	// Observer counts requests. Nil: none are counted.
	Observer Observer
}

// ErrConfig is wrapped by all errors of New.
var ErrConfig = errors.New("merchant: configuration")

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrConfig, fmt.Errorf(format, args...))
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
