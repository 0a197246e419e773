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
	addMerchant(t, admin, "shop", client.MerchantSettings{})
	made := must(admin.CreateToken(ctx, client.NewToken{Name: "Ann", Role: client.RoleApprover}))(t)
	propose := func(url string) string {
		t.Helper()
		m, err := admin.UpdateMerchant(ctx, "shop", client.MerchantPatch{MerchantSettings: client.MerchantSettings{NotifyURL: url}})
		if err != nil || m.Task == "" {
			t.Fatalf("%+v, %v", m, err)
		}
		return m.Task
	}
	one, two := propose("http://127.0.0.1:1/one"), propose("http://127.0.0.1:1/two")
	s := newSite(t, base).signIn(made.Secret)
	has := func(text string, want bool) {
		t.Helper()
		if p := s.get("/console/tasks/" + two); p.status != 200 || strings.Contains(p.body, text) != want {
			t.Errorf("the page has %q: %v, want %v\n%s", text, !want, want, p.body)
		}
	}
	has("Approve exactly this", true)
	has(`state warn">stale`, false)
	if p := s.post("/console/tasks/"+one+"/approve", nil); !strings.Contains(p.to(), "did=approved") {
		t.Fatalf("%d %s", p.status, p.to())
	}
	has("Approve exactly this", false)
	has(`state warn">stale`, true)
	has("change "+strings.TrimPrefix(one, "change.")+" was applied after this was proposed", true)
	has("/console/tasks/"+two+"/decline", true)
	if p := s.post("/console/tasks/"+two+"/decline", nil); !strings.Contains(p.to(), "did=declined") {
		t.Errorf("%d %s", p.status, p.to())
	}
	if c, err := admin.Task(ctx, two); err != nil || c.State != client.TaskDeclined {
		t.Errorf("%+v, %v", c, err)
	}
}
