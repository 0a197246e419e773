package console_test

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
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

// company is the server of zitadel/oidc with groups of its people.
type company struct {
	*storage.Storage
	groups *sync.Map // lists by id of a person
}

func companyOf(s *storage.Storage, groups map[string][]string) company {
	c := company{s, &sync.Map{}}
	for id, list := range groups {
		c.groups.Store(id, list)
	}
	return c
}

func (c company) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, tokenID, subject, origin string) error {
	if list, ok := c.groups.Load(subject); ok {
		info.AppendClaims("groups", list)
	}
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
func newCompany(t *testing.T, origin string) (issuer string, c company) {
	t.Helper()
	users := companyUsers{}
	for id, name := range map[string][2]string{"u-1": {"Ann", "Approver"}, "u-2": {"Olga", "Operator"}, "u-3": {"Bob", "Approver"}} {
		users[id] = &storage.User{ID: id, Username: strings.ToLower(name[0]), Password: "verysecure", FirstName: name[0], LastName: name[1], Email: strings.ToLower(name[0]) + "@example.com"}
	}
	clients := map[string]*storage.Client{"console": storage.WebClient("console", "secret", origin+consoleReturn)}
	srv := httptest.NewUnstartedServer(nil)
	issuer = "http://" + srv.Listener.Addr().(*net.TCPAddr).String()
	was := slog.Default()
	c = companyOf(storage.NewStorageWithClients(users, clients), map[string][]string{"u-1": {"treasury"}, "u-2": {"desk"}, "u-3": {"treasury"}})
	srv.Config.Handler = exampleop.SetupServer(issuer, c, nil, false, op.WithAllowInsecure())
	slog.SetDefault(was)
	srv.Start()
	t.Cleanup(srv.Close)
	return issuer, c
}

const consoleReturn = "/console/signin/provider/return"

// atCompany signs in at the provider's own page.
func (b *tab) atCompany(name string) {
	b.t.Helper()
	b.open("/console/signin?next=/console/merchants")
	b.do(chromedp.Click(chromedp.CSS("a[href^='/console/signin/provider']")))
	b.become(`!!document.querySelector("input[name=username]")`)
	b.enter(name)
	b.become(`location.pathname === "/console/merchants" && document.readyState === "complete"`)
}

// enter fills in the provider's own page.
func (b *tab) enter(name string) {
	b.t.Helper()
	b.fill("input[name=username]", name)
	b.fill("input[name=password]", "verysecure")
	b.do(chromedp.Click(chromedp.CSS("button[type=submit]")))
}

// become is await across pages, on whose way there is no document.
func (b *tab) become(expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		cancel()
		if err == nil && is {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s does not come true: %v\n%s", expression, err, b.page())
		}
	}
}

// TestProviderInBrowser: people sign in with a provider of another maker. What an operator proposes
// happens when two approvers have approved it, one of them asked to sign in again. Who loses the group
// there has lost the role here within 15 minutes.
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
	base := "http://localhost:" + port
	issuer, people := newCompany(t, base)
	clock := &later{began: time.Now()}
	_, first := node(t, func(c *daemon.ServiceConfig) {
		c.Listen = listen
		c.World.Listen = func(string, string) (net.Listener, error) { return l, nil }
		c.World.Elapsed = clock.elapsed
		c.OIDC = daemon.OIDC{Issuer: issuer, Client: "console", Secret: "secret", Groups: []string{"treasury=approver", "desk=operator"}}
		c.ChangeApprovals = 2
	})
	admin := serviceAPI(t, base, first)
	if _, err := admin.CreateMerchant(ctx, client.NewMerchant{ID: "shop", Key: &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"}}); err != nil {
		t.Fatal(err)
	}
	notify := func(want string) {
		t.Helper()
		if m, err := admin.Merchant(ctx, "shop"); err != nil || m.NotifyURL != want {
			t.Errorf("%+v, %v; want %s", m, err, want)
		}
	}
	a := newTab(t, browser, base)
	a.open("/console/signin")
	a.accessible("sign-in with a provider")
	a.atCompany("ann")
	a.shows("Ann Approver (ann)")
	a.open("/console/?awaits=me")
	a.shows("Nothing is here.")

	// Olga proposes.
	o := newTab(t, browser, base)
	o.atCompany("olga")
	o.shows("Olga Operator (olga)")
	o.open("/console/merchants/shop/change")
	o.fill("#notifyUrl", "http://127.0.0.1:1/signed")
	o.click("button.main")
	o.shows("waits for an approver")
	list, err := admin.Tasks(ctx, client.TaskFilter{Kind: client.TaskChange}, client.PageOptions{})
	if err != nil || len(list.Tasks) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	waits := list.Tasks[0].About

	approve := func(b *tab) {
		b.t.Helper()
		b.open("/console/?awaits=me")
		b.click("td[data-label=What] a")
		b.press(`details:has(form[action$="/approve"]) > summary`)
		b.press("form[action$='/approve'] button")
	}
	// Ann signed in some time ago: the provider asks her before it counts.
	clock.forward(6 * time.Minute)
	approve(a)
	a.become(`!!document.querySelector("input[name=username]")`)
	if asked := get[string](a, `location.href`); !strings.HasPrefix(asked, issuer) {
		t.Errorf("she is asked at %s", asked)
	}
	notify("http://127.0.0.1:1/n")
	clock.forward(-6 * time.Minute) // its sign-in is of now
	a.enter("ann")
	a.become(`location.pathname === "/console/tasks/change.` + waits + `" && document.readyState === "complete"`)
	a.shows("not done yet")
	a.accessible("a page after a sign-in again")
	a.press(`details:has(form[action$="/approve"]) > summary`)
	a.press("form[action$='/approve'] button")
	a.become(`document.body.innerText.includes("1 of 2")`)
	notify("http://127.0.0.1:1/n")
	a.open("/console/?awaits=me")
	a.shows("Nothing is here.")
	a.open("/console/")
	a.shows("Ann Approver (ann)", "1 of 2")
	a.accessible("what waits for others")
	a.size(390, false)
	a.size(1280, false)

	// With the second person it happens.
	b := newTab(t, browser, base)
	b.atCompany("bob")
	approve(b)
	b.become(`document.body.innerText.includes("Approved.")`)
	notify("http://127.0.0.1:1/signed")
	ann, olga, bob := tokenOf(t, admin, "u-1"), tokenOf(t, admin, "u-2"), tokenOf(t, admin, "u-3")
	if task, err := admin.Task(ctx, "change."+waits); err != nil || task.Votes[1].Actor != bob.ID || !slices.Contains(task.Content, client.TaskMember{Name: "proposed by", Value: olga.ID}) || task.Needs != 2 || task.Missing != 0 || len(task.Could) > 0 || len(task.Votes) != 2 || task.Votes[0].Actor != ann.ID {
		t.Errorf("%+v, %v", task, err)
	}
	b.open("/console/tasks/change." + waits)
	b.shows("Ann Approver (ann)", "Bob Approver (bob)")
	b.accessible("a change that two persons approved")

	// Ann leaves the group. Bob stays in it.
	people.groups.Delete("u-1")
	clock.forward(15 * time.Minute)
	a.open("/console/tasks/change." + waits)
	a.become(`location.pathname === "/console/signin"`)
	b.open("/console/tasks/change." + waits)
	b.shows("Bob Approver (bob)")
}
