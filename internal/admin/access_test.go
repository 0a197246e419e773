package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
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
	path := pathTo(map[string]string{"merchants": "mine", "withdrawals": w.ID, "callbacks": list[0].ID, "tokens": victim.ID, "tasks": waits.Task})
	e.Path = func(rt *api.Endpoint) string { return path(rt) + map[string]string{"search": "?q=mine"}[rt.ID] }
	endtest.Access(t, e, map[int]string{
		403: "createMerchant freeze thaw testAlarm audit auditAbout auditCheckpoint auditProve nodes stats createToken",
		422: "addDeposits addAddress createWithdrawal", 409: "signOut",
		200: "merchants frozen withdrawals releaseWithdrawals reportOutcomes decisions deposits callbacks resendCallbacks alarms self tokens search epoch tasks approveTasks declineTasks",
	}, map[string]string{
		"stageRotation":      `{"makeApiKey":true}`,
		"addDeposits":        endtest.Encode(t, []any{newDeposit("mine", 2)}),
		"addAddress":         endtest.Encode(t, []any{newAddress("mine", 1)}),
		"createWithdrawal":   endtest.Encode(t, []any{newWithdrawal("mine", 1)}),
		"releaseWithdrawals": `[{"merchant":"mine","callBackId":"w-1","claim":"one"}]`,
		"reportOutcomes":     `[{"merchant":"mine","callBackId":"w-1","permit":"none","failed":{"reason":"x"}}]`,
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

func TestOpenAPI(t *testing.T) {
	endtest.Document(t, sqlite(t).end())
}

func TestOpenRoutes(t *testing.T) {
	h := sqlite(t)
	for path, want := range map[string]string{
		"/healthz": `{"status":"ok"}`, "/readyz": `{"status":"ready"}`, "/metrics": "countersign_up 1",
	} {
		if a := h.raw("", get, path, "", nil); a.Status != 200 || strings.TrimSpace(a.Body) != want {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	h.server.Stop()
	if a := h.raw("", get, "/readyz", "", nil); a.Status != 503 {
		t.Errorf("/readyz while stopping: %d, want 503", a.Status)
	}
}

// TestAuditTellsWho: every act is in the log with its token and the caller's address.
func TestAuditTellsWho(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		operator, core, viewer := h.client(client.RoleAdmin), h.client(client.RoleCore), h.client(client.RoleViewer)
		url := "https://other.example/withdraw"
		_ = must(operator.UpdateMerchant(t.Context(), "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: url}, MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret("a-new-key-of-acme")}}))(t)
		secrets.add("apiKey", "a-new-key-of-acme")
		w := must(core.CreateWithdrawal(t.Context(), client.NewWithdrawal{Merchant: "acme", CallBackID: "w-1", TenantUserID: "u-1"}))(t)
		must(core.CancelWithdrawal(t.Context(), w.ID))(t)
		must(operator.PauseMerchant(t.Context(), "acme", "after the fact"))(t)
		list, err := client.Get[client.List[client.AuditEntry]](t.Context(), viewer, "/v1/audit/about", client.AuditAboutOptions{ID: w.ID})
		if err != nil || len(list.Items) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		changed, err := client.Get[client.List[client.AuditEntry]](t.Context(), viewer, "/v1/audit/about", client.AuditAboutOptions{ID: "acme"})
		if err != nil || len(changed.Items) != 3 {
			t.Fatalf("%+v, %v", changed, err)
		}
		for _, r := range append(list.Items, changed.Items...) {
			told := must(journal.Read(r.Record))(t)
			switch {
			case told.Kind == "token.created":
			case told.By == nil || told.By.Address != "127.0.0.1" || !strings.HasPrefix(told.By.Token, "tok_") ||
				told.By.Role != map[bool]string{true: "core", false: "admin"}[strings.HasPrefix(told.Kind, "withdrawal.")]:
				t.Errorf("%s is by %+v", told.Kind, told.By)
			case told.Kind == "merchant.changed":
				var changed struct{ Before, After map[string]any }
				if err := json.Unmarshal(told.Data, &changed); err != nil || len(changed.After) != 2 || changed.After["withdrawUrl"] != url ||
					changed.Before["withdrawUrl"] == url || changed.Before["apiKey"] == changed.After["apiKey"] {
					t.Errorf("the change is told as %s", told.Data)
				}
			}
		}

		page, err := viewer.Audit(t.Context(), client.FeedOptions{After: 3, Limit: 2})
		if err != nil || len(page.Entries) != 2 || page.Entries[0].Seq != 4 || page.Next != 5 {
			t.Errorf("page %+v, %v", page, err)
		}
		first := must(viewer.AuditCheckpoint(t.Context(), 0))(t)
		if size, err := journal.SizeOf(first.Checkpoint); err != nil || size != 10 {
			t.Errorf("a checkpoint of %d records, %v", size, err)
		}
		p := must(client.Get[client.AuditProof](t.Context(), viewer, client.Path("audit", "records", 4)))(t)
		var text bytes.Buffer
		ok(t, journal.WriteProof(&text, p))
		if v, err := journal.Verify(&text, p.Key, nil); err != nil || v.Record == nil || v.Record.Seq != 4 {
			t.Errorf("the proof of a record: %+v, %v", v, err)
		}
		dbtest.Fails(client.Get[client.AuditProof](t.Context(), viewer, client.Path("audit", "records", 1000)))(t, client.ErrNotFound, "")
		dbtest.Fails(viewer.AuditCheckpoint(t.Context(), 1000))(t, client.ErrInvalid, "")
	})
}
