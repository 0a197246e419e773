package admin

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
)

// access says of every operation which roles may call it, and what a token gets that is
// bound to another merchant than the call is about: 403 where it concerns all merchants,
// 404 or 422 where it names that merchant, 200 where the answer just leaves it out.
// body is a request about the merchant mine. The table is written by hand, so that a
// change of who may do what must be meant.
var access = map[string]struct {
	roles string
	other int
	body  string
}{
	"createMerchant":     {"operator admin", 403, `{}`},
	"merchants":          {"viewer merchant operator approver admin", 200, ""},
	"merchant":           {"viewer merchant operator approver admin", 404, ""},
	"merchantHealth":     {"viewer merchant operator approver admin", 404, ""},
	"testDeposit":        {"merchant operator admin", 404, `{}`},
	"updateMerchant":     {"operator admin", 404, `{"name":"Mine"}`},
	"pauseMerchant":      {"operator admin", 404, `{}`},
	"resumeMerchant":     {"operator admin", 404, `{}`},
	"stageRotation":      {"operator admin", 404, `{"makeApiKey":true}`},
	"activateRotation":   {"operator admin", 404, `{}`},
	"finishRotation":     {"operator admin", 404, `{}`},
	"cancelRotation":     {"operator admin", 404, `{}`},
	"keys":               {"viewer operator approver admin", 403, ""},
	"frozen":             {"viewer core operator approver admin", 200, ""},
	"freeze":             {"approver admin", 403, `{"reason":"a test"}`},
	"thaw":               {"approver admin", 403, `{}`},
	"addDeposits":        {"ingest core admin", 422, `{"merchant":"mine","trackingId":"d1","tenantUserId":"u","txId":"t","chainName":"c","symbol":"s","amount":"1","fromAddress":"f","toAddress":"t","riskLevelFrom":0,"riskLevelTo":0,"txIndex":0}`},
	"addAddress":         {"core admin", 422, `{"merchant":"mine","changeId":"a1","tenantUserId":"u","newAddress":"n","toAddress":"o","chainName":"c","symbol":"s"}`},
	"createWithdrawal":   {"core admin", 422, `{"merchant":"mine","callBackId":"w-1","tenantUserId":"user-7","details":{"address":"TTarget","chainName":"TRON","symbol":"USDT","amount":"12.5"}}`},
	"withdrawals":        {"viewer core operator approver admin", 200, ""},
	"withdrawal":         {"viewer core operator approver admin", 404, ""},
	"cancelWithdrawal":   {"core admin", 404, `{}`},
	"releaseWithdrawal":  {"core admin", 404, `{"claim":"one"}`},
	"releaseWithdrawals": {"core admin", 200, `[{"merchant":"mine","callBackId":"w-1","claim":"one"}]`},
	"reportOutcomes":     {"core admin", 200, `{"merchant":"mine","callBackId":"w-1","permit":"none","failed":{"reason":"x"}}`},
	"blockWithdrawal":    {"operator approver admin", 404, `{"reason":"a test"}`},
	"reportOutcome":      {"core admin", 404, `{"permit":"none","failed":{"reason":"x"}}`},
	"reportWaiting":      {"core admin", 404, `{"for":"funds"}`},
	"decisions":          {"viewer core operator approver admin", 200, ""},
	"callbacks":          {"viewer merchant operator approver admin", 200, ""},
	"callback":           {"viewer merchant operator approver admin", 404, ""},
	"resendCallback":     {"merchant operator admin", 404, `{}`},
	"resendCallbacks":    {"operator admin", 200, `{"filter":{"trackingId":"dep-1"}}`},
	"alarms":             {"viewer operator approver admin", 200, ""},
	"ackAlarm":           {"operator admin", 404, `{}`},
	"ackAlarms":          {"operator admin", 200, `{"filter": {"kind": "lapsed"}, "dryRun": true}`},
	"testAlarm":          {"operator admin", 403, ""},
	"provider":           {},
	"beginProvider":      {},
	"finishProvider":     {},
	"signOut":            {"viewer ingest core merchant operator approver admin", 409, ""},
	"self":               {"viewer ingest core merchant operator approver admin", 200, ""},
	"audit":              {"viewer operator approver admin", 403, ""},
	"auditCheckpoint":    {"viewer operator approver admin", 403, ""},
	"auditAbout":         {"viewer operator approver admin", 403, ""},
	"auditProve":         {"viewer operator approver admin", 403, ""},
	"search":             {"viewer operator approver admin", 200, ""},
	"nodes":              {"viewer operator approver admin", 403, ""},
	"deposits":           {"viewer core operator approver admin", 200, ""},
	"epoch":              {"viewer core operator approver admin", 200, ""},
	"stats":              {"viewer operator approver admin", 403, ""},
	"tasks":              {"viewer operator approver admin", 200, ""},
	"task":               {"viewer operator approver admin", 404, ""},
	"approveTask":        {"approver admin", 404, `{}`},
	"declineTask":        {"operator approver admin", 404, `{}`},
	"noteTask":           {"operator approver admin", 404, `{"text":"a test"}`},
	"approveTasks":       {"approver admin", 200, `{"ids":["none"]}`},
	"declineTasks":       {"operator approver admin", 200, `{"ids":["none"]}`},
	"change":             {"viewer operator approver admin", 404, ""},
	"createToken":        {"operator admin", 403, `{"name":"x","role":"viewer","merchants":["mine"]}`},
	"tokens":             {"operator approver admin", 200, ""},
	"revokeToken":        {"operator admin", 404, ""},
	"healthz":            {},
	"readyz":             {},
	"openapi":            {},
}

