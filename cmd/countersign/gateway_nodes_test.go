package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
	"countersign/internal/signed"
	"countersign/merchant"
)

// gwNodes are several gateways on one PostgreSQL, each a process, and the honest
// service that calls them.
type gwNodes struct {
	t       *testing.T
	service *countersigntest.Service
	args    []string // of every node
	token   string   // an operator's
	app     string   // the merchant's application's: it orders
	ann     string   // an admin who made neither
	nodes   []*gwNode
}

// gwNode is one of them, in whatever process it lives now.
type gwNode struct {
	name string
	args []string

	mu sync.Mutex
	d  *process
	to countersigntest.Endpoint
}

// serviceTimeout is how long the service waits for a response.
const serviceTimeout = 15 * time.Second

func newGwNodes(t *testing.T, args []string, urls ...string) *gwNodes {
	t.Helper()
	key, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	service, err := countersigntest.MakeService(countersigntest.ServiceConfig{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := &gwNodes{t: t, service: service}
	// All share one directory: they need the same master key.
	c.args = append([]string{"gateway", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0",
		"--service-key", file("key", service.MerchantKey().PublicBase64()), "--api-key", "@" + file("api-key", service.APIKey().Reveal()),
		"--callback-api-key", "@" + file("callback-api-key", service.CallbackAPIKey().Reveal()), "--grace", "1ms"}, args...)
	for i, url := range urls {
		n := &gwNode{name: string(rune('a' + i)), args: slices.Clone(c.args)}
		if url != "" { // else SQLite
			n.args = append(n.args, "--db", url)
		}
		c.nodes = append(c.nodes, n)
		n.start(t)
	}
	c.token = adminToken(t, filepath.Join(dir, "data"))
	var app struct{ Token string }
	c.must(c.nodes[0], "POST", "/v1/tokens", map[string]any{"name": "app", "role": "app"}, &app)
	c.app = app.Token
	c.must(c.nodes[0], "POST", "/v1/tokens", map[string]any{"name": "ann", "role": "admin"}, &app)
	c.ann = app.Token
	return c
}

func (n *gwNode) start(t *testing.T) {
	t.Helper()
	d := startDaemon(t, n.args...)
	// A connection of its own for each request: a transport opens spare ones, and one that
	// was never used may be closed by the node at the moment in which a request leaves on it.
	client := &http.Client{Timeout: serviceTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.d = d
	n.to = countersigntest.ToURLs(d.urls["callbacks"]+merchant.DefaultNotifyPath, d.urls["callbacks"]+merchant.DefaultWithdrawPath, client)
}

func (n *gwNode) process() (*process, countersigntest.Endpoint) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.d, n.to
}

func (c *gwNodes) deliver(n *gwNode, cb countersign.Callback) countersigntest.Result {
	_, to := n.process()
	return c.service.Deliver(c.t.Context(), to, cb)
}

func (c *gwNodes) call(ctx context.Context, n *gwNode, method, path string, in, out any) error {
	d, _ := n.process()
	token := c.token
	switch {
	case method == "POST" && path == "/v1/orders":
		token = c.app // which cannot approve what it ordered, and neither can who made it
	case method == "POST" && strings.HasSuffix(path, "/approve"):
		token = c.ann
	}
	return call(ctx, method, d.url+path, token, in, out)
}

// must makes a call that has to succeed.
func (c *gwNodes) must(n *gwNode, method, path string, in, out any) {
	c.t.Helper()
	if err := c.call(c.t.Context(), n, method, path, in, out); err != nil {
		c.t.Fatalf("%s %s at %s: %v", method, path, n.name, err)
	}
}

// status makes a call and gives its status.
func (c *gwNodes) status(n *gwNode, method, path string, in any) int {
	c.t.Helper()
	var refused *apiError
	switch err := c.call(c.t.Context(), n, method, path, in, nil); {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &refused):
		return refused.status
	default:
		c.t.Fatalf("%s %s at %s: %v", method, path, n.name, err)
		return 0
	}
}

// everywhere asks all nodes at once, times times each, and gives the errCodes.
func (c *gwNodes) everywhere(cb countersign.Callback, times int) (codes []countersign.ErrCode, results []countersigntest.Result) {
	results = make([]countersigntest.Result, times*len(c.nodes))
	var work sync.WaitGroup
	for i := range results {
		work.Go(func() { results[i] = c.deliver(c.nodes[i%len(c.nodes)], cb) })
	}
	work.Wait()
	for _, r := range results {
		var refused *countersigntest.Refusal
		if r.Err != nil && !errors.As(r.Err, &refused) {
			c.t.Errorf("type %d: %v", cb.CallbackType(), r.Err)
		}
		codes = append(codes, r.Code())
	}
	return codes, results
}

type gwDeposit struct {
	Seq        int64
	TrackingID string
	State      string
}

// deposits reads the feed at n to its end and holds it to having no gap.
func (c *gwNodes) deposits(n *gwNode) (all []gwDeposit) {
	c.t.Helper()
	for {
		var page struct{ Deposits []gwDeposit }
		c.must(n, "GET", fmt.Sprintf("/v1/deposits?limit=1000&after=%d", len(all)), nil, &page)
		if len(page.Deposits) == 0 {
			return all
		}
		for _, d := range page.Deposits {
			if d.Seq != int64(len(all)+1) {
				c.t.Fatalf("node %s has deposit %d where %d was due", n.name, d.Seq, len(all)+1)
			}
			all = append(all, d)
		}
	}
}

type gwEvent struct {
	Seq        int64
	Kind       string
	CallBackID string
}

// events is deposits for the other feed.
func (c *gwNodes) events(n *gwNode) (all []gwEvent) {
	c.t.Helper()
	for {
		var page struct{ Events []gwEvent }
		c.must(n, "GET", fmt.Sprintf("/v1/events?limit=1000&after=%d", len(all)), nil, &page)
		if len(page.Events) == 0 {
			return all
		}
		for _, e := range page.Events {
			if e.Seq != int64(len(all)+1) {
				c.t.Fatalf("node %s has event %d where %d was due", n.name, e.Seq, len(all)+1)
			}
			all = append(all, e)
		}
	}
}

// gwOrder is the order that countersigntest.Withdrawal(n) asks for.
func gwOrder(n int) map[string]any {
	w, d := countersigntest.Withdrawal(n), countersigntest.Order(n)
	return map[string]any{"callBackId": w.CallBackID, "tenantUserId": w.TenantUserID, "address": d.Address, "chainName": d.ChainName,
		"symbol": d.Symbol, "amount": d.Amount.String()}
}

func orderPath(n int, action string) string {
	return "/v1/orders/" + countersigntest.Withdrawal(n).CallBackID + action
}

func orderTask(n int, action string) string {
	return "/v1/tasks/order." + countersigntest.Withdrawal(n).CallBackID + action
}

// gwApp is the merchant's application, told by the nodes.
type gwApp struct {
	*httptest.Server
	secret signed.Secret
	mu     sync.Mutex
	tries  map[string]int // by message id
	bodies map[string]string
	faults []string
	refuse bool // answer 503
}

func newGwApp(t *testing.T) (a *gwApp, secret string) {
	secret = "whsec_c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMsIG9rIQ=="
	parsed, err := signed.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	a = &gwApp{secret: parsed, tries: map[string]int{}, bodies: map[string]string{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a, secret
}

func (a *gwApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a.mu.Lock()
	id := r.Header.Get(signed.HeaderID)
	a.tries[id]++
	receiver, _ := standardwebhooks.NewWebhookRaw(a.secret)
	if err := receiver.Verify(body, r.Header); err != nil {
		a.faults = append(a.faults, id+": "+err.Error())
	}
	if before, ok := a.bodies[id]; ok && before != string(body) {
		a.faults = append(a.faults, id+" came with another body")
	}
	a.bodies[id] = string(body)
	refuse := a.refuse
	a.mu.Unlock()
	if refuse {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// untilTold waits until nothing is left to be told.
func (c *gwNodes) untilTold(n *gwNode) {
	c.t.Helper()
	var stats struct{ Forwards int }
	d, _ := n.process()
	await(c.t, d, func() bool {
		c.must(n, "GET", "/v1/stats", nil, &stats)
		return stats.Forwards == 0
	})
}

// gwPolicy asks a person for orders of the users in its list.
const gwPolicy = `
default = "allow"

[lists]
watched = ["%s"]

[[rule]]
name   = "ask"
user-in = "watched"
effect = "ask"
`

// TestGatewayNodes: whichever of two nodes the service calls, and if it calls
// both at once, each deposit counts once and each answer is the same for ever;
// what is decided through one node holds on both.
func TestGatewayNodes(t *testing.T) {
	dbtest.Whole(t, "this test starts several processes")
	t.Parallel()
	app, secret := newGwApp(t)
	policy := filepath.Join(t.TempDir(), "policy.toml")
	var watched []string
	for user := 60200; user < 60300; user++ {
		watched = append(watched, fmt.Sprint(user))
	}
	if err := os.WriteFile(policy, fmt.Appendf(nil, gwPolicy, strings.Join(watched, `", "`)), 0o600); err != nil {
		t.Fatal(err)
	}
	url := dbtest.Postgres(t)
	c := newGwNodes(t, []string{"--policy", policy, "--forward-url", app.URL, "--forward-secret", secret}, url, url)
	t.Run("deposits", func(t *testing.T) { c.of(t).testDeposits(t) })
	t.Run("orders", func(t *testing.T) { c.of(t).testOrders(t) })
	t.Run("decisions", func(t *testing.T) { c.of(t).testDecisions(t) })
	t.Run("forwards", func(t *testing.T) { c.of(t).testForwards(t, app) })
}

// of is c for a part of its test.
func (c *gwNodes) of(t *testing.T) *gwNodes {
	part := *c
	part.t = t
	return &part
}

func (c *gwNodes) testDeposits(t *testing.T) {
	const n = 30
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			for range 2 {
				if codes, _ := c.everywhere(countersigntest.Deposit(i), 2); slices.Max(codes) != 0 {
					t.Errorf("deposit %d: errCodes %v", i, codes)
				}
			}
		})
	}
	work.Wait()
	first := c.deposits(c.nodes[0])
	seen := map[string]bool{}
	for _, d := range first {
		if seen[d.TrackingID] || d.State != "taken" {
			t.Errorf("the feed has %+v", d)
		}
		seen[d.TrackingID] = true
	}
	if len(seen) != n {
		t.Errorf("%d deposits, want %d", len(seen), n)
	}
	for _, other := range c.nodes[1:] {
		if !slices.Equal(c.deposits(other), first) {
			t.Errorf("node %s has another feed", other.name)
		}
	}
}

// testOrders orders at one node and lets the service ask all.
func (c *gwNodes) testOrders(t *testing.T) {
	const n = 20
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			c.must(c.nodes[i%2], "POST", "/v1/orders", gwOrder(i), nil)
			for range 2 {
				_, results := c.everywhere(countersigntest.Withdrawal(i), 2)
				for _, r := range results {
					if r.Err != nil || r.Withdrawal.Differs(countersigntest.Order(i)) != "" {
						t.Errorf("order %d: %+v, %v", i, r.Withdrawal, r.Err)
					}
				}
			}
		})
	}
	work.Wait()
	told := map[string]int{}
	for _, e := range c.events(c.nodes[1]) {
		if e.Kind == "order.confirmed" {
			told[e.CallBackID]++
		}
	}
	for i := range n {
		if id := countersigntest.Withdrawal(i).CallBackID; told[id] != 1 {
			t.Errorf("%s was confirmed %d times", id, told[id])
		}
	}
}

