package admin

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
)

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
