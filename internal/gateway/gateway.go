// Package gateway is the merchant's daemon: it takes callbacks into a durable inbox, confirms withdrawals from a book
// of orders, and tells the merchant's own systems of both, by feeds and by signed HTTP.
//
// It has two listeners. The public one is a merchant.Handler, for the service alone. The private one is the JSON API
// for the merchant's own systems and people.
//
// A deposit, and the effects of a notice, are recorded in the transaction that records the callback. So once errCode 0
// is sent, the effect is in the database even if the process dies. A withdrawal is confirmed only if its order was
// found, agrees, and was moved to confirmed by one guarded statement. Its details never change.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/policy"
	"countersign/internal/web"
	"countersign/merchant"
)

// DefaultGrace is the default of Config.Grace.
const DefaultGrace = 30 * time.Second

// Config configures a Gateway.
type Config struct {
	api.Process
	// DB is required and must have been opened for book.End. Several processes may share a PostgreSQL database.
	DB *db.DB
	// Callbacks configures the public handler: keys, API keys, binding, paths, time-outs. A Key with its private part
	// needs CallbackAPIKeys. Inbox, functions, Log, Now and Observer are ignored: the gateway sets its own.
	Callbacks merchant.Config
	// Learn books nothing: it asks for every callback again and keeps it as refused.
	Learn bool
	// Policy decides on orders that agree with the service's question. Nil: ExactOrders.
	Policy *policy.Rules
	// Grace is how long an unknown order is answered with "ask again", from its first question on. Zero: 30 s. Below
	// zero: none.
	Grace time.Duration
	// TakeAddresses lets a changed deposit address count at once. Otherwise it is held for a person.
	TakeAddresses bool
	// ChangeApprovals is how many persons must approve a change. Zero: one.
	ChangeApprovals int
	// OIDC is the identity provider with which people sign in. Zero: they use tokens.
	OIDC api.OIDCConfig
	// Forward tells the merchant's application of every deposit and event; BeginForwarding must be called before Run.
	// Zero: nothing is forwarded.
	Forward Forwarding
	// Verify asks the merchant's own check about every deposit before it counts. Zero: no check is asked.
	Verify Verifying
	// Dial opens the connections of Forward and Verify. Nil: the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Random returns numbers from 0 to below 1, which spread retries. Nil: rand.Float64.
	Random func() float64
	// Observer counts what the gateway does. Nil: nothing is counted.
	Observer Observer

	// For tests.
	lease   time.Duration                                                // of a question; zero: questionLease
	decides func(context.Context, policy.Request) (policy.Ruling, error) // nil: Policy
}

// questionLease is how long other nodes leave a question to the node that works on it. A handler asks for more than the
// work can take, but a node's work on a question takes milliseconds here. Two that work on one at once agree: a final
// answer is first made the order's state, by one guarded statement, and the later node finds that state. So a lease
// only saves work. A short one lets the next node answer within the same request if one has died or lost its database.
const questionLease = 5 * time.Second

// Observer counts what a gateway does. Its methods must not block.
type Observer interface {
	merchant.Observer
	// Forwarded is called after each attempt to forward an entry to the application.
	Forwarded(result web.PostResult, took time.Duration)
}

// Gateway is the merchant's end as a daemon. Use New to make one.
type Gateway struct {
	c        Config
	book     *book.Book
	handler  *merchant.Handler
	api      *server
	refusals *refusals
	sender   *sender // nil where nothing is forwarded
}

