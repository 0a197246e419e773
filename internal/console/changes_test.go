package console_test

import (
	"net/http"
	"strings"
	"testing"

	"countersign/client"
)

// TestStaleChange: the page of a change that another change made stale says which one did, and has no form but the one
// that rejects it.
func TestStaleChange(t *testing.T) {
	base, first := node(t, nil)
	admin, ctx := serviceAPI(t, base, first), t.Context()
	addMerchant(t, admin, "shop", client.MerchantSettings{})
	ann := must(admin.CreateToken(ctx, client.NewToken{Name: "Ann", Role: client.RoleApprover}))(t)
	var tasks []string
	for _, url := range []string{"http://127.0.0.1:1/one", "http://127.0.0.1:1/two"} {
		tasks = append(tasks, must(admin.UpdateMerchant(ctx, "shop", client.MerchantPatch{MerchantSettings: client.MerchantSettings{NotifyURL: url}}))(t).Task)
	}
	s, page := newSite(t, base).signIn(ann.Secret), "/console/tasks/"+tasks[1]
	for i, says := range []map[string]bool{
		{"Approve exactly this": true, `state warn">stale`: false},
		{"Approve exactly this": false, `state warn">stale`: true, "change " + strings.TrimPrefix(tasks[0], "change.") + " was applied after this was proposed": true, page + "/decline": true},
	} {
		p := s.get(page)
		for text, want := range says {
			if strings.Contains(p.body, text) != want {
				t.Errorf("the page has %q: %v\n%s", text, !want, p.body)
			}
		}
		s.post("/console/tasks/"+tasks[i]+[]string{"/approve", "/decline"}[i], nil).is(http.StatusSeeOther)
	}
	if c := must(admin.Task(ctx, tasks[1]))(t); c.State != client.TaskDeclined {
		t.Errorf("%+v", c)
	}
}
