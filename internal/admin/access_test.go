package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/lab/endtest"
)

func TestAccess(t *testing.T) {
	h := sqlite(t)
	h.merchant("mine")
	h.merchant("theirs")
	addDeposit(h, newDeposit("mine", 1))
	w := must(h.client(client.RoleCore).CreateWithdrawal(t.Context(), newWithdrawal("mine", 1)))(t)
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
	endtest.Access(t, e, map[int]string{
		403: "createMerchant freeze thaw testAlarm audit auditAbout auditCheckpoint auditProve nodes stats createToken",
		422: "addDeposits addAddress createWithdrawal", 409: "signOut",
		200: "merchants frozen withdrawals releaseWithdrawals reportOutcomes decisions deposits callbacks resendCallbacks alarms self tokens search epoch tasks approveTasks declineTasks",
	}, map[string]string{
		"stageRotation":      `{"makeApiKey":true}`,
		"addDeposits":        string(encode(t, newDeposit("mine", 2))),
		"addAddress":         string(encode(t, newAddress("mine", 1))),
		"createWithdrawal":   string(encode(t, newWithdrawal("mine", 1))),
		"releaseWithdrawals": `[{"merchant":"mine","callBackId":"w-1","claim":"one"}]`,
		"reportOutcomes":     `{"merchant":"mine","callBackId":"w-1","permit":"none","failed":{"reason":"x"}}`,
		"resendCallbacks":    `{"filter":{"trackingId":"dep-1"}}`,
		"noteTask":           `{"text":"a test"}`,
		"approveTasks":       `{"ids":["none"]}`,
		"declineTasks":       `{"ids":["none"]}`,
		"createToken":        `{"name":"x","role":"viewer","merchants":["mine"]}`,
	}, append(client.ValuesAt[client.Role](client.AtService), client.RoleApp)...)
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
	if a := h.raw(client.RoleAdmin, get, "/v1/stats", "", nil); a.Status != 200 {
		t.Errorf("the right token: %d", a.Status)
	}
}

func TestRateOfOneToken(t *testing.T) {
	h := sqlite(t, func(c *Config) { c.RatePerSecond = 3 })
	for i := range 3 {
		if a := h.raw(client.RoleViewer, get, "/v1/stats", "", nil); a.Status != 200 {
			t.Fatalf("request %d: %d", i, a.Status)
		}
	}
	a := h.raw(client.RoleViewer, get, "/v1/stats", "", nil)
	if a.Status != 429 || a.Header.Get("Retry-After") != "1" {
		t.Errorf("%d, Retry-After %q, want 429 and 1", a.Status, a.Header.Get("Retry-After"))
	}
	if a := h.raw(client.RoleAdmin, get, "/v1/stats", "", nil); a.Status != 200 {
		t.Errorf("another token: %d, want 200", a.Status)
	}
	h.pass(time.Second)
	if a := h.raw(client.RoleViewer, get, "/v1/stats", "", nil); a.Status != 200 {
		t.Errorf("a second later: %d, want 200", a.Status)
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