// Every route, with every role, by tokens that are bound to nothing, to the merchant that
// the call is about or to another, that have expired or were revoked, and by none.
func TestAccess(t *testing.T) {
	h := sqlite(t)
	h.merchant("mine")
	h.merchant("theirs")
	addDeposit(h, newDeposit("mine", 1))
	w, err := h.client(client.RoleCore).CreateWithdrawal(t.Context(), newWithdrawal("mine", 1))
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := h.store.Callbacks(t.Context(), nil, client.CallbackFilter{Type: 1}, 1, "")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := h.store.RaiseAlarm(t.Context(), db.Alarm{Of: "mine", Kind: "answer_differs", Subject: w.ID, At: 1}); err != nil {
		t.Fatal(err)
	}
	h.decide(w.ID, countersign.DecisionConfirmed)
	victim := api.NewStoreToken("victim", client.RoleViewer, 1)
	victim.Merchants = "mine"
	h.keep(victim)
	h.keep(api.NewStoreToken("sleeper", client.RoleApprover, 1))
	waits, err := h.client(client.RoleAdmin).UpdateMerchant(t.Context(), "mine", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: "https://mine.example/new"}})
	if err != nil || waits.Change == nil {
		t.Fatal(waits, err)
	}
	path := func(rt *api.Endpoint) string {
		collection, _, _ := strings.Cut(strings.TrimPrefix(rt.Path, "/v1/"), "/")
		id := map[string]string{"merchants": "mine", "withdrawals": w.ID, "callbacks": list[0].ID, "tokens": victim.ID, "changes": waits.Change.ID, "tasks": "change." + waits.Change.ID}[collection]
		return strings.NewReplacer("{id}", id, "{seq}", "1").Replace(rt.Path) + map[string]string{"search": "?q=mine"}[rt.ID]
	}
	known := map[string]bool{}
	for _, role := range []client.Role{client.RoleViewer, client.RoleIngest, client.RoleCore, client.RoleMerchant, client.RoleOperator, client.RoleApprover, client.RoleAdmin, client.RoleApp, ""} {
		tokens := map[string]string{}
		for what, change := range map[string]func(*api.Token){
			"unbound": func(*api.Token) {}, "bound": func(k *api.Token) { k.Merchants = "mine" },
			"elsewhere": func(k *api.Token) { k.Merchants = "others theirs" },
			"expired":   func(k *api.Token) { k.Expires = 5 }, "revoked": func(*api.Token) {},
		} {
			if role == "" {
				continue
			}
			k := api.NewStoreToken(what, role, 1)
			change(&k)
			tokens[what] = h.keep(k)
			if what == "revoked" {
				if err := h.kept.Revoke(t.Context(), k.ID, 5, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if role == "" {
			tokens["none"] = ""
		}
		for _, rt := range h.server.api.Endpoints() {
			rule, ok := access[rt.ID]
			if !ok {
				t.Fatalf("%s is not in the table", rt.ID)
			}
			known[rt.ID] = true
			for what, secret := range tokens {
				h.pass(2 * time.Second) // so that no rate is exceeded
				contentType := ""
				if rule.body != "" {
					contentType = api.TypeJSON
				}
				a := h.as(secret, rt.Method, path(rt), contentType, rule.body)
				may := slices.Contains(strings.Fields(rule.roles), string(role))
				var want []int // empty: let in
				switch {
				case rule.roles == "" && rule.other != 0:
					want = []int{rule.other}
				case rule.roles == "":
				case what == "none" || what == "expired" || what == "revoked":
					want = []int{401}
				case !may || rule.other == 403 && (what == "elsewhere" || what == "bound" && rt.ID != "createToken"):
					want = []int{403}
				case rt.ID == "declineTask" && role == client.RoleOperator && what != "elsewhere":
					want = []int{403} // another proposed it
				case what == "elsewhere":
					want = []int{rule.other}
				}
				switch {
				case len(want) == 0 && (a.status == 401 || a.status == 403 || a.status == 404 || a.status >= 500),
					len(want) == 1 && a.status != want[0]:
					t.Errorf("%s by %s, %s: %d, want %v: %s", rt.ID, role, what, a.status, want, a.body)
				case what == "elsewhere" && strings.Contains(a.body, "mine") && rule.roles != "":
					t.Errorf("%s by %s: a token that is bound to others learns of the merchant: %s", rt.ID, role, a.body)
				case what == "bound" && strings.Contains(a.body, `"theirs"`):
					t.Errorf("%s by %s: a bound token sees others: %s", rt.ID, role, a.body)
				case a.status == 401 && !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer"):
					t.Errorf("%s, %s: no challenge", rt.ID, what)
				case what == "expired" && a.status == 401 && a.Detail != "the token has expired", what == "revoked" && a.status == 401 && a.Detail != "the token was revoked":
					t.Errorf("%s, %s: %q", rt.ID, what, a.Detail)
				}
			}
		}
	}
	for id := range access {
		if !known[id] {
			t.Errorf("the table has %s, which is no operation", id)
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
			if rt.ID == "createToken" && role == client.RoleOperator { // only where there is an approver, see TestChangeWithoutAnApprover
				continue
			}
			if may := slices.Contains(self.May, rt.ID); may != (a.status != http.StatusForbidden) && access[rt.ID].roles != "" {
				t.Errorf("%s: may %s: %v, and gets %d", role, rt.ID, may, a.status)
			}
		}
	}
}

func TestWrongTokens(t *testing.T) {
	h := sqlite(t)
	good := h.tokens[client.RoleAdmin]
	for name, headers := range map[string][]string{
		"none":           nil,
		"empty":          {""},
		"no scheme":      {good},
		"other scheme":   {"Basic " + good},
		"unknown":        {"Bearer cst_" + api.RandomText(32)},
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
	if a := h.raw(client.RoleAdmin, get, "/v1/stats", "", nil); a.status != 200 {
		t.Errorf("the right token: %d", a.status)
	}
}

func TestRevocationHoldsAtOnce(t *testing.T) {
	h := sqlite(t)
	op := h.client(client.RoleAdmin)
	made, err := op.CreateToken(t.Context(), client.NewToken{Name: "eyes", Role: "viewer"})
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
	if _, err := op.RevokeToken(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	var p *client.Problem
	if _, err := c.Stats(t.Context()); !errors.As(err, &p) || p.Status != 401 {
		t.Errorf("a revoked token: %v, want 401", err)
	}
}

func TestLastAdminTokenStays(t *testing.T) {
	h := sqlite(t)
	op := h.client(client.RoleAdmin)
	list, err := op.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range list {
		_, err := op.RevokeToken(t.Context(), tok.ID)
		if last := tok.Role == "admin"; last != errors.Is(err, client.ErrConflict) {
			t.Errorf("revoking the %s token: %v", tok.Role, err)
		}
	}
	if _, err := op.RevokeToken(t.Context(), "tok_none"); !errors.Is(err, client.ErrNotFound) {
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
	if a := h.raw(client.RoleAdmin, get, "/v1/stats", "", nil); a.status != 200 {
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
	h.raw(client.RoleAdmin, post, "/v1/merchants/acme-audit/pause", api.TypeJSON, `{"reason":5}`)
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
