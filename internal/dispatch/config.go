package dispatch

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Outbox has the methods of outbox.Outbox that a Dispatcher needs.
type Outbox interface {
	Claim(context.Context, outbox.ClaimRequest) ([]outbox.Claimed, error)
	NextDue(ctx context.Context, lane countersign.Lane, share int) (db.Millis, error)
	Settle(context.Context, []outbox.Settlement, db.Millis) ([]outbox.Settled, error)
	GiveBack(context.Context, []outbox.Claimed, db.Millis) error
	Sweep(context.Context, db.Millis) (outbox.Swept, error)
	Merchant(context.Context, string) (outbox.Merchant, error)
	Watch(db.Topic) (<-chan struct{}, func())
}

// Observer counts what a Dispatcher does, for metrics. Its methods are called from many goroutines and must be fast.
type Observer interface {
	// Attempt is called after each attempt: one POST, or the failure to make one.
	Attempt(lane countersign.Lane, t countersign.Type, result client.AttemptResult, reason client.Reason,
		took time.Duration)
	RSA(operation string, took time.Duration)
	// Claimed is called after a claim of n callbacks.
	Claimed(lane countersign.Lane, n int)
	// Settled is called after a transaction that settled n attempts.
	Settled(n int, took time.Duration)
	// Decided is called for every decision.
	Decided(countersign.Decision)
	// Swept is called after a sweep that changed something.
	Swept(outbox.Swept)
	// InFlight is called with the number of callbacks of a lane that this node has claimed and not settled.
	InFlight(lane countersign.Lane, n int)
}

// Config has the settings of a Dispatcher.
type Config struct {
	Outbox   Outbox           // required
	Node     string           // required: names this process in leases and attempts
	Now      func() time.Time // nil: time.Now. On PostgreSQL, corrected to the database's clock
	Log      *slog.Logger     // nil: discards
	Observer Observer         // required

	TargetRules                // of every merchant; AllowPrivate can be set for a single one too
	Roots       *x509.CertPool // trusted for TLS; nil: the system's

	// Dial opens connections to merchants, whose addresses are then not checked. Nil: the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Sign is the service's key pair of the signed link. Nil: merchants with an answerKey cannot be sent anything.
	Sign *envelope.SigningKey
	// Random returns numbers in [0, 1) that spread retries. Nil: rand.Float64.
	Random func() float64

	// ExchangeTimeout bounds one exchange, up to the last byte of the response. Exchanges in flight may continue for as
	// long after Run's context has ended. 0: 15 s.
	ExchangeTimeout time.Duration

	// Width is how many callbacks of each lane this node works on at once. Most of them wait for their merchant, which
	// costs a goroutine and a socket, some 50 KB together. 0: 5000, or a quarter of the file descriptors that this
	// process may have if that is less.
	Width int

	RSA  int           // cores for RSA; one more operation than cores runs at once. 0: GOMAXPROCS
	Poll time.Duration // longest wait between two claims, and between two sweeps. 0: 1 s
}

// LeaseMargin is how much longer than an exchange a lease must be: time to seal before it, to open and settle after it,
// and for differing clocks.
const LeaseMargin = 5 * time.Second

func (c *Config) setDefaults() error {
	if c.Outbox == nil {
		return errors.New("dispatch: no Outbox")
	}
	if c.Node == "" || c.Observer == nil {
		return errors.New("dispatch: no Node or Observer")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Random == nil {
		c.Random = rand.Float64
	}
	c.ExchangeTimeout = cmp.Or(c.ExchangeTimeout, 15*time.Second)
	c.Width = cmp.Or(c.Width, max(1, min(5000, Descriptors()/4)))
	c.RSA = cmp.Or(c.RSA, runtime.GOMAXPROCS(0))
	c.Poll = cmp.Or(c.Poll, time.Second)
	if c.ExchangeTimeout < 0 || c.Width < 0 || c.RSA < 0 || c.Poll < 0 {
		return errors.New("dispatch: a setting is below 0")
	}
	return nil
}

// lease returns the length of a claim's lease.
func (c *Config) lease() time.Duration {
	return c.ExchangeTimeout + min(30*time.Second, max(LeaseMargin, 2*c.ExchangeTimeout))
}
