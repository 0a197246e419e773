package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/book"
	"countersign/internal/console"
	"countersign/internal/gateway"
	"countersign/internal/policy"
	"countersign/merchant"
)

// GatewayConfig is what NewGateway needs. A field with a tag is a flag of the command line.
type GatewayConfig struct {
	Listen    string `first:"" help:"Public address for callbacks. Port 0 picks one and logs it." default:"127.0.0.1:8090" placeholder:"ADDR"`
	APIListen string `first:"" name:"api-listen" help:"Private address of the API." default:"127.0.0.1:8091" placeholder:"ADDR"`
	Learn     bool   `first:"" help:"Learn which settings fit the provider (countersign provider show): book nothing, keep every callback as refused."`
	Common
	// Callbacks configures the public handler: keys, API keys, binding, paths, time-outs. Its Inbox, functions, Log,
	// Now and Observer are ignored.
	Callbacks merchant.Config `kong:"-"`
	// WrapCallbacks wraps the public handler, for merchants that misbehave on purpose. Nil: it is not wrapped.
	WrapCallbacks func(http.Handler) http.Handler `kong:"-"`
	// Policy decides on orders that agree with the service's question. Nil: exactly the orders of the book are
	// confirmed.
	Policy *policy.Rules `kong:"-"`
	// Grace is how long an unknown order is answered with "ask again". Zero: 30 s. Below zero: none.
	Grace time.Duration `kong:"-"`
	// TakeAddresses is gateway.Config.TakeAddresses.
	TakeAddresses bool `kong:"-"`
	// Forward tells the merchant's application of every deposit and event. Zero: nothing is forwarded.
	Forward gateway.Forwarding `kong:"-"`
	// Verify asks the merchant's own check about every deposit before it counts. Zero: no check is asked.
	Verify gateway.Verifying `kong:"-"`
}

// Gateway is the merchant's end as one process. Use NewGateway to make one and Run it once.
type Gateway struct {
	end
	c         GatewayConfig
	book      *book.Book
	gateway   *gateway.Gateway
	callbacks *Listener
}

// NewGateway validates c. It opens and starts nothing.
func NewGateway(c GatewayConfig) (*Gateway, error) {
	if c.Listen == "" || c.APIListen == "" {
		return nil, errors.New("daemon: GatewayConfig.Listen or APIListen is missing")
	}
	if err := c.validate("GatewayConfig", client.ValuesAt[client.Role](client.AtGateway), false); err != nil {
		return nil, err
	}
	g := &Gateway{c: c}
	g.end = end{c: &g.c.Common, addresses: c.listeners(), node: thisProcess()}
	return g, nil
}

func (c GatewayConfig) listeners() [][2]string {
	return [][2]string{{"callbacks", c.Listen}, {"api", c.APIListen}, {"metrics", c.MetricsListen}}
}

// Check is Service.Check for the gateway. It also names the key that opens requests.
func (g *Gateway) Check(ctx context.Context) []Finding {
	list := g.c.check(ctx, true, g.c.TLS, g.c.Log, g.c.listeners())
	list = append(list, Finding{"service key", true, "fingerprint " + g.c.Callbacks.Key.Fingerprint()})
	for _, k := range []*envelope.SigningKey{g.c.Callbacks.ServiceSigner, g.c.Callbacks.NextServiceSigner} {
		if k != nil {
			list = append(list, Finding{"service signing key", true, "fingerprint " + k.Fingerprint()})
		}
	}
	if next := g.c.Callbacks.NextKey; next != nil {
		list = append(list, Finding{"next service key", true, "fingerprint " + next.Fingerprint()})
	}
	return list
}

// Open opens the database, makes the files of a first start, builds every part and binds the ports, so that faults of
// the configuration show here. No request is answered before Run. An opened gateway must be run or closed. Run calls
// Open if the caller has not.
func (g *Gateway) Open(ctx context.Context) (err error) {
	c := g.c
	defer g.opened(&err)
	if err = g.begin(ctx, beginning{database: book.End(), name: "merchant", purger: book.NewPurger}); err != nil {
		return err
	}
	g.book = book.New(g.db, book.Config{})
	if c.Callbacks.Sign == nil {
		if c.Callbacks.Sign, err = openSigningKey(ctx, g.db); err != nil {
			return fmt.Errorf("signing key: %w", err)
		}
	}
	g.figures = newFigures(&g.end, "countersign_gateway_", client.ValuesAt[client.AlarmKind](client.AtGateway), g.scrape)
	counts := newGatewayFigures(g.figures)
	process, err := g.measure()
	if err != nil {
		return err
	}
	if g.gateway, err = gateway.New(gateway.Config{
		Process: process, DB: g.db, Callbacks: c.Callbacks, Learn: c.Learn, Policy: c.Policy, Grace: c.Grace,
		TakeAddresses: c.TakeAddresses, ChangeApprovals: c.ChangeApprovals,
		OIDC: c.OIDC, Forward: c.Forward, Verify: c.Verify,
		Dial: c.World.Dial, Random: c.World.Random, Observer: counts,
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
	// The longest time for a request: to handle a callback and to record the answer.
	drain := 2*cmp.Or(c.Callbacks.Timeout, merchant.DefaultTimeout) + 5*time.Second
	if g.callbacks, err = g.listen(ListenConfig{Name: "callbacks", Addr: c.Listen, Handler: handler, AnyHost: true,
		TLS: c.TLS.WithoutClients(), Most: connectionsOf(2), Drain: drain,
		Exposes: "the apiKey and errCode of responses, and which requests arrive"}); err != nil {
		return err
	}
	return g.serve(ctx, GatewayEnd, c.APIListen, drain, g.gateway.API(), g.gateway.Stop, console.NewGateway)
}

// Run takes callbacks, serves the API and forwards until ctx ends. Then the listeners accept no more requests, the work
// under way ends, and the database is closed.
func (g *Gateway) Run(ctx context.Context) error {
	if g.db == nil {
		if err := g.Open(ctx); err != nil {
			return err
		}
	}
	return g.run(ctx, g.gateway.Leave, g.settings(), Part{"gateway", g.gateway.Run})
}

// startedGateway is the log's record of a start: the keys and rules with which withdrawals are confirmed.
type startedGateway struct {
	Version         string          `json:"version"`
	RequestKey      string          `json:"requestKey"`         // fingerprint
	SignedBy        []string        `json:"signedBy,omitempty"` // fingerprints of the service's signing keys, one of which is demanded; absent: none is
	NextKey         string          `json:"nextKey,omitempty"`  // fingerprint
	Binding         string          `json:"binding"`
	ChangeApprovals int             `json:"changeApprovals,omitempty"`
	Retain          client.Duration `json:"retain,omitzero"`
	Policy          string          `json:"policy,omitempty"` // SHA-256 of the policy file; absent: only exact orders are confirmed
}

func (g *Gateway) settings() startedGateway {
	s := startedGateway{Version: Version, RequestKey: g.c.Callbacks.Key.Fingerprint(),
		Binding: g.c.Callbacks.Profile.Binding.String(), ChangeApprovals: g.c.ChangeApprovals,
		Retain: client.Duration(g.c.retain())}
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

// CallbackURL returns the URL of the public listener on this machine. It is known from Open on.
func (g *Gateway) CallbackURL() string { return g.callbacks.URL() }

// Book returns the gateway's database, which may be used from Open to the end of Run.
func (g *Gateway) Book() *book.Book { return g.book }