// New validates c and starts nothing.
func New(c Config) (*Gateway, error) {
	if c.DB == nil {
		return nil, errors.New("gateway: Config.DB is missing")
	}
	if c.Policy == nil {
		c.Policy = policy.ExactOrders()
	}
	if c.decides == nil {
		c.decides = c.Policy.Decide
	}
	switch {
	case c.Grace == 0:
		c.Grace = DefaultGrace
	case c.Grace < 0:
		c.Grace = 0
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	c.SetDefaults()
	if c.lease == 0 {
		c.lease = questionLease
	}
	g := &Gateway{c: c, book: book.New(c.DB, book.Config{Lease: c.lease, TakeAddresses: c.TakeAddresses})}
	h := c.Callbacks
	h.Inbox = g.book
	h.OnDeposit, h.OnPossibleDuplicate, h.OnNotice = nil, nil, nil // recording them is their effect
	h.OnWithdrawal, h.OnHeld, h.OnAnswer, h.OnRefused = g.onWithdrawal, g.onHeld, g.onAnswer, g.onRefused
	h.Log, h.Now = c.Log, c.Now
	h.Verify, h.VerifyFor = nil, c.Verify.For
	if c.Verify.URL != "" {
		v, err := newVerifier(c)
		if err != nil {
			return nil, err
		}
		h.Verify, h.VerifyTimeout = v.verify, v.to.Timeout()
	}
	g.refusals = &refusals{book: g.book, c: &g.c, observer: c.Observer, rooms: map[client.RefusalReason]*rate.Limiter{}}
	h.Observer = g.refusals
	var err error
	if g.handler, err = merchant.New(h); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if c.Forward.URL != "" {
		if g.sender, err = newSender(g.book, c); err != nil {
			return nil, err
		}
	}
	if g.api, err = newAPI(g.book, c, g.handler.Retry); err != nil {
		return nil, err
	}
	return g, nil
}

// Callbacks returns the handler of the public listener, which takes the service's callbacks. It also answers /healthz
// with 200 while the process runs, for a balancer that reaches no other listener.
func (g *Gateway) Callbacks() http.Handler {
	var callbacks http.Handler = g.handler
	if g.c.Learn {
		callbacks = http.HandlerFunc(g.learn)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			return
		}
		callbacks.ServeHTTP(w, r)
	})
}

// API returns the handler of the private listener, for the merchant's own systems.
func (g *Gateway) API() http.Handler { return g.api }

// Leave makes /readyz answer 503. Everything else goes on.
func (g *Gateway) Leave() { g.api.base.Leave() }

// Stop makes waiting API requests and open exchanges answer at once, and /readyz answer 503. It must be called before
// http.Server.Shutdown, which would otherwise wait for those requests.
func (g *Gateway) Stop() {
	g.handler.Stop()
	g.api.stop()
}

// The regular work of Run besides forwarding: how often, and how much at once.
const (
	expireEvery = time.Second
	expireBatch = 100
	alarmEvery  = 30 * time.Second
	pruneEvery  = 10 * time.Minute
	pruneBatch  = 2000
	turnTimeout = 30 * time.Second // of one turn: a database that does not answer must not stop the later turns
)

// Run ends expired orders, forgets old blocks, raises alarms and forwards deposits and events. It returns when ctx has
// ended and the work under way is done. Several processes of one database may run it.
func (g *Gateway) Run(ctx context.Context) error {
	var all sync.WaitGroup
	every := func(d time.Duration, what string, do func(context.Context, db.Millis) (more bool, err error)) {
		all.Go(func() { g.regularly(ctx, d, what, do) })
	}
	every(expireEvery, "ending orders", func(ctx context.Context, now db.Millis) (bool, error) {
		n, err := g.book.ExpireOrders(ctx, now, expireBatch)
		return n == expireBatch, err
	})
	every(pruneEvery, "forgetting blocks", func(ctx context.Context, now db.Millis) (bool, error) {
		n, err := g.book.PruneBlocks(ctx, now, pruneBatch)
		return n == pruneBatch, err
	})
	every(raiseEvery, "raising alarms", func(ctx context.Context, _ db.Millis) (bool, error) {
		return false, errors.Join(g.refusals.raise(ctx), g.book.FoldCounts(ctx))
	})
	every(alarmEvery, "alarms", func(ctx context.Context, now db.Millis) (bool, error) {
		return false, errors.Join(g.book.LookAtForwards(ctx, now), g.book.EndAlarms(ctx, now))
	})
	every(askEvery, "asking the check again", func(ctx context.Context, now db.Millis) (bool, error) {
		n, err := g.askAgain(ctx, now)
		return n == askAtOnce, err
	})
	if g.sender != nil {
		all.Go(func() { g.sender.run(ctx) })
	}
	all.Go(func() { _ = g.api.changes.Run(ctx) }) // it ends without an error
	all.Wait()
	// Questions whose requests have timed out are still being decided.
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := g.handler.Wait(wait); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if err := g.refusals.raise(wait); err != nil {
		g.c.Log.Error("raising alarms failed", "error", err)
	}
	return nil
}

// regularly calls do at each interval, and again at once while there is more. A failure is logged; the next interval
// tries again.
func (g *Gateway) regularly(ctx context.Context, every time.Duration, what string,
	do func(context.Context, db.Millis) (more bool, err error)) {
	turn := time.NewTicker(g.c.DB.Every(every))
	defer turn.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, turnTimeout)
		more, err := do(bounded, db.MillisOf(g.c.Now()))
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			g.c.Log.Error(what+" failed", "error", err)
		case more:
			continue
		}
		select {
		case <-turn.C:
		case <-ctx.Done():
			return
		}
	}
}
