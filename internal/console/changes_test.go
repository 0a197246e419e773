package console_test

import (
	"strings"
	"testing"

	"countersign/client"
)

// TestStaleChange: the page of a change that another change made stale says which one did, and
// has no form but the one that rejects it.
func TestStaleChange(t *testing.T) {
	base, first := node(t, nil)
	admin, ctx := serviceAPI(t, base, first), t.Context()
	settings := client.MerchantSettings{NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"}
	if _, err := admin.CreateMerchant(ctx, client.NewMerchant{ID: "shop", Key: &client.KeySpec{Bits: 1024}, MerchantSettings: settings}); err != nil {
		t.Fatal(err)
	}
	made, err := admin.CreateToken(ctx, client.NewToken{Name: "Ann", Role: client.RoleApprover})
	if err != nil {
		t.Fatal(err)
	}
	propose := func(url string) client.ChangeEntry {
		t.Helper()
		m, err := admin.UpdateMerchant(ctx, "shop", client.MerchantPatch{MerchantSettings: client.MerchantSettings{NotifyURL: url}})
		if err != nil || m.Change == nil {
			t.Fatalf("%+v, %v", m, err)
		}
		return *m.Change
	}
	one, two := propose("http://127.0.0.1:1/one"), propose("http://127.0.0.1:1/two")
	s := newSite(t, base).signIn(made.Secret)
	has := func(text string, want bool) {
		t.Helper()
		if p := s.get("/console/tasks/change." + two.ID); p.status != 200 || strings.Contains(p.body, text) != want {
			t.Errorf("the page has %q: %v, want %v\n%s", text, !want, want, p.body)
		}
	}
	has("Approve exactly this", true)
	has(`state warn">stale`, false)
	if p := s.post("/console/tasks/change."+one.ID+"/approve", nil); !strings.Contains(p.to(), "did=approved") {
		t.Fatalf("%d %s", p.status, p.to())
	}
	has("Approve exactly this", false)
	has(`state warn">stale`, true)
	has("change "+one.ID+" was applied after this was proposed", true)
	has("/console/tasks/change."+two.ID+"/decline", true)
	if p := s.post("/console/tasks/change."+two.ID+"/decline", nil); !strings.Contains(p.to(), "did=declined") {
		t.Errorf("%d %s", p.status, p.to())
	}
	if c, err := admin.Change(ctx, two.ID); err != nil || c.State != client.ChangeRejected {
		t.Errorf("%+v, %v", c, err)
	}
}