// testDecisions decides at one node and asks another right after.
func (c *gwNodes) testDecisions(t *testing.T) {
	for i := range 6 {
		a, b := c.nodes[i%2], c.nodes[(i+1)%2]
		want := func(at *gwNode, n int, want countersign.ErrCode) {
			t.Helper()
			if got := c.deliver(at, countersigntest.Withdrawal(n)).Code(); got != want {
				t.Errorf("order %d at %s: errCode %d, want %d", n, at.name, got, want)
			}
		}
		cancelled, declined, held := 100+i, 110+i, 200+i // 200 and above are for a person
		c.must(a, "POST", "/v1/orders", gwOrder(cancelled), nil)
		c.must(b, "POST", orderPath(cancelled, "/cancel"), map[string]any{}, nil)
		want(a, cancelled, countersign.CodeOrderCancelled)

		c.must(a, "POST", "/v1/orders", gwOrder(declined), nil)
		c.must(b, "POST", orderTask(declined, "/decline"), map[string]any{"reason": "no"}, nil)
		want(a, declined, countersign.CodeRefusedPerson)

		c.must(a, "POST", "/v1/orders", gwOrder(held), nil)
		want(b, held, countersign.CodeAwaitingApproval)
		c.must(a, "POST", orderTask(held, "/approve"), map[string]any{}, nil)
		want(b, held, 0)
		want(a, held, 0)
		if got := c.status(a, "POST", orderPath(held, "/cancel"), map[string]any{}); got != http.StatusConflict {
			t.Errorf("cancelling what is confirmed: %d", got)
		}
		unknown := 120 + i
		// The grace of a millisecond begins at one node and ends at another, whose
		// estimate of the database's clock may be some milliseconds behind.
		for c.deliver(a, countersigntest.Withdrawal(unknown)).Code() == countersign.CodeNotKnownYet {
			time.Sleep(2 * time.Millisecond)
		}
		want(b, unknown, countersign.CodeUnknownOrder)
		if got := c.status(a, "POST", "/v1/orders", gwOrder(unknown)); got != http.StatusConflict {
			t.Errorf("ordering what was refused: %d", got)
		}
	}
}

// testForwards wants each entry of the feeds to have been told once, by whichever
// node.
func (c *gwNodes) testForwards(t *testing.T, app *gwApp) {
	c.untilTold(c.nodes[0])
	want := len(c.deposits(c.nodes[0])) + len(c.events(c.nodes[0]))
	app.mu.Lock()
	defer app.mu.Unlock()
	for id, n := range app.tries {
		if n != 1 {
			t.Errorf("%s was told %d times", id, n)
		}
	}
	if len(app.tries) != want || len(app.faults) > 0 {
		t.Errorf("%d messages, want %d; %v", len(app.tries), want, app.faults)
	}
	t.Logf("%d messages, each told once", want)
}
