package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/web"
	"countersign/merchant"
)

// gwNodes are several gateways on one PostgreSQL, each a process, and the honest
// service that calls them.
type gwNodes struct {
	t       *testing.T
	service *countersigntest.Service
	data    string
	token   string // an operator's
	app     string // the merchant's application's: it orders
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
	// All share one directory: they need the same master key.
	c := &gwNodes{t: t, service: service, data: filepath.Join(dir, "data")}
	if i := slices.Index(args, "--data"); i >= 0 {
		c.data = args[i+1]
	}
	own := append([]string{"gateway", "--data", c.data, "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0",
		"--service-key", secretFile(t, service.MerchantKey().PublicBase64()), "--api-key", "@" + secretFile(t, service.APIKey().Reveal()),
		"--callback-api-key", "@" + secretFile(t, service.CallbackAPIKey().Reveal()), "--grace", "1ms"}, args...)
	for i, url := range urls {
		n := &gwNode{name: string(rune('a' + i)), args: slices.Clone(own)}
		if url != "" { // else SQLite
			n.args = append(n.args, "--db", url)
		}
		c.nodes = append(c.nodes, n)
		n.start(t)
	}
	c.token = adminToken(t, c.data)
	var app struct{ Token string }
	c.must(c.nodes[0], "POST", "/v1/tokens", map[string]any{"name": "app", "role": "app"}, &app)
	c.app = app.Token
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
	if method == "POST" && path == "/v1/orders" {
		token = c.app
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

type gwDeposit struct {
	Seq        int64
	TrackingID string
	State      string
}

func (d gwDeposit) seq() int64 { return d.Seq }

type gwEvent struct {
	Seq        int64
	Kind       string
	CallBackID string
}

func (e gwEvent) seq() int64 { return e.Seq }

// readFeed reads a feed at n to its end and holds it to having no gap.
func readFeed[T interface{ seq() int64 }](c *gwNodes, n *gwNode, name string) (all []T) {
	c.t.Helper()
	for {
		var page client.Feed[T]
		c.must(n, "GET", fmt.Sprintf("/v1/%s?limit=1000&after=%d", name, len(all)), nil, &page)
		if len(page.Items) == 0 {
			return all
		}
		for _, e := range page.Items {
			if e.seq() != int64(len(all)+1) {
				c.t.Fatalf("node %s has %d of %s where %d was due", n.name, e.seq(), name, len(all)+1)
			}
			all = append(all, e)
		}
	}
}

func (c *gwNodes) deposits(n *gwNode) []gwDeposit { return readFeed[gwDeposit](c, n, "deposits") }
func (c *gwNodes) events(n *gwNode) []gwEvent     { return readFeed[gwEvent](c, n, "events") }

// gwOrder is the order that countersigntest.Withdrawal(n) asks for.
func gwOrder(n int) map[string]any {
	w, d := countersigntest.Withdrawal(n), countersigntest.Order(n)
	return map[string]any{"callBackId": w.CallBackID, "tenantUserId": w.TenantUserID, "address": d.Address, "chainName": d.ChainName,
		"symbol": d.Symbol, "amount": d.Amount.String()}
}

func orderPath(n int, action string) string {
	return "/v1/orders/" + countersigntest.Withdrawal(n).CallBackID + action
}

// gwApp is the merchant's application, told by the nodes.
type gwApp struct {
	*httptest.Server
	secret web.Secret
	mu     sync.Mutex
	tries  map[string]int // by message id
	bodies map[string]string
	faults []string
	refuse bool // answer 503
}

func newGwApp(t *testing.T) (a *gwApp, secret string) {
	secret = "whsec_c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMsIG9rIQ=="
	parsed, err := web.ParseSecret(secret)
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
	id := r.Header.Get(web.HeaderID)
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
