package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/api"
	"countersign/internal/bodies"
	"countersign/internal/book"
	"countersign/internal/console"
	"countersign/internal/db"
	"countersign/internal/gateway"
	"countersign/internal/journal"
	"countersign/internal/policy"
	"countersign/internal/signed"
	"countersign/merchant"
)

// GatewayConfig is what NewGateway needs.
type GatewayConfig struct {
	Common
	// Listen is the public address that the service posts callbacks to, APIListen
	// the private one of the API. Port 0 picks one. Required.
	Listen, APIListen string
	// Callbacks configures the public handler: keys, API keys, binding, paths,
	// time-outs. Its Inbox, functions, Log, Now and Observer are ignored.
	Callbacks merchant.Config
	// Learn is gateway.Config.Learn.
	Learn bool
	// WrapCallbacks wraps the public handler, for merchants that misbehave on
	// purpose. Nil: it is not wrapped.
	WrapCallbacks func(http.Handler) http.Handler
	// Policy decides on orders that agree with what the service asks for. Nil:
	// exact orders are confirmed and nothing else.
	Policy policy.Policy
	// Grace is how long the service is told to ask again for an order that is not
	// known. Zero: 30 s. Below zero: none.
	Grace time.Duration
	// TakeAddresses is gateway.Config.TakeAddresses.
	TakeAddresses bool
	// ConfirmWithin is how long the service waits for a confirmation; see gateway.Config. For people who
	// approve. Zero: an hour.
	ConfirmWithin time.Duration
	// Forward tells the merchant's application of every deposit and event. Zero:
	// nothing is forwarded. An empty Secret stands for the one in Dir, made on
	// first start; with DB it is ErrForwardSecret.
	Forward gateway.Forwarding
	// Verify asks the merchant's own check about every deposit before it counts. Zero:
	// nobody is asked. An empty Secret stands for the one in Dir, made on first start; with
	// DB it is ErrVerifySecret.
	Verify gateway.Verifying
}

// ErrForwardSecret: a gateway forwards and shares its database with others, but was
// not given the secret that all of them must sign with.
var ErrForwardSecret = errors.New("gateways of one database must sign with one secret")

// ErrVerifySecret is the same for the questions about deposits.
var ErrVerifySecret = errors.New("gateways of one database must sign their questions with one secret")

// Gateway is the merchant's end as one process. Make it with NewGateway and Run
// it once.
type Gateway struct {
	c         GatewayConfig
	db        *db.DB // nil before Open
	book      *book.Book
	clock     *db.Clock
	audit     *journal.Log
	alarms    *alarmPoster // nil: alarms are not posted
	heart     *heart
	purger    *db.Purger // nil: everything stays
	gateway   *gateway.Gateway
	callbacks *Listener
	api       *Listener
	metrics   *Listener        // nil: the API has them
	console   *console.Console // nil: none
}

// NewGateway checks c. It opens and starts nothing.
func NewGateway(c GatewayConfig) (*Gateway, error) {
	switch {
	case c.Dir == "":
		return nil, errors.New("daemon: GatewayConfig.Dir is missing")
	case c.Listen == "" || c.APIListen == "":
		return nil, errors.New("daemon: GatewayConfig.Listen or APIListen is missing")
	case c.Forward.URL != "" && len(c.Forward.Secret) == 0 && c.DB != "":
		return nil, ErrForwardSecret
	case c.Verify.URL != "" && len(c.Verify.Secret) == 0 && c.DB != "":
		return nil, ErrVerifySecret
	case c.Alarms.URL != "" && len(c.Alarms.Secret) == 0 && c.DB != "":
		return nil, ErrAlarmSecret
	}
	if err := c.OIDC.Check(client.Role("").AtGateway(), false); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Gateway{c: c}, nil
}

