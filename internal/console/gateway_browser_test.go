package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/book"
	"countersign/internal/console"
	"countersign/internal/daemon"
	"countersign/internal/gateway"
	"countersign/internal/policy"
)

// shop is a real gateway: a person approves above 1,000 USDT, and its application takes
// nothing that is forwarded.
type shop struct {
	t       testing.TB
	base    string // of the API, under the name localhost
	service *countersigntest.Service
	to      countersigntest.Endpoint
	wrong   countersigntest.Endpoint // all callbacks come to the URL of withdrawals
	admin   *client.Gateway
	first   client.Secret
	app     *client.Gateway // orders: who orders approves nothing
	book    *book.Book
}

const shopPolicy = `default = "allow"

[[rule]]
name = "sanctioned"
labels = ["country"]
label.country = ["XX"]
effect = "deny"
reason = "no payments to this country"

[[limit]]
name = "large amounts need a person"
symbol = "USDT"
max = "1000"
above = "ask"
`

func newShop(t testing.TB, change ...func(*daemon.GatewayConfig)) *shop {
	t.Helper()
	service := countersigntest.NewService(t)
	policy, err := policy.Parse([]byte(shopPolicy))
	if err != nil {
		t.Fatal(err)
	}
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(application.Close)
	s := &shop{t: t, service: service}
	c := daemon.GatewayConfig{
		Common: daemon.Common{Storage: daemon.Storage{Dir: t.TempDir()}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), ShowToken: func(token, _ string) { s.first = client.Secret(token) }},
		Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0", Callbacks: service.MerchantConfig(), Policy: policy,
		Forward: gateway.Forwarding{URL: application.URL},
	}
	for _, f := range change {
		f(&c)
	}
	g, err := daemon.NewGateway(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.base = strings.Replace(g.URL(), "127.0.0.1", "localhost", 1)
	s.to = countersigntest.ToURLs(g.CallbackURL()+"/callbacks/notify", g.CallbackURL()+"/callbacks/withdraw", nil)
	s.wrong = countersigntest.ToURLs(g.CallbackURL()+"/callbacks/withdraw", g.CallbackURL()+"/callbacks/withdraw", nil)
	s.admin, s.book = s.as(s.first), g.Book()
	s.app = s.as(s.token(client.RoleApp).Secret)
	return s
}

func (s *shop) as(token client.Secret) *client.Gateway {
	s.t.Helper()
	c, err := client.NewGateway(client.Config{URL: s.base, Token: token})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *shop) token(role client.Role) client.CreatedToken {
	s.t.Helper()
	made, err := s.admin.CreateToken(s.t.Context(), client.NewToken{Name: "the " + string(role), Role: role})
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// held is an order that awaits a person, ordered by a token of its own.
func (s *shop) held(id string) client.NewOrder {
	s.t.Helper()
	o := client.NewOrder{CallBackID: id, TenantUserID: "user-7", Address: "TTarget", ChainName: "TRON", Symbol: "USDT", Amount: amount(s.t, "1000.000000000000000001"),
		Labels: map[string]string{"country": "CH"}}
	if _, err := s.app.AddOrder(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
	s.ask(o, countersign.CodeAwaitingApproval)
	return o
}

// ask asks as the service does.
func (s *shop) ask(o client.NewOrder, want countersign.ErrCode) {
	s.t.Helper()
	w := countersigntest.Withdrawal(1)
	w.TrackingID, w.TenantUserID, w.CallBackID = "question-"+o.CallBackID, o.TenantUserID, o.CallBackID
	r := s.service.Deliver(s.t.Context(), s.to, w)
	if r.Response.ErrCode != want {
		s.t.Fatalf("asking for %s: errCode %d, want %d", o.CallBackID, r.Response.ErrCode, want)
	}
}

func gatewayPatterns(t *testing.T) []string {
	t.Helper()
	c, err := console.NewGateway(bareConfig)
	if err != nil {
		t.Fatal(err)
	}
	return c.Patterns()
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in %v", what, patience)
		}
	}
}

// TestGatewayLive: an order that is held appears by itself, and what a person fills in
// stays.
func TestGatewayLive(t *testing.T) {
	browser := chromium(t)
	t.Parallel()
	s := newShop(t)
	b := newTab(t, browser, s.base)
	b.signIn(s.token(client.RoleApprover).Secret)
	b.shows("Nothing is here.")
	s.held("appears-1")
	b.await(`document.body.innerText.includes("appears-1")`)
	b.click(`[id="task-order.appears-1"]`)
	b.shows("1000.000000000000000001", "large amounts need a person")
	b.click(`a[href="/console/orders/appears-1"]`)
	b.shows("1000.000000000000000001", "large amounts need a person", "this is the first order to this address")
	b.do(chromedp.NavigateBack())
	b.do(chromedp.NavigateBack())
}
