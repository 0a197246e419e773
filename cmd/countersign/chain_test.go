package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
	"countersign/internal/web"
	"countersign/merchant"
)

const (
	testAPIKey countersign.APIKey = "test-merchant"
	tokenFile                     = daemon.TokenFile

	// chainExchange bounds an exchange of a service; chainLease is its lease, which is five seconds longer.
	chainExchange = time.Second
	chainLease    = chainExchange + 5*time.Second
	// chainSkew is how far apart the clocks of two nodes may be, each of which took the database's time over a connection.
	chainSkew = time.Second
)

// chain is a service and a merchant's gateway, each of one or several processes on one database, between a wallet core
// and an application. It writes down what either was told, and check holds both ends to it.
type chain struct {
	t           *testing.T
	dir         string
	services    []*node
	gateways    []*node
	line        *tcpProxy // to the gateways, for callbacks
	application *webhooks
	// parted: two servers of a database may answer at present. A node that has not noticed reads from the one that was
	// replaced, and does not find what others have just made.
	parted atomic.Bool

	n           atomic.Int64
	mu          sync.Mutex
	deposits    map[string]bool              // trackingId
	withdrawals map[string]string            // id → callBackId
	cancelled   map[string]bool              // callBackId
	permits     map[string]map[string]string // id → holder → permit
	decisions   []string                     // as they were read
}

// node is a process of one end, whichever runs at present. Its addresses stay.
type node struct {
	name    string
	args    []string
	service *client.Service // of the node's API, at a service
	gateway *client.Gateway // and at a gateway
	acks    atomic.Int64    // of calls

	mu   sync.Mutex
	d    *process
	logs []*lockedBuffer // of every process
}

func (n *node) start(t *testing.T) {
	t.Helper()
	d := startDaemon(t, n.args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.d, n.logs = d, append(n.logs, d.output)
}

func (n *node) process() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.d
}

// newChain starts a node for each of the databases, which are URLs; empty: SQLite. args are flags of the service.
func newChain(t *testing.T, dir string, services, gateways []string, args ...string) *chain {
	t.Helper()
	app := newWebhooks(t)
	c := &chain{t: t, dir: dir, application: app, deposits: map[string]bool{}, withdrawals: map[string]string{},
		cancelled: map[string]bool{}, permits: map[string]map[string]string{}}
	public, private := pairOf(t)
	for i, url := range services {
		n := c.add(&c.services, i, url, append([]string{"serve", "--allow-private", "--allow-http",
			"--exchange-timeout", chainExchange.String()}, args...)...)
		n.service = must(client.NewService(c.client(n)))
	}
	for i, url := range gateways {
		n := c.add(&c.gateways, i, url, "gateway", "--listen", "127.0.0.1:0", "--service-key",
			secretFile(t, public.PublicBase64()), "--api-key", "@"+secretFile(t, testAPIKey.Reveal()), "--grace", "1ms",
			"--forward-url", app.URL, "--forward-secret", webhookSecret)
		n.args[2] = freePort(t) // of callbacks
		n.start(t)
		n.gateway = must(client.NewGateway(c.client(n)))
	}
	var targets []string
	for _, n := range c.gateways {
		targets = append(targets, n.args[2])
	}
	often := &client.Schedule{Delays: []client.Duration{0}, Every: client.Duration(time.Second)}
	c.line = newProxy(t, "tcp", targets...)
	at := "http://" + c.line.addr
	must(c.services[0].service.CreateMerchant(t.Context(), client.NewMerchant{ID: "shop",
		Key: &client.KeySpec{PrivateKey: client.Secret(private)},
		MerchantSettings: client.MerchantSettings{NotifyURL: at + merchant.DefaultNotifyPath, Concurrency: 16,
			WithdrawURL: at + merchant.DefaultWithdrawPath, FinalCodes: client.ProtocolCodes(),
			RetryNotify: often, RetryWithdraw: often},
		MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret(testAPIKey.Reveal())}}))
	return c
}

