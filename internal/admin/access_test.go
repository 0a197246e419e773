package admin

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/jsonapi"
)

// Every route with every role and with none. The ids are of nothing, so that a
// call that gets in changes nothing.
func TestRolesOfEveryRoute(t *testing.T) {
	h := sqlite(t)
	for _, rt := range h.server.api.Endpoints() {
		path := strings.Replace(rt.Path, "{id}", "none", 1)
		for _, c := range []struct {
			role client.Role
			has  jsonapi.Access
		}{{"", jsonapi.Open}, {client.RoleViewer, jsonapi.Viewer}, {client.RoleIngest, jsonapi.Ingest}, {client.RoleOperator, jsonapi.Operator}} {
			a := h.raw(c.role, rt.Method, path, "", nil)
			let := a.status != http.StatusUnauthorized && a.status != http.StatusForbidden
			want := c.has >= rt.Need
			switch {
			case let != want:
				t.Errorf("%s with role %q: %d, want let in: %v", rt.Pattern(), c.role, a.status, want)
			case !want && c.role == "" && (a.status != 401 || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer")):
				t.Errorf("%s without a token: %d, %q", rt.Pattern(), a.status, a.header.Get("WWW-Authenticate"))
			case !want && c.role != "" && a.status != 403:
				t.Errorf("%s with role %q: %d, want 403", rt.Pattern(), c.role, a.status)
			}
		}
	}
}

// The table of roles, spelled out: a change of one must be meant.
func TestRolesTable(t *testing.T) {
	h := sqlite(t)
	want := map[jsonapi.Access]string{
		jsonapi.Viewer:   "merchants merchant frozen withdrawals withdrawal decisions callbacks callback alarms audit auditCheckpoint auditEvidence stats hour self",
		jsonapi.Ingest:   "addDeposits addAddress createWithdrawal cancelWithdrawal releaseWithdrawal reportOutcome reportWaiting",
		jsonapi.Operator: "createMerchant updateMerchant pauseMerchant resumeMerchant rotateKeys freeze thaw blockWithdrawal resendCallback resendCallbacks ackAlarm createToken tokens revokeToken",
		jsonapi.Open:     "healthz readyz openapi",
	}
	got := map[jsonapi.Access][]string{}
	for _, rt := range h.server.api.Endpoints() {
		got[rt.Need] = append(got[rt.Need], rt.ID)
	}
	for need, ids := range want {
		if g := strings.Join(got[need], " "); g != ids {
			t.Errorf("%v: %s\nwant %s", need, g, ids)
		}
	}
}

// A token learns what it may do, and nothing of other tokens.
func TestSelf(t *testing.T) {
	h := sqlite(t)
	for role, tokens := range h.tokens {
		self, err := h.client(role).Self(t.Context())
		if err != nil || self.Role != role || self.Name != "test "+string(role) || strings.Contains(h.raw(role, "GET", "/v1/tokens/self", "", nil).body, tokens) {
			t.Errorf("%+v, %v", self, err)
		}
		for _, rt := range h.server.api.Endpoints() {
			a := h.raw(role, rt.Method, strings.Replace(rt.Path, "{id}", "none", 1), "", nil)
			if may := slices.Contains(self.May, rt.ID); may != (a.status != http.StatusForbidden) && rt.Need != jsonapi.Open {
				t.Errorf("%s: may %s: %v, and gets %d", role, rt.ID, may, a.status)
			}
		}
	}
	if got, err := h.client(client.RoleViewer).Hour(t.Context()); err != nil || got.Node != "test" || len(got.Slices) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWrongTokens(t *testing.T) {
	h := sqlite(t)
	good := h.tokens[client.RoleOperator]
	for name, headers := range map[string][]string{
		"none":           nil,
		"empty":          {""},
		"no scheme":      {good},
		"other scheme":   {"Basic " + good},
		"unknown":        {"Bearer cst_" + jsonapi.RandomText(32)},
		"cut":            {"Bearer " + good[:len(good)-1]},
		"longer":         {"Bearer " + good + "A"},
		"space":          {"Bearer  " + good},
		"without prefix": {"Bearer " + strings.TrimPrefix(good, "cst_")},
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
	if a := h.raw(client.RoleOperator, get, "/v1/stats", "", nil); a.status != 200 {
		t.Errorf("the right token: %d", a.status)
	}
}

func TestRevocationHoldsAtOnce(t *testing.T) {
	h := sqlite(t)
	op := h.client(client.RoleOperator)
	made, err := op.CreateToken(t.Context(), client.NewToken{Name: "core", Role: "ingest"})
	if err != nil {
		t.Fatal(err)
	}
	secrets.add("token", made.Secret.Reveal())
	c, err := client.NewService(client.Config{URL: h.url, Token: made.Secret})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stats(t.Context()); err != nil { // also fills the cache
		t.Fatal(err)
	}
	if err := op.RevokeToken(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	var p *client.Problem
	if _, err := c.Stats(t.Context()); !errors.As(err, &p) || p.Status != 401 {
		t.Errorf("a revoked token: %v, want 401", err)
	}
}

func TestLastOperatorTokenStays(t *testing.T) {
	h := sqlite(t)
	op := h.client(client.RoleOperator)
	list, err := op.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range list {
		err := op.RevokeToken(t.Context(), tok.ID)
		if last := tok.Role == "operator"; last != errors.Is(err, client.ErrConflict) {
			t.Errorf("revoking the %s token: %v", tok.Role, err)
		}
	}
	if err := op.RevokeToken(t.Context(), "tok_none"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("revoking an unknown token: %v", err)
	}
}

func TestRateOfOneToken(t *testing.T) {
	h := sqlite(t, func(c *Config) { c.RatePerSecond = 3 })
	for i := range 3 {
		if a := h.raw(client.RoleViewer, get, "/v1/stats", "", nil); a.status != 200 {
			t.Fatalf("request %d: %d", i, a.status)
		}
	}
	a := h.raw(client.RoleViewer, get, "/v1/stats", "", nil)
	if a.status != 429 || a.header.Get("Retry-After") != "1" {
		t.Errorf("%d, Retry-After %q, want 429 and 1", a.status, a.header.Get("Retry-After"))
	}
	if a := h.raw(client.RoleOperator, get, "/v1/stats", "", nil); a.status != 200 {
		t.Errorf("another token: %d, want 200", a.status)
	}
	h.pass(time.Second)
	if a := h.raw(client.RoleViewer, get, "/v1/stats", "", nil); a.status != 200 {
		t.Errorf("a second later: %d, want 200", a.status)
	}
}

func TestAudit(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme-audit")
	addDeposit(h, newDeposit("acme-audit", 1))
	h.raw(client.RoleViewer, post, "/v1/merchants/acme-audit/pause", "", nil)
	h.raw(client.RoleOperator, post, "/v1/merchants/acme-audit/pause", jsonapi.TypeJSON, `{"reason":5}`)
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