// Open opens the database, makes the files of a first start, builds every part and
// binds the ports, so that faults of the configuration show here. No request is
// answered before Run. A gateway that was opened must be run or closed. Run calls
// Open if the caller has not.
func (g *Gateway) Open(ctx context.Context) (err error) {
	c := g.c
	c.OIDC.Dial = c.World.Dial
	if err := c.firstStart(c.TLS, c.listeners(), c.Log); err != nil {
		return err
	}
	if g.db, err = c.open(ctx, c.Log, book.End()); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
			g.db = nil
		}
	}()
	g.book = book.New(g.db, book.Config{})
	if g.clock, err = db.NewClock(ctx, g.db, c.Log); err != nil {
		return fmt.Errorf("reading the database's clock: %w", err)
	}
	now := g.clock.Now
	if err := g.freeLeases(ctx); err != nil {
		return err
	}
	if c.Forward.URL != "" && len(c.Forward.Secret) == 0 {
		if c.Forward.Secret, err = c.signingSecret(ForwardSecretFile); err != nil {
			return fmt.Errorf("forward secret: %w", err)
		}
	}
	if c.Verify.URL != "" && len(c.Verify.Secret) == 0 {
		if c.Verify.Secret, err = c.signingSecret(VerifySecretFile); err != nil {
			return fmt.Errorf("verify secret: %w", err)
		}
	}
	c.Callbacks.MaxBodies = c.MaxBodies
	if c.Callbacks.Sign == nil {
		if c.Callbacks.Sign, err = api.OpenSigningKey(ctx, g.db); err != nil {
			return fmt.Errorf("signing key: %w", err)
		}
	}
	if g.audit, err = journal.Open(ctx, journal.Config{DB: g.db, End: "merchant", Now: now, Log: c.Log}); err != nil {
		return err
	}
	if c.Retain > 0 {
		if g.purger, err = book.NewPurger(db.PurgeConfig{DB: g.db, Keep: c.Retain, Now: now, Log: c.Log}); err != nil {
			return err
		}
	}
	metrics := newGatewayMetrics(g.book, ground{g.db, c.Dir, c.TLS}, c.Log, now)
	onAPI := metrics.handler()
	if g.metrics, err = c.TLS.metrics(c.MetricsListen, c.World, onAPI, c.Log); err != nil {
		return err
	}
	if g.metrics != nil {
		onAPI = nil
	}
	g.heart = newHeart(g.db, thisProcess(), now)
	if metrics.keys, err = api.NewKeys(ctx, g.db, db.MillisOf(now()), append(gatewayKeys(c.Callbacks), auditKey(g.audit), signingKey(c.Callbacks.Sign))...); err != nil {
		return err
	}
	if g.alarms, err = c.alarmPoster(ctx, c.Alarms, g.db, g.audit, now, c.Log); err != nil {
		return err
	}
	held := bodies.NewShares(c.MaxBodies)
	if g.gateway, err = gateway.New(gateway.Config{
		DB: g.db, Audit: g.audit, Keys: metrics.keys, Callbacks: c.Callbacks, Learn: c.Learn, Policy: c.Policy, Grace: c.Grace, TakeAddresses: c.TakeAddresses, ConfirmWithin: c.ConfirmWithin, ChangeDelay: c.ChangeDelay, ChangeApprovals: c.ChangeApprovals, OIDC: c.OIDC, Forward: c.Forward, Verify: c.Verify,
		Bodies:    held,
		TestAlarm: g.alarms.tester(),
		Node:      g.heart.node.ID,
		Dial:      c.World.Dial,
		Random:    c.World.Random,
		Metrics:   onAPI, Observer: metrics, Now: now, Log: c.Log, Version: Version,
	}); err != nil {
		return err
	}
	if err := g.gateway.BeginForwarding(ctx); err != nil {
		return err
	}
	handler := g.gateway.Callbacks()
	if c.WrapCallbacks != nil {
		handler = c.WrapCallbacks(handler)
	}
	// The longest that a request may take: to handle a callback, and to record the
	// answer.
	drain := 2*cmp.Or(c.Callbacks.Timeout, merchant.DefaultTimeout) + 5*time.Second
	if g.callbacks, err = Listen(ListenConfig{Name: "callbacks", Addr: c.Listen, World: c.World, Handler: handler, AnyHost: true, TLS: c.TLS.WithoutClients(), Most: connectionsOf(c.MaxConnections, 2), Drain: drain, Log: c.Log,
		Exposes: "the apiKey and errCode of responses, and which requests arrive"}); err != nil {
		return err
	}
	if !c.NoConsole {
		cc := consoleConfig(g.db, g.audit, held, now, c.Log)
		cc.API = g.gateway.API()
		if g.console, err = console.NewGateway(cc); err != nil {
			return err
		}
	}
	if g.api, err = Listen(ListenConfig{Name: "api", Addr: c.APIListen, World: c.World, Handler: withConsole(g.gateway.API(), g.console), TLS: c.TLS, Most: connectionsOf(c.MaxConnections, 4), Drain: drain, Log: c.Log,
		Exposes: exposedAPI, Note: c.noteAddress(GatewayEnd, c.Log)}); err != nil {
		return err
	}
	g.api.beforeStop = g.gateway.Stop
	// Last: a start that fails shows no token and leaves none behind.
	return c.firstToken(journal.At(ctx, thisProcess()), g.db, client.RoleAdmin, now(), c.ShowToken)
}

// freeLeases ends the leases of an earlier process that died, so that its questions
// are decided without delay. It does so only where no other process can hold
// leases.
func (g *Gateway) freeLeases(ctx context.Context) error {
	if g.db.Dialect().Shared {
		return nil
	}
	n, err := g.book.FreeLeases(ctx)
	if err != nil {
		return fmt.Errorf("giving back leases: %w", err)
	}
	if n > 0 {
		g.c.Log.Warn("leases of an earlier process were given back", "callbacks", n)
	}
	return nil
}

