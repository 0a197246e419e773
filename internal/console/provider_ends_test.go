package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
)

// TestGatewayProvider: a person signs in to the gateway's console. To approve an order and to credit a
// deposit the provider is asked again where the last sign-in is older than five minutes, or of an age
// that it does not say.
func TestGatewayProvider(t *testing.T) {
	p, ctx, clock := newPeer(t, "treasury"), t.Context(), &later{began: time.Now()}
	s := newShop(t, func(c *daemon.GatewayConfig) { c.OIDC, c.World.Elapsed = p.oidc("treasury=approver"), clock.elapsed })
	browser := newSite(t, s.base).signInPeer()
	o := s.held("order-1")
	at, reason := "/console/orders/"+o.CallBackID, url.Values{"reason": {"r"}}
	approve := func() page {
		t.Helper()
		return browser.do(http.MethodPost, "/console/tasks/order."+o.CallBackID+"/approve", reason, "Referer", s.base+at)
	}
	state := func(want client.OrderState) {
		t.Helper()
		if o, err := s.admin.Order(ctx, o.CallBackID); err != nil || o.State != want {
			t.Errorf("the order is %s, want %s, %v", o.State, want, err)
		}
	}
	// again follows the page that leads to the provider.
	again := func(p page) string {
		t.Helper()
		to, leads := strings.CutPrefix(p.header.Get("Refresh"), "0;url=")
		if p.status != http.StatusUnauthorized || !leads || !strings.Contains(p.body, "Sign in again") {
			t.Fatalf("it was not asked again: %d %s", p.status, p.body)
		}
		return browser.throughPeer(to)
	}
	back := again(approve())
	state(client.OrderHeld)
	p.set(func() {
		if p.begun.Get("max_age") != "300" {
			t.Errorf("it began with %v", p.begun)
		}
	})
	browser.get(back).is(http.StatusUnauthorized, "auth_time")               // the provider does not say when
	for _, age := range []time.Duration{301 * time.Second, -3 * time.Hour} { // too long ago, and ahead
		p.set(func() { p.claims["auth_time"] = time.Now().Add(-age).Unix() })
		browser.get(again(approve())).is(http.StatusUnauthorized)
	}
	state(client.OrderHeld)
	p.set(func() { p.claims["auth_time"] = time.Now().Add(-time.Minute).Unix() })
	if to := browser.get(again(approve())).header.Get("Refresh"); to != "0;url="+at+"?did=again" {
		t.Errorf("it goes on at %q", to)
	}
	if at := browser.get(at + "?did=again"); !strings.Contains(at.body, "not done yet") {
		t.Errorf("%d %s", at.status, at.body)
	}
	state(client.OrderHeld)
	approve().is(http.StatusSeeOther)
	state(client.OrderApproved)
	if log, err := s.admin.Audit(ctx, client.FeedOptions{Limit: 1000}); err != nil || !slices.ContainsFunc(log.Entries, func(e client.AuditEntry) bool {
		told, err := journal.Read(e.Record)
		return err == nil && told.Kind == "order.approved" && told.By != nil && told.By.Subject == "oidc:ann"
	}) {
		t.Errorf("no record of the approval: %v", err)
	}
	// Other pages and acts go on with an older sign-in.
	clock.forward(6 * time.Minute)
	browser.get("/console/orders").is(http.StatusOK)
	s.held("order-2")
	at = "/console/orders/order-2"
	again(approve())
	if at := browser.do(http.MethodPost, "/console/tasks/order.order-2/decline", reason); at.status != http.StatusSeeOther || !strings.HasSuffix(at.to(), "?did=declined") {
		t.Errorf("declined: %d %s", at.status, at.body)
	}
	browser.post("/console/signout", nil).is(http.StatusSeeOther)
	browser.get("/console/orders").is(http.StatusSeeOther) // signed out
}

// sessionOf signs the peer's person in by the API alone.
func (p *peer) sessionOf(t *testing.T, api *client.Common, origin string) client.Secret {
	t.Helper()
	b := must(client.Post[client.ProviderBegun](t.Context(), api, "/v1/signin/provider/begin", client.ProviderOrigin{Origin: origin}))(t)
	back := must(url.Parse(atPeer(t, b.URL)))(t).Query()
	return must(client.Post[client.SignedIn](t.Context(), api, "/v1/signin/provider/finish", client.ProviderReturn{State: b.State, ReturnedState: back.Get("state"), Code: back.Get("code"), Issuer: back.Get("iss")}))(t).Secret
}

// freshActs are the acts that move money or decide on it, with bodies: a person has signed in within
// the last five minutes.
var freshActs = map[string]map[string]string{
	"service": {
		"/v1/thaw": "{}", "/v1/tasks/change.none/approve": "{}", "/v1/tasks/approve": `{"ids":["change.none"]}`, "/v1/tokens": `{"name":"t","role":"admin"}`, "/v1/tasks/release.shop.none/approve": "{}",
		"/v1/tasks/restored.shop.none/approve": `{"reason":"r"}`,
	},
	"gateway": {
		"/v1/tasks/change.none/approve": "{}", "/v1/tasks/approve": `{"ids":["change.none"]}`, "/v1/tokens": `{"name":"t","role":"admin"}`, "/v1/tasks/order.none/approve": "{}", "/v1/tasks/restored.none/approve": "{}",
		"/v1/tasks/deposit.1/approve": "{}", "/v1/tasks/address.1/approve": "{}", "/v1/tasks/refused.1/approve": "{}",
	},
}

