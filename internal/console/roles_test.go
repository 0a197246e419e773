package console_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/console"
)

// operations are the operations of the API that the posts of the console make.
var operations = map[string]string{
	"POST /console/merchants/new":         "createMerchant",
	"POST /console/merchants/{id}/test":   "testDeposit",
	"POST /console/merchants/{id}/pause":  "pauseMerchant",
	"POST /console/merchants/{id}/resume": "resumeMerchant",
	"POST /console/merchants/{id}/change": "updateMerchant",

	"POST /console/callbacks/{id}/resend":   "resendCallback",
	"POST /console/resend":                  "resendCallbacks",
	"POST /console/withdrawals/{id}/cancel": "cancelWithdrawal",
	"POST /console/withdrawals/{id}/block":  "blockWithdrawal",
	"POST /console/tasks/{id}/approve":      "approveTask",
	"POST /console/tasks/{id}/decline":      "declineTask",
	"POST /console/tasks/{id}/note":         "noteTask",
	"POST /console/tasks/many":              "approveTasks",
	"POST /console/orders/{id}/cancel":      "cancelOrder",
	"POST /console/forwarding/retry":        "retryForwards",
	"POST /console/stop/freeze":             "freeze",
	"POST /console/stop/thaw":               "thaw",
	"POST /console/tokens":                  "createToken",
	"POST /console/tokens/{id}/revoke":      "revokeToken",
	"POST /console/alarms/ack":              "ackAlarm",
}

// TestRoles: a post of what the token's role may not do is refused by the API, whoever wrote it.
func TestRoles(t *testing.T) {
	base, first := node(t, nil)
	admin := serviceAPI(t, base, first)
	if _, err := admin.CreateMerchant(t.Context(), client.NewMerchant{
		ID:               "shop",
		Key:              &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"},
	}); err != nil {
		t.Fatal(err)
	}
	c, err := console.NewService(bareConfig)
	if err != nil {
		t.Fatal(err)
	}
	// The approver last: where there is one, further tokens wait for an approval.
	isApprover := func(r client.Role) bool { return r == client.RoleApprover }
	for _, role := range append(slices.DeleteFunc(client.Role("").AtService(), isApprover), client.RoleApprover) {
		wanted := client.NewToken{Name: string(role), Role: role}
		if role == client.RoleMerchant {
			wanted.Merchants = []string{"shop"}
		}
		made, err := admin.CreateToken(t.Context(), wanted)
		if err != nil {
			t.Fatal(err)
		}
		s := newSite(t, base).signIn(made.Secret)
		self, err := serviceAPI(t, base, made.Secret).Self(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		may := map[string]bool{}
		for _, op := range self.May {
			may[op] = true
		}
		for _, pattern := range c.Patterns() {
			path, isPost := strings.CutPrefix(pattern, "POST ")
			op := operations[pattern]
			if !isPost {
				continue
			}
			if op == "" {
				t.Errorf("no operation is known for %s", pattern)
			}
			if may[op] {
				continue
			}
			path = strings.NewReplacer("{id}", "shop", "{seq}", "1").Replace(path)
			p := s.post(path, url.Values{"confirm": {lastWord(path)}, "reason": {"r"}, "name": {"n"}, "role": {"admin"}, "merchant": {"shop"}, "version": {"1"}, "seq": {"1"}})
			if p.status < 400 || p.status >= 500 || !strings.Contains(p.body, `class="problems"`) {
				t.Errorf("%s posts %s: %d %q\n%s", role, path, p.status, p.to(), p.body)
			}
		}
	}
	if m, err := admin.Merchant(t.Context(), "shop"); err != nil || m.Version != 1 || m.State != client.MerchantActive {
		t.Errorf("%+v, %v", m, err)
	}
}

func lastWord(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
