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
	"countersign/internal/lab/apitest"
)

var access = map[string]apitest.Rule{
	"createMerchant":     {"operator admin", 403, `{}`},
	"merchants":          {"viewer merchant operator approver admin", 200, ""},
	"merchant":           {"viewer merchant operator approver admin", 404, ""},
	"testDeposit":        {"merchant operator admin", 404, `{}`},
	"updateMerchant":     {"operator admin", 404, `{"name":"Mine"}`},
	"pauseMerchant":      {"operator admin", 404, `{}`},
	"resumeMerchant":     {"operator admin", 404, `{}`},
	"stageRotation":      {"operator admin", 404, `{"makeApiKey":true}`},
	"activateRotation":   {"operator admin", 404, `{}`},
	"finishRotation":     {"operator admin", 404, `{}`},
	"cancelRotation":     {"operator admin", 404, `{}`},
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
	"createToken":        {"operator admin", 403, `{"name":"x","role":"viewer","merchants":["mine"]}`},
	"tokens":             {"operator approver admin", 200, ""},
	"revokeToken":        {"operator admin", 404, ""},
	"healthz":            {},
	"readyz":             {},
	"openapi":            {},
}

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
	ok(t, h.store.RaiseAlarm(t.Context(), client.Alarm{Merchant: "mine", Kind: "answer_differs", Subject: w.ID, First: 1}))
	h.decide(w.ID, countersign.DecisionConfirmed)
	victim := api.NewStoreToken("victim", client.RoleViewer, 1)
	victim.Merchants = "mine"
	h.keep(victim)
	h.keep(api.NewStoreToken("sleeper", client.RoleApprover, 1))
	waits, err := h.client(client.RoleAdmin).UpdateMerchant(t.Context(), "mine", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: "https://mine.example/new"}})
	if err != nil || waits.Task == "" {
		t.Fatal(waits, err)
	}
	e := h.end()
	e.Path = func(rt *api.Endpoint) string {
		collection, _, _ := strings.Cut(strings.TrimPrefix(rt.Path, "/v1/"), "/")
		id := map[string]string{"merchants": "mine", "withdrawals": w.ID, "callbacks": list[0].ID, "tokens": victim.ID, "tasks": waits.Task}[collection]
		return strings.NewReplacer("{id}", id, "{seq}", "1").Replace(rt.Path) + map[string]string{"search": "?q=mine"}[rt.ID]
	}
	apitest.Access(t, e, access, append(client.Role("").AtService(), client.RoleApp)...)
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
			if may := slices.Contains(self.May, rt.ID); may != (a.status != http.StatusForbidden) && access[rt.ID].Roles != "" {
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
		req := must(http.NewRequestWithContext(t.Context(), get, h.url+"/v1/stats", nil))(t)
		req.Header["Authorization"] = headers
		resp := must(http.DefaultClient.Do(req))(t)
		_ = resp.Body.Close()
		if resp.StatusCode != 401 {
			t.Errorf("%s: %d, want 401", name, resp.StatusCode)
		}
	}
	if a := h.raw(client.RoleAdmin, get, "/v1/stats", "", nil); a.status != 200 {
		t.Errorf("the right token: %d", a.status)
	}
}

func TestLastAdminTokenStays(t *testing.T) {
	h := sqlite(t)
	op := h.client(client.RoleAdmin)
	list := must(op.Tokens(t.Context()))(t)
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