// TestFreshActs: the API asks a person for a recent sign-in before each of these acts, and no token.
func TestFreshActs(t *testing.T) {
	clock := &later{began: time.Now()}
	p, q := newPeer(t, "admins"), newPeer(t, "admins") // each knows one refresh token
	for _, p := range []*peer{p, q} {
		p.set(func() { p.claims["auth_time"] = time.Now().Unix() })
	}
	shop := newShop(t, func(c *daemon.GatewayConfig) { c.OIDC, c.World.Elapsed = p.oidc("admins=admin"), clock.elapsed })
	base, first := node(t, func(c *daemon.ServiceConfig) { c.OIDC, c.World.Elapsed = q.oidc("admins=admin"), clock.elapsed })
	service := serviceAPI(t, base, first)
	person := serviceAPI(t, base, q.sessionOf(t, &service.Common, base))
	atShop := shop.as(p.sessionOf(t, &shop.admin.Common, shop.base))
	for _, stale := range []bool{false, true} {
		if stale {
			clock.forward(5 * time.Minute)
		}
		for end, call := range map[string]func(ctx context.Context, method, path string, body json.RawMessage) (json.RawMessage, error){"service": person.Call, "gateway": atShop.Call} {
			for path, body := range freshActs[end] {
				var problem *client.Problem
				_, err := call(t.Context(), http.MethodPost, path, json.RawMessage(body))
				if asked := errors.As(err, &problem) && problem.Code == client.CodeSignInAgain; asked != stale || stale && problem.Status != http.StatusUnauthorized {
					t.Errorf("%s %s, stale %v: %v", end, path, stale, err)
				}
			}
		}
	}
	for path, body := range freshActs["service"] {
		if _, err := service.Call(t.Context(), http.MethodPost, path, json.RawMessage(body)); errors.Is(err, client.ErrUnauthorized) {
			t.Errorf("%s with a token: %v", path, err)
		}
	}
	must(atShop.DecideMany(t.Context(), "approve", client.DecideTasks{IDs: []string{"deposit.1"}, DryRun: true}))(t)
}

// TestProviderStrangers: who begins sign-ins without end, or ends what did not begin here, keeps
// nobody out, from the same address either.
func TestProviderStrangers(t *testing.T) {
	p := newPeer(t, "desk")
	base, admin, _ := people(t, p, "desk=operator")
	ctx := t.Context()
	throttled := 0
	for range 1500 {
		if _, err := client.Post[client.ProviderBegun](ctx, admin, "/v1/signin/provider/begin", client.ProviderOrigin{Origin: base}); err != nil {
			t.Fatalf("a beginning: %v", err)
		}
		_, err := client.Post[client.SignedIn](ctx, admin, "/v1/signin/provider/finish", client.ProviderReturn{State: "guessed", ReturnedState: "x", Code: "x"})
		var problem *client.Problem
		if !errors.As(err, &problem) {
			t.Fatalf("a guess: %v", err)
		}
		if problem.Status == http.StatusTooManyRequests {
			throttled++
		}
	}
	if throttled == 0 {
		t.Error("guesses are not counted")
	}
	if s := newSite(t, base).signInPeer(); s.get("/console/callbacks").status != http.StatusOK {
		t.Error("a person from the same address is kept out")
	}
}

// TestProviderClaims: groups are read where the path leads, from texts alone.
func TestProviderClaims(t *testing.T) {
	type claims = map[string]any
	type answer struct {
		claims claims
		says   string // empty: the person signs in
	}
	for claim, cases := range map[string]map[string]answer{
		"realm_access.roles": {
			"a path":                 {claims{"realm_access": claims{"roles": []string{"desk"}}}, ""},
			"a path that ends early": {claims{"realm_access": []string{"desk"}}, "has a role here"},
		},
		"https://example.com/groups": {"a name with dots": {claims{"https://example.com/groups": []string{"desk"}}, ""}},
		"groups": {
			"an object":       {claims{"groups": claims{"desk": claims{"org": "a"}}}, "has a role here"},
			"null":            {claims{"groups": []any{nil}}, "has a role here"},
			"an overage":      {claims{"groups": nil, "_claim_names": claims{"groups": "src1"}, "_claim_sources": claims{"src1": claims{}}}, "overage"},
			"hasgroups":       {claims{"groups": nil, "hasgroups": true}, "overage"},
			"iat of tomorrow": {claims{"groups": []string{"desk"}, "iat": time.Now().Add(3 * time.Hour).Unix(), "exp": time.Now().Add(5 * time.Hour).Unix()}, "does not sign in"},
		},
	} {
		p := newPeer(t)
		var log dbtest.Log
		base, _ := node(t, func(cfg *daemon.ServiceConfig) {
			cfg.OIDC = p.oidc("desk=operator")
			cfg.OIDC.Claim, cfg.Log = claim, slog.New(slog.NewTextHandler(&log, nil))
		})
		for name, c := range cases {
			p.set(func() { p.claims = c.claims })
			s := newSite(t, base)
			at := s.get(s.atPeer("/console/"))
			if c.says == "" != (at.status == http.StatusOK) || !strings.Contains(at.body, c.says) {
				t.Errorf("%s: %d %s", name, at.status, at.body)
			}
		}
		if claim == "groups" && !strings.Contains(log.String(), "_claim_names") {
			t.Errorf("the log: %s", log.String())
		}
	}
	c := daemon.OIDC{Issuer: "https://id.example.com", Client: "c", Groups: []string{"desk=viewer"}}
	for _, claim := range []string{".", "a..b", "a.", ".a"} {
		c.Claim = claim
		if err := c.Check(client.ValuesAt[client.Role](client.AtService), true); err == nil || !strings.Contains(err.Error(), "--oidc-claim") {
			t.Errorf("%q: %v", claim, err)
		}
	}
}
