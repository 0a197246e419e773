package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
)

// kindsOf gives the kinds of the records of a proof, which it verifies.
func kindsOf(t *testing.T, p client.AuditProof) (kinds []string) {
	t.Helper()
	text, err := journal.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	v, err := journal.Verify(bytes.NewReader(append(text, '\n')), p.Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range v.Records {
		told, err := journal.Read(r.Record)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, told.Kind)
	}
	return kinds
}

// TestAuditTellsWho: every act is in the log with its token and the caller's address,
// and the evidence about a withdrawal has what was set before it.
func TestAuditTellsWho(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		operator, core, viewer := h.client(client.RoleAdmin), h.client(client.RoleCore), h.client(client.RoleViewer)
		url := "https://other.example/withdraw"
		_, err := operator.UpdateMerchant(t.Context(), "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: url}, MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret("a-new-key-of-acme")}})
		if err != nil {
			t.Fatal(err)
		}
		secrets.add("apiKey", "a-new-key-of-acme")
		w, err := core.CreateWithdrawal(t.Context(), client.NewWithdrawal{Merchant: "acme", CallBackID: "w-1", TenantUserID: "u-1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := core.CancelWithdrawal(t.Context(), w.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := operator.PauseMerchant(t.Context(), "acme", "after the fact"); err != nil {
			t.Fatal(err)
		}
		p, err := viewer.AuditEvidence(t.Context(), client.AuditOptions{Withdrawal: w.ID})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"token.created", "token.created", "merchant.created", "merchant.changed", "withdrawal.created", "withdrawal.decided"}
		if got := kindsOf(t, p); !slices.Equal(got, want) {
			t.Errorf("evidence of %q, want %q", got, want)
		}
		for _, r := range p.Records {
			told, err := journal.Read(r.Record)
			if err != nil {
				t.Fatal(err)
			}
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
		if err != nil || len(page.Entries) != 2 || page.Entries[0].Seq != 4 || page.Next != 5 || len(page.Edge) != 2 {
			t.Errorf("page %+v, %v", page, err)
		}
		first, err := viewer.AuditCheckpoint(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if size, err := journal.Size(first); err != nil || size != 10 {
			t.Errorf("a checkpoint of %d records, %v", size, err)
		}
		_, err = viewer.AuditEvidence(t.Context(), client.AuditOptions{Withdrawal: "acme.nothing"})
		if !errors.Is(err, client.ErrInvalid) {
			t.Errorf("evidence of no withdrawal: %v", err)
		}
		_, err = viewer.AuditEvidence(t.Context(), client.AuditOptions{})
		if !errors.Is(err, client.ErrInvalid) {
			t.Errorf("evidence of nothing: %v", err)
		}
		if _, err := viewer.AuditCheckpoint(t.Context(), 1000); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("a proof from 1,000 records: %v", err)
		}
	})
}

// TestAuditProvesDeposits: a deposit is proved by the record of its batch.
func TestAuditProvesDeposits(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		list, err := h.client(client.RoleCore).AddDeposits(t.Context(), newDeposit("acme", 1), newDeposit("acme", 2), newDeposit("acme", 3))
		if err != nil {
			t.Fatal(err)
		}
		c := h.client(client.RoleViewer)
		if _, err := c.AuditEvidence(t.Context(), client.AuditOptions{Callback: list[1].ID}); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("evidence of a deposit that was not sent: %v", err)
		}
		now := db.MillisOf(h.now())
		claimed, err := h.store.Claim(t.Context(), outbox.ClaimRequest{Lane: countersign.LaneNotify, Node: "test", Now: now, LeaseUntil: now + 45_000, Max: 10})
		if err != nil {
			t.Fatal(err)
		}
		var settled []outbox.Settlement
		for _, cb := range claimed {
			settled = append(settled, outbox.Settlement{Merchant: cb.Merchant, CallbackID: cb.ID, State: outbox.CallbackAccepted, Reached: true, Type: cb.Type,
				AddedBy: cb.AddedBy, EventID: cb.EventID, Payload: cb.Payload, Attempt: outbox.Attempt{Number: cb.Attempts, Started: now, HTTPStatus: 200, Result: "accepted", Reason: "accepted"}})
		}
		if _, err := h.store.Settle(t.Context(), settled, now+5); err != nil {
			t.Fatal(err)
		}
		p, err := c.AuditEvidence(t.Context(), client.AuditOptions{Callback: list[1].ID})
		if err != nil {
			t.Fatal(err)
		}
		if got := kindsOf(t, p); !slices.Equal(got, []string{"token.created", "token.created", "merchant.created", "attempts.settled"}) {
			t.Errorf("evidence of %q", got)
		}
		items := p.Records[len(p.Records)-1].Items
		if len(items) != 1 || !strings.Contains(string(items[0].Item), `"addedBy":"tok_`) || !strings.Contains(string(items[0].Item), `"eventId":"dep-2"`) || !strings.Contains(string(items[0].Item), `"result":"accepted"`) {
			t.Errorf("items %+v", items)
		}
	})
}

