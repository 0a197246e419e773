package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/policy"
	"countersign/merchant"
)

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
	return g, g.makeAPI()
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
	all.Go(func() { _ = g.changes.Run(ctx) }) // it ends without an error
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
