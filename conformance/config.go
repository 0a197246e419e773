package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
)

var (
	// ErrConfig: a field of the Config is missing or not valid.
	ErrConfig = errors.New("conformance settings")

	// ErrPublicAddress: Config.AllowPublic is false, and a host of the endpoint
	// has an address outside this machine and private networks.
	ErrPublicAddress = errors.New("not an address of this machine or a private network")

	// ErrUnreachable: the endpoint's host has no address or takes no connection.
	ErrUnreachable = errors.New("the endpoint cannot be reached")
)

// Credit is one credit that the merchant's application booked for a deposit.
type Credit struct {
	TrackingID string
	Amount     string // decimal, as the application keeps it
}

// ParseCredits reads one credit a line: the trackingId, and behind it the amount. Between the two is white space, a
// comma or a |, as the shells of databases print columns. Other lines, such as a header, do no harm, since nobody asks
// for what they name.
func ParseCredits(text string) (credits []Credit) {
	for line := range strings.Lines(text) {
		f := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n,|\"", r) })
		if len(f) > 0 {
			credits = append(credits, Credit{f[0], strings.Join(f[1:], " ")})
		}
	}
	return credits
}

// Config says which endpoint is checked, and as which service.
type Config struct {
	// NotifyURL and WithdrawURL are the endpoint. Required, absolute, http or https; for Run not equal.
	NotifyURL, WithdrawURL string

	// Key is the service's part of the key of requests: the private part in
	// scheme service, the merchant's public part in the others. Required.
	Key *envelope.Key
	// ResponseKey is the private part that opens answers. Nil: Key.
	ResponseKey *envelope.Key
	// Padding of requests and of answers. Zero: PKCS #1 v1.5.
	Padding, ResponsePadding envelope.Padding

	// APIKey is what the member apiKey of every response must be. Run requires it; for Send, empty: any is right.
	APIKey countersign.APIKey
	// CallbackAPIKey goes into the header X-API-KEY. Empty: no header, and the
	// cases about it are skipped.
	CallbackAPIKey countersign.APIKey
	// APIKeyHeader is another name for that header. Empty: X-API-KEY.
	APIKeyHeader string

	// Sign is the service's own Ed25519 pair, which signs each request (PROTOCOL.md, The signed
	// link); the endpoint must demand it. Nil: requests are not signed.
	Sign *envelope.SigningKey
	// AnswerKey is the public part of the merchant's, which must sign every response. Nil: signatures of responses are
	// not checked. It needs Sign.
	AnswerKey *envelope.SigningKey

	// Interface holds the endpoint to the published interface alone. Of the other cases only those on which money
	// depends run, as advice.
	Interface bool

	// Order is a withdrawal that the endpoint knows and confirms. Nil: the cases
	// about known withdrawals are skipped.
	Order *client.NewOrder
	// User is a tenantUserId that the endpoint knows. Empty: that of Order, or a
	// made-up one.
	User string
	// DepositAddress is the deposit address of User. Empty: made-up addresses.
	DepositAddress string

	// Unbound says that the service does not bind (see the package comment).
	Unbound bool
	// Other says that the service is not of this project: it does not bind, its
	// type 2 has the callBackId alone, and its messages may have the forms that a
	// lenient receiver takes (PROTOCOL.md, Profiles).
	Other bool
	// Ordered: the service is given the details of every withdrawal, so answers
	// need not show that theirs belong to it (PROTOCOL.md, Decision, D7).
	Ordered bool

	// Field is the form field that carries what Send sends. Empty, or data: the body is bare.
	Field string

	// AllowPublic allows requests to addresses outside this machine and private
	// networks.
	AllowPublic bool

	// Timeout of one exchange: how long the service waits for an answer. Zero: 15 seconds, or 40 if Other, since such a
	// merchant may keep the exchange about a withdrawal open (PROTOCOL.md, P1).
	Timeout time.Duration

	// SlowBody is how long the endpoint may wait for the rest of a body that is
	// never sent. Zero: 30 seconds.
	SlowBody time.Duration

	// Effects returns every credit that the endpoint's application booked for the deposits of trackingIDs; a deposit
	// that was credited twice occurs twice. Credits of other deposits are ignored. It is called after each case for
	// the deposits of that case. Nil: credits are not checked.
	Effects func(ctx context.Context, trackingIDs []string) ([]Credit, error)
	// EffectsWait is how long after its answer a deposit may be credited. Zero: 5 seconds.
	EffectsWait time.Duration

	// Restart kills the endpoint, in a way that leaves it no time to save anything, and
	// starts it again with its data. It may return before the endpoint answers. Cases call
	// it up to five times. Nil: those cases are skipped.
	Restart func(ctx context.Context) error

	// Only chooses the cases. Nil: all.
	Only func(Case) bool
}
