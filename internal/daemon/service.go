// Package daemon composes the service and the gateway: it starts and stops their database, listeners, sender and
// metrics in one order.
package daemon

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"countersign/client"
	"countersign/internal/admin"
	"countersign/internal/api"
	"countersign/internal/console"
	"countersign/internal/db"
	"countersign/internal/dispatch"
	"countersign/internal/outbox"
)

// ServiceConfig is what NewService needs. A field with a tag is a flag of the command line.
type ServiceConfig struct {
	Listen       string `first:"" help:"Address of the API. Port 0 picks one and logs it." default:"127.0.0.1:8080" placeholder:"ADDR"`
	AllowPrivate bool   `first:"" help:"Let merchants be on private networks or this machine."`
	AllowHTTP    bool   `first:"" name:"allow-http" help:"Let merchants' URLs be http."`
	Common
	MerchantPorts   []uint16      `help:"Ports of merchants on public addresses." default:"443,8443" placeholder:"PORT"`
	MerchantCA      string        `name:"merchant-ca" help:"Authorities in PEM to trust for merchants, beside the system's." placeholder:"FILE"`
	Node            string        `help:"Name of this process. Empty: host and process id." placeholder:"NAME"`
	ExchangeTimeout time.Duration `help:"Longest exchange with a merchant." default:"15s" placeholder:"TIME"`
	// WrapOutbox wraps the sender's outbox, for measurements. Nil: it is not wrapped.
	WrapOutbox func(dispatch.Outbox) dispatch.Outbox `kong:"-"`
}

// Service is the service's end as one process. Use NewService to make one and Run it once.
type Service struct {
	end
	c       ServiceConfig
	roots   *x509.CertPool // trusted for merchants; nil: the system's
	outbox  *outbox.Outbox
	changes *api.Changes
	sender  *dispatch.Dispatcher
	server  *admin.Server
}

// NewService validates c. It opens and starts nothing.
func NewService(c ServiceConfig) (*Service, error) {
	switch {
	case c.Listen == "":
		return nil, errors.New("daemon: ServiceConfig.Listen is missing")
	case slices.Contains(c.MerchantPorts, 0):
		return nil, errors.New("daemon: ServiceConfig.MerchantPorts: 0 is not a port")
	}
	if err := c.validate("ServiceConfig", client.ValuesAt[client.Role](client.AtService), true); err != nil {
		return nil, err
	}
	c.Node = cmp.Or(c.Node, thisProcess())
	c.ExchangeTimeout = cmp.Or(c.ExchangeTimeout, 15*time.Second)
	s := &Service{c: c}
	s.end = end{c: &s.c.Common, addresses: c.listeners(), node: c.Node}
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

// listeners returns the names and addresses of all listeners.
func (c ServiceConfig) listeners() [][2]string {
	return [][2]string{{"api", c.Listen}, {"metrics", c.MetricsListen}}
}

// Check reports what a start would do, without doing it. It creates no file and does not change the database; it binds
// each port for a moment.
func (s *Service) Check(ctx context.Context) []Finding {
	return s.c.check(ctx, false, s.c.TLS, s.c.Log, s.c.listeners())
}

// Open opens the database, makes the files of a first start, builds every part and binds the port, so that faults of
// the configuration show here. Nothing is sent or answered before Run. An opened service must be run or closed. Run
// calls Open if the caller has not.
func (s *Service) Open(ctx context.Context) (err error) {
	c := s.c
	defer s.opened(&err)
	err = s.begin(ctx, beginning{database: outbox.End(), name: "service", purger: outbox.NewPurger,
		leases: func(ctx context.Context, now db.Millis) (int, error) { return outbox.New(s.db).ReclaimAll(ctx, now) }})
	if err != nil {
		return err
	}
	s.outbox = outbox.New(s.db)
	now := s.clock.Now
	if s.changes, err = api.NewChanges(api.ChangesConfig{DB: s.db, Approvals: c.ChangeApprovals, OIDC: c.OIDC,
		Roles: client.ValuesAt[client.Role](client.AtService), Bound: true, Now: now, Log: c.Log}); err != nil {
		return err
	}
	s.figures = newFigures(&s.end, "countersign_", client.ValuesAt[client.AlarmKind](client.AtService), s.scrape)
	rows := dispatch.Outbox(s.outbox)
	if c.WrapOutbox != nil {
		rows = c.WrapOutbox(rows)
	}
	signer, err := openSigningKey(ctx, s.db)
	if err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	if s.sender, err = dispatch.New(dispatch.Config{
		Outbox: rows, Sign: signer, Node: c.Node, Now: now, Log: c.Log, Observer: newServiceFigures(s.figures),
		TargetRules: c.targets(false), Roots: s.roots, ExchangeTimeout: c.ExchangeTimeout,
		Dial: c.World.Dial, Random: c.World.Random, Poll: s.db.Every(time.Second),
	}); err != nil {
		return err
	}
	process, err := s.measure()
	if err != nil {
		return err
	}
	if s.server, err = admin.New(admin.Config{
		Process: process, Outbox: s.outbox, SigningKey: signer.PublicBase64(), Lists: outbox.New(s.db.ForLists()),
		Changes: s.changes, DefaultAllowPrivate: c.AllowPrivate,
		CheckURL: func(rawURL string, allowPrivate bool) error {
			return dispatch.CheckURL(rawURL, c.targets(allowPrivate))
		},
	}); err != nil {
		return err
	}
	return s.serve(ctx, ServiceEnd, c.Listen, c.ExchangeTimeout, s.server.Mux(), s.server.Stop, console.NewService)
}

// Run serves the API and sends callbacks until ctx ends. Then the API accepts no more calls, requests and exchanges
// under way end, and the database is closed.
func (s *Service) Run(ctx context.Context) error {
	if s.db == nil {
		if err := s.Open(ctx); err != nil {
			return err
		}
	}
	c := s.c
	return s.run(ctx, s.server.Leave,
		startedService{Version, c.AllowPrivate, c.AllowHTTP, c.MerchantPorts, c.ChangeApprovals, client.Duration(c.retain())},
		Part{"dispatch", s.sender.Run}, Part{"changes", s.changes.Run}, Part{"rotations", s.server.RunRotations})
}

// targets returns the rules for the targets of callbacks.
func (c ServiceConfig) targets(allowPrivate bool) dispatch.TargetRules {
	return dispatch.TargetRules{AllowHTTP: c.AllowHTTP, AllowPrivate: allowPrivate || c.AllowPrivate,
		Ports: c.MerchantPorts}
}

// startedService is the log's record of a start.
type startedService struct {
	Version         string          `json:"version"`
	AllowPrivate    bool            `json:"allowPrivate,omitempty"`
	AllowHTTP       bool            `json:"allowHttp,omitempty"`
	Ports           []uint16        `json:"merchantPorts,omitempty"`
	ChangeApprovals int             `json:"changeApprovals,omitempty"`
	Retain          client.Duration `json:"retain,omitzero"`
}

// Outbox returns the service's database, which may be used from Open to the end of Run.
func (s *Service) Outbox() *outbox.Outbox { return s.outbox }
