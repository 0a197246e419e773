package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// maxBatch is the most deposits or withdrawals in one request.
const maxBatch = 1000

// Server answers the API. Make it with New.
type Server struct {
	Config
	api     *api.API
	keyWork sync.Mutex // see keyMaker
}

// New checks c. It starts nothing.
func New(c Config) (*Server, error) {
	switch {
	case c.Outbox == nil || c.Changes == nil:
		return nil, errors.New("admin: Config.Outbox or Config.Changes is missing")
	case c.CheckURL == nil:
		return nil, errors.New("admin: Config.CheckURL is missing")
	case c.MaxBody < 0 || c.RatePerSecond < 0:
		return nil, errors.New("admin: a limit is below 0")
	}
	if c.Lists == nil {
		c.Lists = c.Outbox
	}
	if c.ingest == nil {
		c.ingest = c.Outbox.IngestWithin
	}
	c.SetDefaults()
	if c.MaxBody == 0 {
		c.MaxBody = 4 << 20
	}
	if c.RatePerSecond == 0 {
		c.RatePerSecond = 2000
	}
	s := &Server{Config: c}
	c.Changes.TellOfWaiting = func(ctx context.Context, now db.Millis) error {
		return s.tasks().TellOfWaiting(ctx, c.Outbox.DB, now)
	}
	c.Changes.Version = func(ctx context.Context, merchant string) (int64, error) {
		m, err := c.Outbox.Merchant(ctx, merchant)
		return m.Version, err
	}
	c.Changes.Handle(api.ChangeMerchant, applied(s, s.patched))
	c.Changes.Handle(api.ChangeRotation, applied(s, func(m *outbox.Merchant, r rotationStep) error { return r.apply(m) }))
	var err error
	s.api, err = api.New(api.Config{
		Process: c.Process, Self: "the service", Title: title, Description: description, TokenDescription: tokenUse,
		Tags:   tags,
		Tokens: c.Changes.Tokens(), MaxBody: c.MaxBody, RatePerSecond: c.RatePerSecond, Concerns: concernsPath,
		Called: s.called, ProblemOf: problemOf,
		Words: api.ServiceWords(), Shape: shapeSettings,
	}, s.table())
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	return s, nil
}

// Handler returns the handler of every route, /healthz, /readyz, /metrics and /openapi.json included.
func (s *Server) Handler() http.Handler { return s.api.Mux() }

// Leave makes /readyz answer 503 while everything else continues.
func (s *Server) Leave() { s.api.Leave() }

// Stop makes waiting requests answer at once, requests of several lines end at their next line, and /readyz answer 503.
// Call it before http.Server.Shutdown, which would otherwise wait for those requests.
func (s *Server) Stop() { s.api.Stop() }
