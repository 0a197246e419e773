package admin

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"countersign/internal/store"
)

// Every route with every role and with none. The ids are of nothing, so that a
// call that gets in changes nothing.
func TestRolesOfEveryRoute(t *testing.T) {
	h := sqlite(t)
	for _, rt := range h.server.endpoints {
		path := strings.Replace(rt.path, "{id}", "none", 1)
		for _, c := range []struct {
			role store.Role
			has  access
		}{{"", open}, {store.RoleViewer, viewer}, {store.RoleIngest, ingest}, {store.RoleOperator, operator}} {
			a := h.raw(c.role, rt.method, path, "", nil)
			let := a.status != http.StatusUnauthorized && a.status != http.StatusForbidden
			want := c.has >= rt.need
			switch {
			case let != want:
				t.Errorf("%s with role %q: %d, want let in: %v", rt.pattern(), c.role, a.status, want)
			case !want && c.role == "" && (a.status != 401 || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer")):
				t.Errorf("%s without a token: %d, %q", rt.pattern(), a.status, a.header.Get("WWW-Authenticate"))
			case !want && c.role != "" && a.status != 403:
				t.Errorf("%s with role %q: %d, want 403", rt.pattern(), c.role, a.status)
			}
		}
	}
}

// The table of roles, spelled out: a change of one must be meant.
func TestRolesTable(t *testing.T) {
	h := sqlite(t)
	want := map[access]string{
		viewer:   "merchants merchant withdrawals withdrawal decisions callbacks callback alarms stats",
		ingest:   "addDeposits createWithdrawal cancelWithdrawal releaseWithdrawal reportOutcome",
		operator: "createMerchant updateMerchant pauseMerchant resumeMerchant rotateKeys resendCallback resendCallbacks createToken tokens revokeToken",
		open:     "healthz readyz openapi",
	}
	got := map[access][]string{}
	for _, rt := range h.server.endpoints {
		got[rt.need] = append(got[rt.need], rt.id)
	}
	for need, ids := range want {
		if g := strings.Join(got[need], " "); g != ids {
			t.Errorf("%v: %s\nwant %s", need, g, ids)
		}
	}
}

func TestWrongTokens(t *testing.T) {
	h := sqlite(t)
	good := h.tokens[store.RoleOperator]
	for name, headers := range map[string][]string{
		"none":           nil,
		"empty":          {""},
		"no scheme":      {good},
		"other scheme":   {"Basic " + good},
		"unknown":        {"Bearer " + tokenPrefix + randomText(32)},
		"cut":            {"Bearer " + good[:len(good)-1]},
		"longer":         {"Bearer " + good + "A"},
		"space":          {"Bearer  " + good},
		"without prefix": {"Bearer " + strings.TrimPrefix(good, tokenPrefix)},
		"two":            {"Bearer " + good, "Bearer " + good},
	} {
		req, err := http.NewRequestWithContext(t.Context(), get, h.url+"/v1/stats", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Authorization"] = headers
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 401 {
			t.Errorf("%s: %d, want 401", name, resp.StatusCode)
		}
	}
	if a := h.raw(store.RoleOperator, get, "/v1/stats", "", nil); a.status != 200 {
		t.Errorf("the right token: %d", a.status)
	}
}

func TestRevocationHoldsAtOnce(t *testing.T) {
	h := sqlite(t)
	op := h.client(store.RoleOperator)
	made, err := op.CreateToken(t.Context(), NewToken{Name: "core", Role: "ingest"})
	if err != nil {
		t.Fatal(err)
	}
	secrets.add("token", made.Secret.Reveal())
	c, err := NewClient(h.url, made.Secret.Reveal(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stats(t.Context()); err != nil { // also fills the cache
		t.Fatal(err)
	}
	if err := op.RevokeToken(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	var p *Problem
	if _, err := c.Stats(t.Context()); !errors.As(err, &p) || p.Status != 401 {
		t.Errorf("a revoked token: %v, want 401", err)
	}
	// Another node has the token in its cache, and asks again after a second.
	other, err := New(h.server.Config)
	if err != nil {
		t.Fatal(err)
	}
	hash := HashToken(made.Secret.Reveal())
	other.tokens.known[hash] = knownToken{store.Token{ID: made.ID, Role: store.RoleIngest}, h.now().Add(tokenTTL)}
	ask := func() error {
		r, _ := http.NewRequest(get, "/v1/stats", nil)
		r.Header.Set("Authorization", "Bearer "+made.Secret.Reveal())
		_, err := other.authenticate(&call{s: other, r: r})
		return err
	}
	if err := ask(); err != nil {
		t.Errorf("within the cache's time: %v", err)
	}
	h.pass(tokenTTL)
	if err := ask(); !errors.Is(err, errToken) {
		t.Errorf("after the cache's time: %v, want it refused", err)
	}
}

func TestLastOperatorTokenStays(t *testing.T) {
	h := sqlite(t)
	op := h.client(store.RoleOperator)
	list, err := op.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range list {
		err := op.RevokeToken(t.Context(), tok.ID)
		if last := tok.Role == "operator"; last != errors.Is(err, store.ErrConflict) {
			t.Errorf("revoking the %s token: %v", tok.Role, err)
		}
	}
	if err := op.RevokeToken(t.Context(), "tok_none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("revoking an unknown token: %v", err)
	}
}

func TestRateOfOneToken(t *testing.T) {
	h := sqlite(t, func(c *Config) { c.RatePerSecond = 3 })
	for i := range 3 {
		if a := h.raw(store.RoleViewer, get, "/v1/stats", "", nil); a.status != 200 {
			t.Fatalf("request %d: %d", i, a.status)
		}
	}
	a := h.raw(store.RoleViewer, get, "/v1/stats", "", nil)
	if a.status != 429 || a.header.Get("Retry-After") != "1" {
		t.Errorf("%d, Retry-After %q, want 429 and 1", a.status, a.header.Get("Retry-After"))
	}
	if a := h.raw(store.RoleOperator, get, "/v1/stats", "", nil); a.status != 200 {
		t.Errorf("another token: %d, want 200", a.status)
	}
	h.pass(time.Second)
	if a := h.raw(store.RoleViewer, get, "/v1/stats", "", nil); a.status != 200 {
		t.Errorf("a second later: %d, want 200", a.status)
	}
}

func TestAudit(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme-audit")
	addDeposit(h, newDeposit("acme-audit", 1))
	h.raw(store.RoleViewer, post, "/v1/merchants/acme-audit/pause", "", nil)
	h.raw(store.RoleOperator, post, "/v1/merchants/acme-audit/pause", typeJSON, `{"reason":5}`)
	log := everything.String()
	for _, want := range []string{
		`msg=request token=tok_`,
		`route="POST /v1/deposits" merchant=acme-audit status=202 ms=0 taken=1`,
		`level=WARN msg="request refused" token=tok_`,
		`route="POST /v1/merchants/{id}/pause" merchant=acme-audit status=403`,
		`route="POST /v1/merchants/{id}/pause" merchant=acme-audit status=422`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	if strings.Contains(log, "dep-1\"") || strings.Contains(log, "TFrom") {
		t.Error("the log holds a body")
	}
}
