package admin

import (
	"context"
	"sync"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Config is what a Server needs.
type Config struct {
	api.Process
	// Outbox is required.
	Outbox *outbox.Outbox
	// Lists is Outbox with separate connections, for the calls that read lists. Nil: Outbox.
	Lists *outbox.Outbox
	// Changes keeps the service's tokens, and the changes that wait for an approver. New sets how changes of merchants are
	// applied. Required.
	Changes *api.Changes
	// SigningKey is the public part of the service's signing key, which merchants get. Empty: there is none.
	SigningKey string
	// CheckURL returns an error if a merchant's URL may not be called. The caller sees the error. Required.
	CheckURL func(rawURL string, allowPrivate bool) error
	// DefaultAllowPrivate is the default of a merchant's allowPrivate. If it is false, no call of the API can set
	// allowPrivate to true.
	DefaultAllowPrivate bool
	// MaxBody is the longest body in bytes. 0: 4 MiB, which holds 1,000 deposits of 4 KiB.
	MaxBody int64
	// RatePerSecond is how many requests a second one token may make, and how many at once. 0: 2,000.
	RatePerSecond float64

	ingest func(ctx context.Context, list []outbox.NewCallback, quota outbox.Quota,
		now db.Millis) ([]client.Accepted, error) // tests let it fail
}

// Server answers the API. Make it with New.
type Server struct {
	Config
	*api.API
	keyWork sync.Mutex // see keyMaker
}