// add adds a node to an end, and starts it if it is a service's. All of an end share a directory, for its master key.
func (c *chain) add(end *[]*node, i int, url string, args ...string) *node {
	c.t.Helper()
	n := &node{name: args[0] + " " + string(rune('a'+i)), args: append(args, "--data", c.data(args[0]))}
	if url != "" {
		n.args = append(n.args, "--db", url)
	}
	*end = append(*end, n)
	if args[0] == "serve" {
		n.args = append(n.args, "--node", strings.ReplaceAll(n.name, " ", "-"), "--listen", freePort(c.t))
		n.start(c.t)
	} else {
		n.args = append(n.args, "--api-listen", freePort(c.t))
	}
	return n
}

func (c *chain) data(end string) string { return filepath.Join(c.dir, end) }

// client returns the configuration of a client of n, which has started.
func (c *chain) client(n *node) client.Config {
	// A connection of its own for each call: one that was never used may be closed by the node as a call leaves on it.
	return client.Config{URL: "http://" + n.args[len(n.args)-1], Token: client.Secret(adminToken(c.t, c.data(n.args[0]))),
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// insist makes a call until it is answered, first at n and then at any of nodes, for as long as ctx goes on. It returns
// the error of an answer other than 5xx.
func insist[T any](ctx context.Context, c *chain, nodes []*node, n *node, call func(context.Context, *node) (T, error)) (answer T, err error) {
	for {
		bounded, cancel := context.WithTimeout(ctx, 3*time.Second)
		answer, err = call(bounded, n)
		cancel()
		var refused *client.Problem
		switch {
		case err == nil:
			n.acks.Add(1)
			return answer, nil
		case errors.As(err, &refused) && refused.Status < 500 && !c.parted.Load():
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if rand.IntN(2) == 0 {
			n = nodes[rand.IntN(len(nodes))]
		}
	}
}

// load has the wallet core and the merchant work with every node, until the function that it returns is called. That
// checks the chain and stops it.
func (c *chain) load() (end func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var work sync.WaitGroup
	repeat := func(f func() error) {
		work.Go(func() {
			for ctx.Err() == nil {
				if err := f(); err != nil && ctx.Err() == nil {
					c.t.Error(err)
					return
				}
				time.Sleep(time.Duration(20+rand.IntN(80)) * time.Millisecond)
			}
		})
	}
	for i, n := range c.services {
		repeat(func() error { return c.addDeposits(ctx, n, 1+rand.IntN(2)) })
		repeat(func() error { return c.release(ctx, n, c.any(), fmt.Sprint("wallet", i%2)) })
		repeat(func() error { return c.release(ctx, n, c.any(), fmt.Sprint("wallet", (i+1)%2)) })
	}
	for i, n := range c.gateways {
		repeat(func() error { return c.withdraw(ctx, n, c.services[i%len(c.services)]) })
	}
	repeat(func() error { return c.follow(ctx, c.services[rand.IntN(len(c.services))], time.Second) })
	return func() {
		c.until("something of each kind happens under load", c.anyOfEach)
		cancel()
		work.Wait()
		c.check()
		c.stop()
	}
}

// anyOfEach reports whether something was acknowledged, taken back, released and decided.
func (c *chain) anyOfEach() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.deposits) > 0 && len(c.cancelled) > 0 && len(c.permits) > 0 && len(c.decisions) > 0
}

func (c *chain) addDeposits(ctx context.Context, n *node, count int) error {
	var list []client.NewDeposit
	for range count {
		d := countersigntest.Deposit(int(c.n.Add(1)))
		list = append(list, client.NewDeposit{Merchant: "shop", TrackingID: d.TrackingID, TenantUserID: d.TenantUserID,
			TxID: d.TxID, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress,
			ToAddress: d.ToAddress, TxIndex: d.TxIndex})
	}
	if _, err := insist(ctx, c, c.services, n, func(ctx context.Context, n *node) ([]client.Accepted, error) {
		return n.service.AddDeposits(ctx, list...)
	}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range list {
		c.deposits[d.TrackingID] = true
	}
	return nil
}

// withdraw orders a withdrawal at g, takes some back, and has s ask about it.
func (c *chain) withdraw(ctx context.Context, g, s *node) error {
	k := int(c.n.Add(1))
	w := countersigntest.Withdrawal(k)
	order := client.NewOrder{CallBackID: w.CallBackID, TenantUserID: w.TenantUserID}.Paying(countersigntest.Order(k))
	if _, err := insist(ctx, c, c.gateways, g, func(ctx context.Context, n *node) (client.AddedOrder, error) {
		return n.gateway.AddOrder(ctx, order)
	}); err != nil {
		return err
	}
	if k%4 == 0 {
		if _, err := insist(ctx, c, c.gateways, g, func(ctx context.Context, n *node) (client.Order, error) {
			return n.gateway.CancelOrder(ctx, w.CallBackID, "")
		}); err != nil {
			return err
		}
		c.mu.Lock()
		c.cancelled[w.CallBackID] = true
		c.mu.Unlock()
	}
	in := client.NewWithdrawal{Merchant: "shop", CallBackID: w.CallBackID, TenantUserID: w.TenantUserID}
	if k%2 == 0 {
		details := countersigntest.Order(k)
		in.Details = &details
	}
	out, err := insist(ctx, c, c.services, s, func(ctx context.Context, n *node) (client.AcceptedWithdrawal, error) {
		return n.service.CreateWithdrawal(ctx, in)
	})
	if err == nil {
		c.mu.Lock()
		c.withdrawals[out.ID] = w.CallBackID
		c.mu.Unlock()
	}
	return err
}

// any returns the id of any withdrawal, old or new; empty: there is none.
func (c *chain) any() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.withdrawals {
		return id
	}
	return ""
}

// release has a wallet try for a permit. What was given before must come again, whatever has happened since.
func (c *chain) release(ctx context.Context, n *node, id, holder string) error {
	if id == "" {
		return nil
	}
	c.mu.Lock()
	_, given := c.permits[id][holder]
	c.mu.Unlock()
	permit, err := insist(ctx, c, c.services, n, func(ctx context.Context, n *node) (client.Permit, error) {
		permit, err := n.service.ReleaseWithdrawal(ctx, id, holder)
		if errors.Is(err, client.ErrConflict) && !given { // not decided, declined, or the other wallet has it
			return client.Permit{}, nil
		}
		return permit, err
	})
	if err != nil || permit.Permit == "" {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, had := c.permits[id][holder]; had && before != permit.Permit.Reveal() {
		c.t.Errorf("withdrawal %s: %s got another permit than before", id, holder)
	}
	if c.permits[id] == nil {
		c.permits[id] = map[string]string{}
	}
	if c.permits[id][holder] = permit.Permit.Reveal(); len(c.permits[id]) > 1 {
		c.t.Errorf("withdrawal %s was released to both wallets", id)
	}
	return nil
}

// follow reads on in the feed of decisions. Only one goroutine does.
func (c *chain) follow(ctx context.Context, n *node, wait time.Duration) error {
	page, err := c.feed(ctx, n, len(c.decisions), wait)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decisions = append(c.decisions, page...)
	return nil
}

// feed reads a part of the feed of decisions, each as one text.
func (c *chain) feed(ctx context.Context, n *node, after int, wait time.Duration) (list []string, err error) {
	part, err := insist(ctx, c, c.services, n, func(ctx context.Context, n *node) (client.Feed[client.Decision], error) {
		return n.service.Decisions(ctx, client.FeedOptions{After: int64(after), Limit: 1000, Wait: wait})
	})
	for i, d := range part.Items {
		if d.Seq != int64(after+i+1) {
			c.t.Errorf("in the feed of decisions %d stands where %d belongs", d.Seq, after+i+1)
		}
		list = append(list, d.Withdrawal.ID+" "+string(d.Withdrawal.Decision))
	}
	return list, err
}

// until waits for what must come.
func (c *chain) until(what string, is func() bool) {
	c.t.Helper()
	waitUntil(c.t, what, func() string {
		var logs strings.Builder
		for _, n := range slices.Concat(c.services, c.gateways) {
			text := n.process().output.String()
			fmt.Fprintf(&logs, "%s:\n%s", n.name, text[max(0, len(text)-2000):])
		}
		return logs.String()
	}, is)
}

// work waits until each of nodes, or each of all, has acknowledged a call and done its part of a callback since it was
// called.
func (c *chain) work(nodes ...*node) {
	c.t.Helper()
	if nodes == nil {
		nodes = slices.Concat(c.services, c.gateways)
	}
	acks, logs := make([]int64, len(nodes)), make([]int, len(nodes))
	for i, n := range nodes {
		acks[i], logs[i] = n.acks.Load(), len(n.process().output.String())
	}
	c.until("every node works", func() bool {
		for i, n := range nodes {
			if n.acks.Load() == acks[i] || !strings.Contains(n.process().output.lines(logs[i]), " errCode=0 ") {
				return false
			}
		}
		return true
	})
}

// open returns how many callbacks are not settled.
func (c *chain) open() (open int64) {
	for _, l := range must(c.services[0].service.Stats(c.t.Context())).Lanes {
		if s := client.CallbackState(l.State); s == client.CallbackPending || s == client.CallbackSending {
			open += l.Count
		}
	}
	return open
}

// check waits until nothing is open and holds the chain to what it has said: every deposit that the service
// acknowledged is booked once, every withdrawal has one decision, which the merchant's order agrees with, and at most
// one permit; no callback was in two attempts at once; and the application was told of every entry, in one form.
func (c *chain) check() {
	t, ctx := c.t, c.t.Context()
	t.Helper()
	c.until("every callback is settled", func() bool { return c.open() == 0 })
	var booked []string
	for i, n := range c.gateways {
		var ids []string
		for _, d := range readFeed(c, n.gateway.Deposits, func(d client.DepositEntry) int64 { return d.Seq }) {
			ids = append(ids, d.TrackingID+" "+string(d.State))
		}
		if i > 0 && !slices.Equal(ids, booked) {
			t.Errorf("%s has another feed of deposits", n.name)
		}
		booked = ids
	}
	times := map[string]int{}
	for _, id := range booked {
		times[id]++
	}
	for id := range c.deposits {
		if times[id+" taken"] != 1 {
			t.Errorf("deposit %s was acknowledged and is booked %d times", id, times[id+" taken"])
		}
		delete(times, id+" taken")
	}
	for id, n := range times { // acknowledged, and the answer was lost
		if n != 1 {
			t.Errorf("deposit %s is booked %d times", id, n)
		}
	}
	c.checkWithdrawals(ctx)
	c.checkAttempts(ctx)
	entries := len(booked) + len(readFeed(c, c.gateways[0].gateway.Events, func(e client.EventEntry) int64 { return e.Seq }))
	c.until("the application was told", func() bool {
		return must(c.gateways[0].gateway.Stats(ctx)).Forwards == 0
	})
	c.application.check(t, entries)
	t.Logf("%d deposits, %d withdrawals and %d permits; %d entries of the application", len(c.deposits),
		len(c.withdrawals), len(c.permits), entries)
}

// readFeed reads a feed of a gateway to its end, which must have no gap.
func readFeed[T any](c *chain, read func(context.Context, client.FeedOptions) (client.Feed[T], error),
	seq func(T) int64) (all []T) {
	c.t.Helper()
	for {
		entries := must(read(c.t.Context(), client.FeedOptions{After: int64(len(all)), Limit: 1000})).Items
		if len(entries) == 0 {
			return all
		}
		for _, e := range entries {
			if all = append(all, e); seq(e) != int64(len(all)) {
				c.t.Errorf("a feed has %d where %d was due", seq(e), len(all))
			}
		}
	}
}

func (c *chain) checkWithdrawals(ctx context.Context) {
	var feed []string
	for i := 0; ; i++ { // each part from another node
		page := must(c.feed(ctx, c.services[i%len(c.services)], len(feed), 0))
		if feed = append(feed, page...); len(page) == 0 {
			break
		}
	}
	if len(feed) < len(c.decisions) || !slices.Equal(feed[:len(c.decisions)], c.decisions) {
		c.t.Errorf("the feed of decisions has changed: it had %d entries and has %d", len(c.decisions), len(feed))
	}
	decided := map[string]int{}
	for _, entry := range feed {
		decided[entry]++
	}
	for id, callBackID := range c.withdrawals {
		for i, holder := range []string{"wallet0", "wallet1"} {
			ok(c.t, c.release(ctx, c.services[i%len(c.services)], id, holder))
		}
		decision, state, permits := countersign.DecisionConfirmed, client.OrderConfirmed, 1
		if c.cancelled[callBackID] {
			decision, state, permits = countersign.DecisionDeclined, client.OrderCancelled, 0
		}
		order := must(c.gateways[0].gateway.Order(ctx, callBackID))
		n := decided[id+" "+string(countersign.DecisionConfirmed)] + decided[id+" "+string(countersign.DecisionDeclined)]
		if decided[id+" "+string(decision)] != 1 || n != 1 || order.State != state || len(c.permits[id]) != permits {
			c.t.Errorf("withdrawal %s, to be %s: %d decisions, the order is %s, %d permits", id, decision, n, order.State,
				len(c.permits[id]))
		}
	}
}

// checkAttempts holds the attempts of each callback to follow one another, unless the lease of one had ended.
func (c *chain) checkAttempts(ctx context.Context) {
	for cb, err := range client.All(ctx, c.services[0].service.Callbacks, client.CallbackFilter{}) {
		if err != nil {
			c.t.Fatal(err)
		}
		if cb.Attempt < 2 {
			continue
		}
		list := must(c.services[0].service.Callback(ctx, cb.ID)).Attempts
		slices.SortFunc(list, func(a, b client.Attempt) int { return cmp.Compare(a.Number, b.Number) })
		for i, a := range list[1:] {
			before := list[i]
			took := min(time.Duration(before.DurationMs)*time.Millisecond, chainLease)
			over := before.Started.Time().Add(took - chainSkew)
			if a.Number == before.Number || a.Started.Time().Before(over) {
				c.t.Errorf("callback %s: attempt %d of %s began before attempt %d of %s was over", cb.ID, a.Number, a.Node,
					before.Number, before.Node)
			}
		}
	}
}

// stop ends every node as an operator would, and looks for secrets in all that they have printed.
func (c *chain) stop() {
	secrets := []string{adminToken(c.t, c.data("serve")), adminToken(c.t, c.data("gateway")), testAPIKey.Reveal(),
		webhookSecret}
	for _, permits := range c.permits {
		secrets = slices.AppendSeq(secrets, maps.Values(permits))
	}
	for _, n := range slices.Concat(c.services, c.gateways) {
		if status := n.process().stop(c.t); status != exitDone {
			c.t.Errorf("%s ended with status %d:\n%s", n.name, status, n.process().output)
		}
		for _, log := range n.logs {
			text := log.String()
			for _, s := range secrets {
				if strings.Contains(text, s) {
					c.t.Errorf("a secret is in the log of %s", n.name)
				}
			}
		}
	}
}

// webhooks is the merchant's application.
type webhooks struct {
	*httptest.Server
	mu     sync.Mutex
	bodies map[string]string // by message id
	faults []string
}

const webhookSecret = "whsec_c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMsIG9rIQ=="

func newWebhooks(t *testing.T) *webhooks {
	a := &webhooks{bodies: map[string]string{}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(web.HeaderID)
		body, err := io.ReadAll(r.Body)
		a.mu.Lock()
		defer a.mu.Unlock()
		if before, again := a.bodies[id]; err == nil && again && before != string(body) {
			a.faults = append(a.faults, id)
		}
		if err == nil {
			a.bodies[id] = string(body)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *webhooks) check(t *testing.T, entries int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.bodies) != entries || len(a.faults) > 0 {
		t.Errorf("%d messages for %d entries; with two bodies: %v", len(a.bodies), entries, a.faults)
	}
}

// pairOf makes a pair: its public part, and its private part as PEM.
func pairOf(t *testing.T) (*envelope.Key, string) {
	t.Helper()
	pair := must(envelope.GenerateKey(1024))
	return pair.Public(), string(must(pair.PrivatePEM()))
}

func freePort(t *testing.T) string {
	t.Helper()
	return must(dbtest.FreePort())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// adminToken reads the first token that a daemon has made in its data directory.
func adminToken(t *testing.T, data string) string {
	t.Helper()
	return strings.TrimSpace(string(must(os.ReadFile(filepath.Join(data, tokenFile)))))
}
