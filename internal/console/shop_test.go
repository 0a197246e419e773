package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/book"
	"countersign/internal/daemon"
	"countersign/internal/gateway"
	"countersign/internal/policy"
)

// shop is a real gateway: a person approves above 1,000 USDT, and its application takes nothing that is forwarded.
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

[[limit]]
name = "large amounts need a person"
symbol = "USDT"
max = "1000"
above = "ask"
`

func newShop(t testing.TB, change ...func(*daemon.GatewayConfig)) *shop {
	t.Helper()
	service := countersigntest.NewService(t)
	policy := must(policy.Parse([]byte(shopPolicy)))(t)
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(application.Close)
	s := &shop{t: t, service: service}
	c := daemon.GatewayConfig{
		Common: daemon.Common{Storage: daemon.Storage{Dir: t.TempDir()}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), ShowToken: func(token, _ string) { s.first = client.Secret(token) }},
		Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0", Callbacks: service.MerchantConfig(), Policy: policy,
		Forward: gateway.Forwarding{URL: application.URL, Secret: []byte("a secret of at least 24 bytes")},
	}
	for _, f := range change {
		f(&c)
	}
	g := must(daemon.NewGateway(c))(t)
	run(t, g.Open, g.Run)
	s.base = strings.Replace(g.URL(), "127.0.0.1", "localhost", 1)
	s.to = countersigntest.ToURLs(g.CallbackURL()+"/callbacks/notify", g.CallbackURL()+"/callbacks/withdraw", nil)
	s.wrong = countersigntest.ToURLs(g.CallbackURL()+"/callbacks/withdraw", g.CallbackURL()+"/callbacks/withdraw", nil)
	s.admin, s.book = s.as(s.first), g.Book()
	s.app = s.as(s.token(client.RoleApp).Secret)
	return s
}

// run opens and runs an end until the test ends.
func run(t testing.TB, open, run func(context.Context) error) {
	t.Helper()
	ok(t, open(t.Context()))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (s *shop) as(token client.Secret) *client.Gateway {
	s.t.Helper()
	return must(client.NewGateway(client.Config{URL: s.base, Token: token}))(s.t)
}

func (s *shop) token(role client.Role) client.CreatedToken {
	s.t.Helper()
	return must(s.admin.CreateToken(s.t.Context(), client.NewToken{Name: "the " + string(role), Role: role}))(s.t)
}

// largeOrder is one that a person must approve.
func largeOrder(t testing.TB, id string) client.NewOrder {
	return client.NewOrder{CallBackID: id, TenantUserID: "user-7", Address: "TTarget", ChainName: "TRON", Symbol: "USDT", Amount: amount(t, "1000.000000000000000001"),
		Labels: map[string]string{"country": "CH"}}
}

// held is an order that awaits a person.
func (s *shop) held(id string) client.NewOrder {
	s.t.Helper()
	o := largeOrder(s.t, id)
	must(s.app.AddOrder(s.t.Context(), o))(s.t)
	s.ask(o)
	return o
}

// ask asks for an order that awaits a person, as the service does.
func (s *shop) ask(o client.NewOrder) {
	s.t.Helper()
	w := countersigntest.Withdrawal(1)
	w.TrackingID, w.TenantUserID, w.CallBackID = "question-"+o.CallBackID, o.TenantUserID, o.CallBackID
	if r := s.service.Deliver(s.t.Context(), s.to, w); r.Response.ErrCode != countersign.CodeAwaitingApproval {
		s.t.Fatalf("asking for %s: errCode %d", o.CallBackID, r.Response.ErrCode)
	}
}

// twice tells of a transfer under two trackingIds and gives the number of the second.
func (s *shop) twice(n int) int64 {
	s.t.Helper()
	again := countersigntest.Deposit(n)
	again.TrackingID += "-again"
	s.tell(countersigntest.Deposit(n))
	s.tell(again)
	list, err := s.admin.SearchDeposits(s.t.Context(), client.DepositSearch{TrackingID: again.TrackingID}, client.PageOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].State != client.DepositHeld {
		s.t.Fatalf("%+v, %v", list, err)
	}
	return list.Items[0].Seq
}

// moved tells of a user whose address was replaced.
func (s *shop) moved(user string) {
	s.t.Helper()
	s.tell(&countersign.AddressChange{Head: countersign.Head{TrackingID: "moved-" + user, TenantUserID: user}, ChainName: "TRON", Symbol: "USDT",
		ToAddress: "TOld", NewAddress: "TNew"})
}

// misdirected posts a deposit to the URL of withdrawals, and gives the id of what is kept of it.
func (s *shop) misdirected(n int) int64 {
	s.t.Helper()
	s.service.Deliver(s.t.Context(), s.wrong, countersigntest.Deposit(900+n))
	page, err := s.admin.Refused(s.t.Context(), client.RefusedFilter{Reason: "wrong_url"}, client.PageOptions{})
	if err != nil || len(page.Items) == 0 {
		s.t.Fatalf("%+v, %v", page, err)
	}
	return page.Items[0].ID
}

func (s *shop) tell(cb countersign.Callback) {
	s.t.Helper()
	if r := s.service.Deliver(s.t.Context(), s.to, cb); r.Response.ErrCode != countersign.CodeAccepted {
		s.t.Fatalf("errCode %d", r.Response.ErrCode)
	}
}
