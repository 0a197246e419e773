package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/journal"
)

// TestDevice: a person signs in from a command line. Who began asks until then, has one session
// like that of a browser, and none where the provider refuses.
func TestDevice(t *testing.T) {
	for _, public := range []bool{false, true} {
		p := newPeer(t, "desk")
		p.public = public
		testDevice(t, p)
	}
}

func testDevice(t *testing.T, p *peer) {
	base, admin, clock := people(t, p, "desk=operator")
	api, ctx := serviceAPI(t, base, ""), t.Context()
	begin := func() client.DeviceBegun {
		t.Helper()
		p.set(func() { p.device = "authorization_pending" })
		b, err := api.BeginDevice(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	says := func(word string) { p.set(func() { p.device = word }) }
	refused := func(b client.DeviceBegun, what string, want error) {
		t.Helper()
		in, err := api.FinishDevice(ctx, b.State)
		if !errors.Is(err, want) || in.Secret != "" || strings.ContainsAny(err.Error(), "\x1b<") {
			t.Errorf("%s: %v, %v", what, in.Waits, err)
		}
	}

	b := begin()
	if b.Page != p.URL+"/device" || b.UserCode != "BCDF-GHJK" || b.PageWithCode == "" || b.Interval != 7 || strings.Contains(b.State, p.code) {
		t.Errorf("%+v", b)
	}
	for word, slower := range map[string]bool{"authorization_pending": false, "slow_down": true} {
		says(word)
		if in, err := api.FinishDevice(ctx, b.State); err != nil || !in.Waits || in.Slower != slower || in.Secret != "" {
			t.Errorf("%s: %+v, %v", word, in, err)
		}
	}
	says("allow")
	p.set(func() { p.away = true })
	refused(b, "the provider is away", client.ErrUnavailable)
	p.set(func() { p.away = false })
	in, err := api.FinishDevice(ctx, b.State)
	if err != nil || in.Waits || in.Secret == "" || in.Expires == 0 {
		t.Fatalf("%v, %v", in, err)
	}
	kept := p.refresh
	refused(b, "a second session of one sign-in", client.ErrInvalid)
	p.set(func() { p.refresh = kept }) // a provider keeps that of each sign-in
	ann := serviceAPI(t, base, in.Secret)
	self, err := ann.Self(ctx)
	if err != nil || self.Role != client.RoleOperator || self.Subject != "oidc:ann" {
		t.Fatalf("%+v, %v", self, err)
	}
	log, err := admin.Audit(ctx, client.FeedOptions{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(log.Entries, func(e client.AuditEntry) bool {
		told, err := journal.Read(e.Record)
		return err == nil && told.Kind == "person.signedin" && told.By != nil && told.By.Subject == "oidc:ann"
	}) {
		t.Error("no record of the sign-in")
	}
	// The session is asked about as that of a browser, and ends with a sign-out.
	clock.forward(6 * time.Minute)
	if _, err := ann.Self(ctx); err != nil || p.asked.Load() != 1 || p.replayed.Load() != 0 {
		t.Errorf("6 minutes later: %v, asked %d times, %d replayed", err, p.asked.Load(), p.replayed.Load())
	}
	if err := ann.SignOut(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.Self(ctx); !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("signed out: %v", err)
	}

	b = begin()
	says("access_denied")
	refused(b, "denied", client.ErrUnauthorized)
	says("expired_token")
	refused(b, "expired", client.ErrInvalid)
	says("invalid_scope")
	refused(b, "another error", client.ErrUnavailable)
	b = begin()
	says("allow")
	p.set(func() { p.claims["groups"] = []string{"nobody"} })
	refused(b, "without a role", client.ErrForbidden)
	p.set(func() { p.claims["groups"] = []string{"desk"} })
	b = begin()
	says("allow")
	p.set(func() { p.sign = func(map[string]any) string { return "" } })
	refused(b, "without an ID token", client.ErrUnauthorized)
	p.set(func() { p.sign = nil })

	// What is no state of a device code gives nothing, and the provider is not asked.
	before := p.polled.Load()
	browser, err := api.BeginProvider(ctx, base)
	if err != nil {
		t.Fatal(err)
	}
	refused(client.DeviceBegun{State: browser.State}, "of a browser", client.ErrInvalid)
	refused(client.DeviceBegun{State: in.Secret.Reveal()}, "a session", client.ErrInvalid)
	refused(client.DeviceBegun{State: "AAAA"}, "invented", client.ErrInvalid)
	b = begin()
	says("allow")
	if _, err := api.FinishProvider(ctx, client.ProviderReturn{State: b.State, Given: "x", Code: "x", Issuer: p.URL}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("for a browser: %v", err)
	}
	clock.forward(11 * time.Minute)
	refused(b, "after 11 minutes of 10", client.ErrInvalid)
	if p.polled.Load() != before {
		t.Errorf("the provider was asked %d times", p.polled.Load()-before)
	}
}

// TestDeviceTexts: what the provider gives a person to read is shown on a terminal, so an answer
// with anything but ASCII, or with a page that is no secure one, begins nothing.
func TestDeviceTexts(t *testing.T) {
	p := newPeer(t, "desk")
	base, _, _ := people(t, p, "desk=operator")
	api := serviceAPI(t, base, "")
	for what, change := range map[string]func(map[string]any){
		"a code that clears the screen":  func(m map[string]any) { m["user_code"] = "A\x1b[2JB" },
		"a code that is turned around":   func(m map[string]any) { m["user_code"] = "\u202eABC" },
		"a code of two lines":            func(m map[string]any) { m["user_code"] = "A\nOpen https://evil.example" },
		"no code":                        func(m map[string]any) { m["user_code"] = "" },
		"a long code":                    func(m map[string]any) { m["user_code"] = strings.Repeat("A", 65) },
		"a page without TLS":             func(m map[string]any) { m["verification_uri"] = "http://id.example.com/device" },
		"a page that runs":               func(m map[string]any) { m["verification_uri"] = "javascript:alert(1)" },
		"a page with a line":             func(m map[string]any) { m["verification_uri"] = "https://id.example.com/\nx" },
		"a page that looks like another": func(m map[string]any) { m["verification_uri"] = "https://id.ex\u0430mple.com/" },
		"no page":                        func(m map[string]any) { delete(m, "verification_uri") },
		"no device code":                 func(m map[string]any) { delete(m, "device_code") },
		"a long device code":             func(m map[string]any) { m["device_code"] = strings.Repeat("A", 2001) },
		"an interval that is text":       func(m map[string]any) { m["interval"] = "soon" },
	} {
		p.set(func() { p.begun = change })
		b, err := api.BeginDevice(t.Context())
		if !errors.Is(err, client.ErrUnavailable) || b.State != "" || strings.Contains(err.Error(), "evil") {
			t.Errorf("%s: %+v, %v", what, b, err)
		}
	}
	for value, want := range map[int]int64{-1: 1, 0: 5, 1: 1, 1 << 40: 60} {
		p.set(func() {
			p.begun = func(m map[string]any) {
				m["interval"], m["expires_in"], m["verification_uri_complete"] = value, 1<<30, "https://id.example.com/\x1b"
			}
		})
		b, err := api.BeginDevice(t.Context())
		if err != nil || b.Interval != want || b.PageWithCode != "" || b.Ends.Time().After(time.Now().Add(31*time.Minute)) {
			t.Errorf("interval %d: %+v, %v", value, b, err)
		}
	}
	q := newPeer(t, "desk")
	q.noDevice = true
	base, _, _ = people(t, q, "desk=operator")
	if _, err := serviceAPI(t, base, "").BeginDevice(t.Context()); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("a provider without it: %v", err)
	}
	plain, _ := node(t, nil)
	if _, err := serviceAPI(t, plain, "").BeginDevice(t.Context()); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("no provider: %v", err)
	}
}

// deviceCompany is company where people sign in by a device code.
type deviceCompany struct{ company }

// CompleteDeviceAuthorization is told the name in place of the id.
func (c deviceCompany) CompleteDeviceAuthorization(ctx context.Context, code, name string) error {
	return c.Storage.CompleteDeviceAuthorization(ctx, code, map[string]string{"ann": "u-1"}[name])
}

// TestDeviceAtCompany signs in with the pages of a provider of another maker, and is refused by
// the person there.
func TestDeviceAtCompany(t *testing.T) {
	ctx := t.Context()
	users := companyUsers{"u-1": {ID: "u-1", Username: "ann", Password: "verysecure", FirstName: "Ann", LastName: "Approver"}}
	srv := httptest.NewUnstartedServer(nil)
	issuer := "http://" + srv.Listener.Addr().String()
	store := companyOf(storage.NewStorageWithClients(users, map[string]*storage.Client{"shell": storage.DeviceClient("shell", "secret")}), map[string][]string{"u-1": {"treasury"}})
	srv.Config.Handler = exampleop.SetupServer(issuer, deviceCompany{store}, nil, false, op.WithAllowInsecure())
	srv.Start()
	t.Cleanup(srv.Close)
	base, _ := node(t, func(c *daemon.ServiceConfig) {
		c.OIDC = daemon.OIDC{Issuer: issuer, Client: "shell", Secret: "secret", Groups: []string{"treasury=approver"}}
	})
	api := serviceAPI(t, base, "")
	for action, want := range map[string]error{"allowed": nil, "denied": client.ErrUnauthorized} {
		b, err := api.BeginDevice(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if in, err := api.FinishDevice(ctx, b.State); err != nil || !in.Waits {
			t.Fatalf("%+v, %v", in, err)
		}
		jar, _ := cookiejar.New(nil)
		person := &http.Client{Jar: jar}
		for _, step := range []func() (*http.Response, error){
			func() (*http.Response, error) {
				return person.PostForm(issuer+"/device/login", url.Values{"user_code": {b.UserCode}, "username": {"ann"}, "password": {"verysecure"}})
			},
			func() (*http.Response, error) { return person.Get(issuer + "/device/confirm?action=" + action) },
		} {
			resp, err := step()
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%+v, %v", resp, err)
			}
			_ = resp.Body.Close()
		}
		in, err := api.FinishDevice(ctx, b.State)
		if !errors.Is(err, want) || (in.Secret != "") != (want == nil) {
			t.Fatalf("%s: %v, %v", action, in.Waits, err)
		}
		if want != nil {
			continue
		}
		self, err := serviceAPI(t, base, in.Secret).Self(ctx)
		if text, _ := json.Marshal(self); err != nil || self.Role != client.RoleApprover || self.Subject != "oidc:u-1" {
			t.Errorf("%s, %v", text, err)
		}
	}
}
