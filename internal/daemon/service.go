// Package daemon composes the service and the gateway: their database, listeners, sender and metrics, started and stopped in one order.
package daemon

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"countersign/client"
	"countersign/internal/admin"
	"countersign/internal/api"
	"countersign/internal/bodies"
	"countersign/internal/console"
	"countersign/internal/db"
	"countersign/internal/dispatch"
	"countersign/internal/journal"
	"countersign/internal/outbox"
)

// ServiceConfig is what NewService needs.
type ServiceConfig struct {
	Common
	// Listen is the address of the API. Port 0 picks one. Required.
	Listen string
	// Node names this process in leases and attempts. Empty: host and process id.
	Node string
	// AllowPrivate lets every merchant be on a private network or this machine.
	AllowPrivate bool
	// AllowHTTP lets merchants' URLs be http.
	AllowHTTP bool
	// MerchantPorts are where merchants on public addresses may be called; nil:
	// dispatch.DefaultPorts.
	MerchantPorts []uint16
	// MerchantCA is a file of authorities in PEM that are trusted for merchants beside the
	// system's. Empty: the system's alone.
	MerchantCA string
	// ExchangeTimeout bounds one exchange with a merchant. Zero: 15 s.
	ExchangeTimeout time.Duration
	// Lease is how long a claimed callback belongs to this process. Zero: 30 s
	// longer than an exchange.
	Lease time.Duration
	// DrainTimeout is how long exchanges under way may still take after Run's
	// context has ended. Zero: as long as an exchange.
	DrainTimeout time.Duration
	// WrapOutbox wraps the outbox that the sender uses, for measuring. Nil: it is
	// not wrapped.
	WrapOutbox func(dispatch.Outbox) dispatch.Outbox
}

// Service is the service's end as one process. Make it with NewService and Run it
// once.
type Service struct {
	c       ServiceConfig
	roots   *x509.CertPool // trusted for merchants; nil: the system's
	db      *outbox.Outbox // nil before Open
	clock   *db.Clock
	audit   *journal.Log
	changes *api.Changes
	alarms  *alarmPoster // nil: alarms are not posted
	heart   *heart
	purger  *db.Purger // nil: everything stays
	sender  *dispatch.Dispatcher
	api     *Listener
	metrics *Listener        // nil: the API has them
	console *console.Console // nil: none
	leave   func()           // makes /readyz answer 503
	rotate  func(context.Context) error
	keys    *api.Keys
}

