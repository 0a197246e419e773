package console_test

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"countersign/client"
	"countersign/internal/daemon"
)

// company is the server of zitadel/oidc with groups of its people.
type company struct {
	*storage.Storage
	groups map[string][]string // by id of a person
}

func (c company) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, tokenID, subject, origin string) error {
	info.AppendClaims("groups", c.groups[subject])
	return c.Storage.SetUserinfoFromToken(ctx, info, tokenID, subject, origin)
}

type companyUsers map[string]*storage.User

func (u companyUsers) GetUserByID(id string) *storage.User { return u[id] }
func (u companyUsers) ExampleClientID() string             { return "nobody" }
func (u companyUsers) GetUserByUsername(name string) *storage.User {
	for _, user := range u {
		if user.Username == name {
			return user
		}
	}
	return nil
}

// newCompany runs the provider for a console at origin.
func newCompany(t *testing.T, origin string) (issuer string) {
	t.Helper()
	users := companyUsers{}
	for id, name := range map[string][2]string{"u-1": {"Ann", "Approver"}, "u-2": {"Olga", "Operator"}} {
		users[id] = &storage.User{ID: id, Username: strings.ToLower(name[0]), Password: "verysecure", FirstName: name[0], LastName: name[1], Email: strings.ToLower(name[0]) + "@example.com"}
	}
	clients := map[string]*storage.Client{"console": storage.WebClient("console", "secret", origin+consoleReturn)}
	srv := httptest.NewUnstartedServer(nil)
	issuer = "http://" + srv.Listener.Addr().(*net.TCPAddr).String()
	was := slog.Default()
	srv.Config.Handler = exampleop.SetupServer(issuer, company{storage.NewStorageWithClients(users, clients), map[string][]string{"u-1": {"treasury"}, "u-2": {"desk"}}}, nil, false, op.WithAllowInsecure())
	slog.SetDefault(was)
	srv.Start()
	t.Cleanup(srv.Close)
	return issuer
}

const consoleReturn = "/console/signin/provider/return"

// atCompany signs in at the provider's own page.
func (b *tab) atCompany(name string) {
	b.t.Helper()
	b.open("/console/signin?next=/console/changes")
	b.do(chromedp.Click(chromedp.CSS("a[href^='/console/signin/provider']")))
	b.become(`!!document.querySelector("input[name=username]")`)
	b.fill("input[name=username]", name)
	b.fill("input[name=password]", "verysecure")
	b.do(chromedp.Click(chromedp.CSS("button[type=submit]")))
	b.become(`location.pathname === "/console/changes" && document.readyState === "complete"`)
}

// TestProviderInBrowser: an operator and an approver sign in with a provider of another maker. The
// approver registers a passkey and approves with it what the operator proposed.
func TestProviderInBrowser(t *testing.T) {
	browser := chromium(t)
	t.Parallel()
	ctx := t.Context()
	// The provider wants the address of the console, and the console that of the provider.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	_, port, _ := net.SplitHostPort(listen)
	base := "http://localhost:" + port // passkeys need a name
	issuer := newCompany(t, base)
	_, first := node(t, func(c *daemon.ServiceConfig) {
		c.Listen = listen
		c.World.Listen = func(string, string) (net.Listener, error) { return l, nil }
		c.OIDC = daemon.OIDC{Issuer: issuer, Client: "console", Secret: "secret", Groups: []string{"treasury=approver", "desk=operator"}}
		c.RequirePasskey = []client.Role{client.RoleApprover}
	})
	admin := serviceAPI(t, base, first)
	if _, err := admin.CreateMerchant(ctx, client.NewMerchant{ID: "shop", Key: &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"}}); err != nil {
		t.Fatal(err)
	}
	a := newTab(t, browser, base)
	a.authenticator()
	a.open("/console/signin")
	a.accessible("sign-in with a provider")
	a.atCompany("ann")
	a.shows("Ann Approver (ann)")

	// Olga proposes.
	o := newTab(t, browser, base)
	o.atCompany("olga")
	o.shows("Olga Operator (olga)")
	o.open("/console/merchants/shop/change")
	o.fill("#notifyUrl", "http://127.0.0.1:1/signed")
	o.click("button.main")
	o.shows("waits for an approver")
	list, err := admin.Changes(ctx, client.ChangeFilter{State: client.ChangeWaiting}, client.PageOptions{})
	if err != nil || len(list.Changes) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	waits := list.Changes[0].ID

	// Without a passkey the approver approves nothing.
	a.open("/console/changes/" + waits)
	a.shows("http://127.0.0.1:1/signed", "only with a passkey")
	if get[bool](a, `!!document.querySelector("form[action$='/approve']")`) {
		t.Error("without a passkey there is a button that approves")
	}
	if m, err := admin.Merchant(ctx, "shop"); err != nil || m.NotifyURL != "http://127.0.0.1:1/n" {
		t.Errorf("%+v, %v", m, err)
	}
	a.open("/console/passkeys")
	a.fill("#name", "telephone")
	a.submit("#new-passkey button", "Registered.")
	a.open("/console/changes/" + waits)
	a.submit("form[action$='/approve'] button", "Approved:")
	if m, err := admin.Merchant(ctx, "shop"); err != nil || m.NotifyURL != "http://127.0.0.1:1/signed" {
		t.Errorf("%+v, %v", m, err)
	}
	change, err := admin.Change(ctx, waits)
	ann, olga := tokenOf(t, admin, "u-1"), tokenOf(t, admin, "u-2")
	if err != nil || change.DecidedBy != ann.ID || change.ProposedBy != olga.ID {
		t.Errorf("%+v, %v", change, err)
	}
	// The passkey signs nobody in: the session would not end with the provider's.
	a.press(".me button")
	a.become(`location.pathname === "/console/signin" && document.readyState === "complete"`)
	a.submit("#passkey-signin button", "signs in nobody")
}
