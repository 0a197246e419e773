package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/journal"
	"countersign/internal/lab/passkeytest"
)

// TestProviderPublic: a client without a secret signs people in and is asked again.
func TestProviderPublic(t *testing.T) {
	p := newPeer(t, "desk")
	p.public = true
	base, _, clock := people(t, p, "desk=operator")
	s := newSite(t, base).signInPeer()
	clock.forward(6 * time.Minute)
	if at := s.get("/console/callbacks"); at.status != 200 || p.asked.Load() != 1 || p.replayed.Load() != 0 {
		t.Errorf("%d, asked %d times, %d replayed", at.status, p.asked.Load(), p.replayed.Load())
	}
}

// TestProviderFixation: who puts his own session into a browser before a person signs in there does
// not share the person's.
func TestProviderFixation(t *testing.T) {
	p := newPeer(t, "desk")
	base, _, _ := people(t, p, "desk=operator")
	p.set(func() { p.sub, p.claims["name"], p.claims["email"] = "mallory", "Mallory", "m@example.com" })
	mallory := newSite(t, base).signInPeer()
	at, _ := url.Parse(base + "/console/")
	planted := mallory.c.Jar.Cookies(at)
	if len(planted) == 0 {
		t.Fatal("no cookie")
	}
	ann := newSite(t, base)
	ann.c.Jar.SetCookies(at, planted)
	p.set(func() { p.sub, p.claims["name"], p.claims["email"] = "ann", "Ann", "ann@example.com" })
	ann.signInPeer()
	session := func(s *site) string {
		for _, c := range s.c.Jar.Cookies(at) {
			if strings.HasSuffix(c.Name, "session") {
				return c.Value
			}
		}
		return ""
	}
	if session(ann) == session(mallory) || session(ann) == "" {
		t.Error("the session is the one that was planted")
	}
	for s, name := range map[*site]string{ann: "Ann (ann@example.com)", mallory: "Mallory (m@example.com)"} {
		other := map[bool]string{true: "Mallory (", false: "Ann ("}[s == ann]
		if page := s.get("/console/callbacks"); page.status != 200 || !strings.Contains(page.body, name) || strings.Contains(page.body, other) {
			t.Errorf("%s: %d", name, page.status)
		}
	}
}

// TestProviderLosesAnswer: the provider takes a refresh token, and its answer reaches nobody, as
// where the process is killed before it keeps the next one. What the provider said before counts
// for its 15 minutes, and then nothing does.
func TestProviderLosesAnswer(t *testing.T) {
	p := newPeer(t, "desk")
	base, _, clock := people(t, p, "desk=operator")
	s := newSite(t, base).signInPeer()
	p.set(func() { p.lost = true })
	clock.forward(6 * time.Minute)
	if at := s.get("/console/callbacks"); at.status != 200 || p.asked.Load() != 1 {
		t.Errorf("the answer is lost: %d, asked %d times", at.status, p.asked.Load())
	}
	p.set(func() { p.lost = false })
	clock.forward(time.Minute)
	if at := s.get("/console/callbacks"); at.status != 303 || p.replayed.Load() != 1 {
		t.Errorf("with a token that was used: %d, %d replayed", at.status, p.replayed.Load())
	}
	if at := s.signInPeer().get("/console/callbacks"); at.status != 200 {
		t.Errorf("signed in again: %d", at.status)
	}
}

// TestGatewayProvider: a person signs in to the gateway's console, and approves an order only with
// a passkey where it is required. The page For you says so before.
func TestGatewayProvider(t *testing.T) {
	p, ctx := newPeer(t, "treasury"), t.Context()
	s := newShop(t, func(c *daemon.GatewayConfig) {
		c.OIDC, c.RequirePasskey = p.oidc("treasury=approver"), []client.Role{client.RoleApprover}
	})
	browser := newSite(t, s.base).signInPeer()
	o := s.held("order-1")
	page := func(path string, has, not string) {
		t.Helper()
		if at := browser.get(path); at.status != 200 || !strings.Contains(at.body, has) || not != "" && strings.Contains(at.body, not) {
			t.Errorf("%s: %d, want %q and not %q: %s", path, at.status, has, not, at.body)
		}
	}
	approve := "/console/orders/" + o.CallBackID + "/approve"
	page("/console/waiting", "this role does this only with a passkey", "")
	page("/console/waiting", "Nothing waits for you.", "")
	page("/console/orders/"+o.CallBackID, "this role does this only with a passkey", approve)
	browser.post(approve, url.Values{"reason": {"r"}})
	p.set(func() { p.device = "allow" })
	b, err := s.admin.BeginDevice(ctx)
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.admin.FinishDevice(ctx, b.State)
	if err != nil {
		t.Fatal(err)
	}
	ann := s.as(in.Secret)
	if _, err := ann.ApproveOrderSigned(ctx, o.CallBackID, "", nil); err == nil || !strings.Contains(err.Error(), "passkey") {
		t.Errorf("without a passkey: %v", err)
	}
	if at, err := s.admin.Order(ctx, o.CallBackID); err != nil || at.State != client.OrderHeld {
		t.Fatalf("%+v, %v", at, err)
	}
	begun, err := ann.PasskeyChallenge(ctx, s.base)
	if err != nil {
		t.Fatal(err)
	}
	device := passkeytest.New(t, s.base, begun.Host)
	if _, err := ann.AddPasskey(ctx, client.NewPasskey{Name: "phone", State: begun.State, Credential: device.Create(begun.Challenge)}); err != nil {
		t.Fatal(err)
	}
	page("/console/waiting", "order <bdi>order-1", "Waits for others")
	page("/console/orders/"+o.CallBackID, "data-signed", "")
	statement, err := ann.OrderApproval(ctx, o.CallBackID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ann.ApproveOrderSigned(ctx, o.CallBackID, "seen", &client.Assertion{Text: statement.Text, Credential: device.Sign(statement.Challenge)}); err != nil {
		t.Fatal(err)
	}
	if at, err := s.admin.Order(ctx, o.CallBackID); err != nil || at.State != client.OrderApproved || at.DecidedBy != statementToken(t, ann) {
		t.Errorf("%+v, %v", at, err)
	}
	page("/console/waiting", "Nothing waits for you.", "order-1")
	log, err := s.admin.Audit(ctx, client.FeedOptions{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	signed := 0
	for _, e := range log.Entries {
		if told, err := journal.Read(e.Record); err == nil && told.Kind == "order.approved" && told.Passkey != nil && told.By != nil && told.By.Subject == "oidc:ann" {
			signed++
		}
	}
	if signed != 1 {
		t.Errorf("%d records of the approval", signed)
	}
	if out := browser.post("/console/signout", nil); out.status != http.StatusSeeOther {
		t.Errorf("%d", out.status)
	}
	if at := browser.get("/console/orders"); at.status != http.StatusSeeOther {
		t.Errorf("signed out: %d", at.status)
	}
}

func statementToken(t *testing.T, c *client.Gateway) string {
	t.Helper()
	self, err := c.Self(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return self.ID
}