// NewService checks c. It opens and starts nothing.
func NewService(c ServiceConfig) (*Service, error) {
	switch {
	case c.Dir == "":
		return nil, errors.New("daemon: ServiceConfig.Dir is missing")
	case c.Listen == "":
		return nil, errors.New("daemon: ServiceConfig.Listen is missing")
	case slices.Contains(c.MerchantPorts, 0):
		return nil, errors.New("daemon: ServiceConfig.MerchantPorts: 0 is no port")
	case c.Alarms.URL != "" && len(c.Alarms.Secret) == 0 && c.DB != "":
		return nil, ErrAlarmSecret
	}
	if err := c.OIDC.Check(client.Role("").AtService(), true); err != nil {
		return nil, err
	}
	c.Node = cmp.Or(c.Node, thisProcess())
	c.ExchangeTimeout = cmp.Or(c.ExchangeTimeout, 15*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{c: c}
	if c.MerchantCA != "" {
		var err error
		if s.roots, err = x509.SystemCertPool(); err != nil {
			return nil, err
		}
		if err := AddAuthorities(s.roots, "merchant-ca", c.MerchantCA); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// thisProcess names this process among those of one database.
func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// Open opens the database, makes the files of a first start, builds every part and
// binds the port, so that faults of the configuration show here. Nothing is sent or
// answered before Run. A service that was opened must be run or closed. Run calls
// Open if the caller has not.
func (s *Service) Open(ctx context.Context) (err error) {
	c := s.c
	c.OIDC.Dial = c.World.Dial
	if err := c.firstStart(c.TLS, c.listeners(), c.Log); err != nil {
		return err
	}
	d, err := c.open(ctx, c.Log, outbox.End())
	if err != nil {
		return err
	}
	s.db = outbox.New(d)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
			s.db = nil
		}
	}()
	if s.clock, err = db.NewClock(ctx, d, c.Log); err != nil {
		return fmt.Errorf("reading the database's clock: %w", err)
	}
	now := s.clock.Now
	if err := s.reclaim(ctx); err != nil {
		return err
	}
	if s.audit, err = journal.Open(ctx, journal.Config{DB: d, End: "service", Now: now, Log: c.Log}); err != nil {
		return err
	}
	if s.changes, err = api.NewChanges(api.ChangesConfig{DB: d, Delay: c.ChangeDelay, Approvals: c.ChangeApprovals, OIDC: c.OIDC, Roles: client.Role("").AtService(), Bound: true, Now: now, Log: c.Log}); err != nil {
		return err
	}
	if c.Retain > 0 {
		if s.purger, err = outbox.NewPurger(db.PurgeConfig{DB: d, Keep: c.Retain, Now: now, Log: c.Log}); err != nil {
			return err
		}
	}
	metrics := newServiceMetrics(s.db, ground{d, c.Dir, c.TLS}, c.Log, now)
	onAPI := metrics.handler()
	if s.metrics, err = c.TLS.metrics(c.MetricsListen, c.World, onAPI, c.Log); err != nil {
		return err
	}
	if s.metrics != nil {
		onAPI = nil
	}
	rows := dispatch.Outbox(s.db)
	if c.WrapOutbox != nil {
		rows = c.WrapOutbox(rows)
	}
	signer, err := api.OpenSigningKey(ctx, d)
	if err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	if s.sender, err = dispatch.New(dispatch.Config{
		Outbox: rows, Sign: signer, Node: c.Node, Now: now, Log: c.Log, Observer: metrics,
		TargetRules:     c.targets(false),
		Roots:           s.roots,
		ExchangeTimeout: c.ExchangeTimeout, Lease: c.Lease, DrainTimeout: c.DrainTimeout,
		Dial: c.World.Dial, Random: c.World.Random, Poll: d.Every(time.Second), SweepEvery: d.Every(time.Second),
	}); err != nil {
		return err
	}
	s.heart = newHeart(d, c.Node, now)
	if s.keys, err = api.NewKeys(ctx, d, db.MillisOf(now()), auditKey(s.audit), signingKey(signer)); err != nil {
		return err
	}
	metrics.keys = s.keys
	if s.alarms, err = c.alarmPoster(ctx, c.Alarms, d, s.audit, now, c.Log); err != nil {
		return err
	}
	held := bodies.NewShares(c.MaxBodies)
	api, err := admin.New(admin.Config{
		Outbox: s.db, Keys: s.keys, SigningKey: signer.PublicBase64(), Lists: outbox.New(d.Apart()), Audit: s.audit, Tokens: s.changes.Tokens(), Changes: s.changes, Now: now, Log: c.Log, Version: Version, Metrics: onAPI, Node: s.heart.node.ID,
		DefaultAllowPrivate: c.AllowPrivate, Bodies: held, Aside: s.sender.Aside, TestAlarm: s.alarms.tester(),
		CheckURL: func(rawURL string, allowPrivate bool) error {
			return dispatch.CheckURL(rawURL, c.targets(allowPrivate))
		},
	})
	if err != nil {
		return err
	}
	if !c.NoConsole {
		cc := consoleConfig(d, s.audit, held, now, c.Log)
		cc.API = api.Handler()
		if s.console, err = console.NewService(cc); err != nil {
			return err
		}
	}
	if s.api, err = Listen(ListenConfig{Name: "api", Addr: c.Listen, World: c.World, Handler: withConsole(api.Handler(), s.console), TLS: c.TLS, Most: connectionsOf(c.MaxConnections, 4), Drain: c.ExchangeTimeout, Log: c.Log,
		Exposes: exposedAPI, Note: c.noteAddress(ServiceEnd, c.Log)}); err != nil {
		return err
	}
	s.api.beforeStop, s.leave, s.rotate = api.Stop, api.Leave, api.RunRotations
	// Last: a start that fails shows no token and leaves none behind.
	return c.firstToken(journal.At(ctx, c.Node), d, client.RoleAdmin, now(), c.ShowToken)
}

// reclaim ends the leases of an earlier process where no other process can hold
// any. Elsewhere lost leases expire.
func (s *Service) reclaim(ctx context.Context) error {
	if s.db.Dialect().Shared {
		return nil
	}
	lost, err := s.db.ReclaimAll(ctx, db.MillisOf(s.clock.Now()))
	if err != nil {
		return fmt.Errorf("giving back leases: %w", err)
	}
	if lost > 0 {
		s.c.Log.Warn("leases of an earlier process were given back", "callbacks", lost)
	}
	return nil
}

// Run serves the API and sends callbacks until ctx ends. Then the API accepts no
// more calls, requests and exchanges under way end, and the database is closed.
func (s *Service) Run(ctx context.Context) error {
	if s.db == nil {
		if err := s.Open(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := noticed(journal.At(ctx, s.c.Node), s.c.DrainNotice, s.leave)
	defer cancel()
	if err := s.heart.beat(ctx); err != nil { // before it seals anything; see db.Beat
		return errors.Join(err, s.Close())
	}
	if err := s.audit.Started(ctx, startedService{Version, s.c.AllowPrivate, s.c.AllowHTTP, s.c.MerchantPorts, client.Duration(s.c.ChangeDelay), s.c.ChangeApprovals, client.Duration(s.c.Retain)}); err != nil && ctx.Err() == nil { // a stop during the start is no failure
		return errors.Join(fmt.Errorf("audit log: %w", err), s.Close())
	}
	parts := []Part{s.api.part(), {"dispatch", s.sender.Run}, {"clock", s.clock.Run}, {"database", s.db.Run}, s.c.hold(s.db.DB, s.audit), {"alarms", s.alarms.Run}, {"changes", s.changes.Run}, {"rotations", s.rotate}, s.heart.part(), {"retention", s.purger.Run}}
	if s.metrics != nil {
		parts = append(parts, s.metrics.part())
	}
	err := RunParts(ctx, parts...)
	s.heart.stop(ctx)
	s.c.holdLast(ctx, s.db.DB, s.audit)
	return errors.Join(err, s.db.Close())
}

// targets are where callbacks may go to.
func (c ServiceConfig) targets(allowPrivate bool) dispatch.TargetRules {
	return dispatch.TargetRules{AllowHTTP: c.AllowHTTP, AllowPrivate: allowPrivate || c.AllowPrivate, Ports: c.MerchantPorts}
}

// startedService is what the audit log has of a start.
type startedService struct {
	Version         string          `json:"version"`
	AllowPrivate    bool            `json:"allowPrivate,omitempty"`
	AllowHTTP       bool            `json:"allowHttp,omitempty"`
	Ports           []uint16        `json:"merchantPorts,omitempty"`
	ChangeDelay     client.Duration `json:"changeDelay,omitzero"`
	ChangeApprovals int             `json:"changeApprovals,omitempty"`
	Retain          client.Duration `json:"retain,omitzero"`
}

// Close closes a service that was opened and will not be run.
func (s *Service) Close() error {
	if s.db == nil {
		return nil
	}
	var errs []error
	for _, l := range []*Listener{s.api, s.metrics} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(append(errs, s.db.Close())...)
}

// URL is the URL of the API on this machine. It is set by Open.
func (s *Service) URL() string { return s.api.URL() }

// Outbox is the service's database, to be used from Open to the end of Run.
func (s *Service) Outbox() *outbox.Outbox { return s.db }

// Dialect is "sqlite" or "postgres", from Open on.
func (s *Service) Dialect() string { return s.db.Dialect().Name }

// TokenFile is the file with the API's first token.
func (s *Service) TokenFile() string { return s.c.file(TokenFile) }
