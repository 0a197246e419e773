package console_test

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"countersign/client"
	"countersign/internal/daemon"
)

// company is the server of zitadel/oidc, with Ann, who is in a group.
type company struct {
	*storage.Storage
	group *atomic.Pointer[string]
}

func (c company) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, tokenID, subject, origin string) error {
	if group := c.group.Load(); group != nil {
		info.AppendClaims("groups", []string{*group})
	}
	return c.Storage.SetUserinfoFromToken(ctx, info, tokenID, subject, origin)
}

type companyUsers struct{ *storage.User }

func (u companyUsers) GetUserByID(string) *storage.User       { return u.User }
func (u companyUsers) ExampleClientID() string                { return "nobody" }
func (u companyUsers) GetUserByUsername(string) *storage.User { return u.User }

// newCompany runs the provider for a console at origin.
func newCompany(t *testing.T, origin string) (issuer string, group *atomic.Pointer[string]) {
	t.Helper()
	ann := companyUsers{&storage.User{ID: "u-1", Username: "ann", Password: "verysecure", FirstName: "Ann", LastName: "Approver", Email: "ann@example.com"}}
	clients := map[string]*storage.Client{"console": storage.WebClient("console", "secret", origin+"/console/signin/provider/return")}
	srv := httptest.NewUnstartedServer(nil)
	issuer = "http://" + srv.Listener.Addr().(*net.TCPAddr).String()
	was := slog.Default()
	c := company{storage.NewStorageWithClients(ann, clients), &atomic.Pointer[string]{}}
	srv.Config.Handler = exampleop.SetupServer(issuer, c, nil, false, op.WithAllowInsecure())
	slog.SetDefault(was)
	srv.Start()
	t.Cleanup(srv.Close)
	return issuer, c.group
}

// signInWithCompany signs in with a provider of another maker. To approve what an operator proposed, Ann is asked to
// sign in again. Who loses the group there has lost the role here within 15 minutes.
func signInWithCompany(t *testing.T, browser context.Context) {
	// The provider wants the address of the console, and the console that of the provider.
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	base := "http://localhost:" + port
	issuer, group := newCompany(t, base)
	treasury := "treasury"
	group.Store(&treasury)
	clock := &later{began: time.Now()}
	_, first := node(t, func(c *daemon.ServiceConfig) {
		c.Listen = l.Addr().String()
		c.World.Listen = func(string, string) (net.Listener, error) { return l, nil }
		c.World.Elapsed = clock.elapsed
		c.OIDC = daemon.OIDC{Issuer: issuer, Client: "console", Secret: "secret", Groups: []string{"treasury=approver"}}
	})
	admin, ctx := serviceAPI(t, base, first), t.Context()
	addMerchant(t, admin, "shop", client.MerchantSettings{})
	b := newTab(t, browser, base)
	b.open("/console/signin?next=/console/merchants")
	b.harmless("sign-in with a provider", 0, true, true)
	// enter fills in the provider's own page.
	enter := func() {
		t.Helper()
		b.await(`!!document.querySelector("input[name=username]")`)
		if asked := get[string](b, `location.href`); !strings.HasPrefix(asked, issuer) {
			t.Errorf("she is asked at %s", asked)
		}
		b.fill(map[string]string{"input[name=username]": "ann", "input[name=password]": "verysecure"})
		b.do(chromedp.Click(chromedp.CSS("button[type=submit]")))
	}
	b.do(chromedp.Click(chromedp.CSS("a[href^='/console/signin/provider']")))
	enter()
	b.await(`location.pathname === "/console/merchants" && document.readyState === "complete"`)
	b.shows("Ann Approver (ann)")

	proposed := must(admin.CreateToken(ctx, client.NewToken{Name: "proposed", Role: client.RoleViewer}))(t)
	if proposed.Task == "" { // who signs in later is an approver too: a change waits from now on
		t.Fatalf("%+v", proposed)
	}
	approve := func() {
		t.Helper()
		b.press(`details:has(form[action$="/approve"]) > summary`)
		b.press("form[action$='/approve'] button")
	}
	open := func() int { return len(must(admin.Tasks(ctx, client.TaskFilter{}, client.PageOptions{}))(t).Items) }
	clock.forward(6 * time.Minute)
	b.open("/console/?awaits=me")
	b.click("td[data-label=What] a")
	approve()
	b.await(`!!document.querySelector("input[name=username]")`)
	clock.forward(-6 * time.Minute) // its sign-in is of now
	enter()
	b.await(`location.pathname === "/console/tasks/` + proposed.Task + `" && document.readyState === "complete"`)
	b.shows("not done yet")
	b.harmless("a page after a sign-in again", 0, true, true)
	if open() != 1 {
		t.Error("it was done before she signed in")
	}
	approve()
	b.await(`document.body.innerText.includes("Approved.")`)
	if open() != 0 {
		t.Error("it was not done")
	}
	group.Store(nil)
	clock.forward(15 * time.Minute)
	b.open("/console/tasks/" + proposed.Task)
	b.await(`location.pathname === "/console/signin"`)
}