// TestAuditLogs: the log of a year is closed, exported and dropped: by an admin, or by two persons
// where there is an approver.
func TestAuditLogs(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		operator, admin, viewer := h.client(client.RoleOperator), h.client(client.RoleAdmin), h.client(client.RoleViewer)
		closed := func() int64 {
			t.Helper()
			h.pass(366 * 24 * time.Hour)
			if err := h.server.Audit.CloseYear(ctx); err != nil {
				t.Fatal(err)
			}
			list, err := viewer.AuditLogs(ctx)
			if err != nil || len(list.Logs) < 2 {
				t.Fatalf("logs %+v, %v", list, err)
			}
			return list.Logs[len(list.Logs)-2].Last
		}
		drop := func(c *client.Service, last int64) (client.AuditLogs, client.Proposed, error) {
			return c.DropAuditLog(ctx, client.DropAuditLog{Last: last})
		}
		last := closed()
		if _, _, err := drop(admin, last); !errors.Is(err, client.ErrConflict) {
			t.Errorf("dropped what was not exported: %v", err)
		}
		h.exported()
		if _, _, err := drop(admin, last-1); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("dropped a part: %v", err)
		}
		if _, _, err := drop(operator, last); !errors.Is(err, client.ErrForbidden) {
			t.Errorf("an operator dropped it alone: %v", err)
		}
		for range 2 {
			if list, _, err := drop(admin, last); err != nil || list.Logs[0].Dropped == 0 || !list.Logs[0].Exported {
				t.Errorf("dropped: %+v, %v", list, err)
			}
		}
		if _, err := viewer.Audit(ctx, client.FeedOptions{Limit: 1}); !errors.Is(err, client.ErrConflict) || !strings.Contains(err.Error(), "go on after") {
			t.Errorf("a page of what was dropped: %v", err)
		}
		if _, err := viewer.AuditCheckpoint(ctx, 1); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("a proof from what was dropped: %v", err)
		}
		page, err := viewer.Audit(ctx, client.FeedOptions{After: last, Limit: 1})
		if err != nil || page.First != last+1 || page.Entries[0].Seq != last+1 {
			t.Errorf("page %+v, %v", page, err)
		}

		approver := h.person(client.RoleApprover, "")
		last = closed()
		var b bytes.Buffer
		if err := journal.Export(ctx, &b, admin, page.First, 0); err != nil {
			t.Fatal(err)
		}
		v, err := journal.Verify(&b, h.server.Audit.Key(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.AuditExported(ctx, client.AuditExport{First: v.First, Last: v.Last, Checkpoint: v.Signed, Digest: v.Digest}); err != nil {
			t.Fatal(err)
		}
		_, proposed, err := drop(operator, last)
		if err != nil || proposed.Change.State != client.ChangeWaiting || proposed.Change.Kind != client.ChangeLog {
			t.Fatalf("proposed %+v, %v", proposed, err)
		}
		if list, err := viewer.AuditLogs(ctx); err != nil || list.Logs[1].Dropped != 0 {
			t.Errorf("before it is approved: %+v, %v", list, err)
		}
		if done, err := approver.ApproveChange(ctx, proposed.Change.ID); err != nil || done.State != client.ChangeApplied {
			t.Errorf("approved %+v, %v", done, err)
		}
		if list, err := viewer.AuditLogs(ctx); err != nil || list.Logs[1].Dropped == 0 {
			t.Errorf("after it was approved: %+v, %v", list, err)
		}
		if list, err := ready.Alarms(ctx, h.store); err != nil || len(list) != 0 {
			t.Errorf("alarms %+v, %v", list, err)
		}
	})
}

// exported exports the audit log and acknowledges it.
func (h *harness) exported() {
	h.t.Helper()
	var b bytes.Buffer
	api, ctx := h.client(client.RoleAdmin), h.t.Context()
	if err := journal.Export(ctx, &b, api, 1, 0); err != nil {
		h.t.Fatal(err)
	}
	p, err := api.AuditCheckpoint(ctx, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	v, err := journal.Verify(&b, p.Key, nil)
	if err != nil {
		h.t.Error(err)
	}
	e := client.AuditExport{First: v.First, Last: v.Last, Checkpoint: v.Signed, Digest: v.Digest}
	if got, err := api.AuditExported(ctx, e); err != nil || got.Last != v.Last {
		h.t.Errorf("acknowledging it gives %+v, %v", got, err)
	}
}