// signingSecret reads a secret of the data directory; the first start makes it.
func (s Storage) signingSecret(name string) (signed.Secret, error) {
	var fresh [32]byte
	_, _ = rand.Read(fresh[:]) // never fails
	text, err := keepSecret(s.file(name), "whsec_"+base64.StdEncoding.EncodeToString(fresh[:]))
	if err != nil {
		return nil, err
	}
	return signed.ParseSecret(text)
}

// Run takes callbacks, serves the API and forwards until ctx ends. Then both
// listeners accept no more requests, the work under way ends, and the database is
// closed.
func (g *Gateway) Run(ctx context.Context) error {
	if g.db == nil {
		if err := g.Open(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := noticed(journal.At(ctx, thisProcess()), g.c.DrainNotice, g.gateway.Leave)
	defer cancel()
	if err := g.heart.beat(ctx); err != nil { // before it seals anything; see db.Beat
		return errors.Join(err, g.Close())
	}
	if err := g.audit.Started(ctx, g.settings()); err != nil && ctx.Err() == nil { // a stop during the start is no failure
		return errors.Join(fmt.Errorf("audit log: %w", err), g.Close())
	}
	parts := []Part{g.callbacks.part(), g.api.part(), {"gateway", g.gateway.Run}, {"clock", g.clock.Run}, {"database", g.db.Run}, g.c.hold(g.db, g.audit), {"alarms", g.alarms.Run}, g.heart.part(), {"retention", g.purger.Run}}
	if g.metrics != nil {
		parts = append(parts, g.metrics.part())
	}
	err := RunParts(ctx, parts...)
	g.heart.stop(ctx)
	g.c.holdLast(ctx, g.db, g.audit)
	return errors.Join(err, g.db.Close())
}

// startedGateway is what the audit log has of a start: with which keys and by which
// rules withdrawals are confirmed.
type startedGateway struct {
	Version         string          `json:"version"`
	RequestKey      string          `json:"requestKey"`         // fingerprint
	SignedBy        []string        `json:"signedBy,omitempty"` // fingerprints of the service's signing keys, one of which is demanded; absent: none is
	NextKey         string          `json:"nextKey,omitempty"`  // fingerprint
	Binding         string          `json:"binding"`
	ChangeDelay     client.Duration `json:"changeDelay,omitzero"`
	ChangeApprovals int             `json:"changeApprovals,omitempty"`
	Retain          client.Duration `json:"retain,omitzero"`
	Policy          string          `json:"policy,omitempty"` // SHA-256 of the policy file; absent: only exact orders are confirmed
}

func (g *Gateway) settings() startedGateway {
	s := startedGateway{Version: Version, RequestKey: g.c.Callbacks.Key.Fingerprint(), Binding: g.c.Callbacks.Profile.Binding.String(), ChangeDelay: client.Duration(g.c.ChangeDelay), ChangeApprovals: g.c.ChangeApprovals, Retain: client.Duration(g.c.Retain)}
	for _, k := range []*envelope.SigningKey{g.c.Callbacks.ServiceSigner, g.c.Callbacks.NextServiceSigner} {
		if k != nil {
			s.SignedBy = append(s.SignedBy, k.Fingerprint())
		}
	}
	if next := g.c.Callbacks.NextKey; next != nil {
		s.NextKey = next.Fingerprint()
	}
	if g.c.Policy != nil && g.c.Policy.Source() != "" {
		sum := sha256.Sum256([]byte(g.c.Policy.Source()))
		s.Policy = hex.EncodeToString(sum[:])
	}
	return s
}

// Close closes a gateway that was opened and will not be run.
func (g *Gateway) Close() error {
	if g.db == nil {
		return nil
	}
	var errs []error
	for _, l := range []*Listener{g.callbacks, g.api, g.metrics} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(append(errs, g.db.Close())...)
}

// CallbackURL is the URL of the public listener on this machine. It is set by Open.
func (g *Gateway) CallbackURL() string { return g.callbacks.URL() }

// URL is the URL of the API on this machine. It is set by Open.
func (g *Gateway) URL() string { return g.api.URL() }

// Book is the gateway's database, to be used from Open to the end of Run.
func (g *Gateway) Book() *book.Book { return g.book }

// Dialect is "sqlite" or "postgres", from Open on.
func (g *Gateway) Dialect() string { return g.db.Dialect().Name }

// TokenFile is the file with the API's first token.
func (g *Gateway) TokenFile() string { return g.c.file(TokenFile) }
