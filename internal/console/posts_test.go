package console_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign/internal/admin"
	"countersign/internal/api"
	"countersign/internal/console"
	"countersign/internal/gateway"
)

// callsOf is an API that does nothing: it knows a token that may do everything, and notes the calls that would change
// something.
type callsOf struct {
	mu    sync.Mutex
	calls []string // method, path and body
}

func (a *callsOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/v1/tokens/self":
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "tok", "role": "admin", "may": slices.Collect(maps.Values(operations))})
		return
	case r.Method != http.MethodGet:
		a.mu.Lock()
		a.calls = append(a.calls, r.Method+" "+r.URL.Path+" "+string(body))
		a.mu.Unlock()
	}
	_, _ = io.WriteString(w, "{}")
}

// TestPosts: each form of both consoles makes the call of its operation, with what was typed, and no other call that
// changes something. The page after it says what was done. A form that a word confirms makes no call without it.
func TestPosts(t *testing.T) {
	form := url.Values{"reason": {"typed text"}, "note": {"typed text"}, "text": {"typed text"}, "name": {"typed text"}, "role": {"viewer"}, "merchant": {"typed text"},
		"bits": {"1024"}, "scheme": {"service"}, "version": {"0"}, "seq": {"1"}, "resend": {"on"}, "apiKey": {"on"}, "verdict": {"approve"}, "id": {"typed text"}}
	words := map[string]string{"freeze": "freeze", "thaw": "thaw", "blockWithdrawal": "block", "approveTasks": "approve"} // that confirm
	silent := []string{"testDeposit", "resumeMerchant", "resendCallback", "cancelWithdrawal",
		"thaw", "revokeToken", "retryForwards"} // nothing is typed
	calls := &callsOf{}
	atService, atGateway := bare(t, calls)
	for c, all := range map[*console.Console][]api.Operation{atService: admin.Operations(), atGateway: gateway.Operations()} {
		server := httptest.NewServer(c)
		defer server.Close()
		s := newSite(t, server.URL).signIn("cst_any")
		for _, pattern := range c.Patterns() {
			path, is := strings.CutPrefix(pattern, "POST ")
			if !is {
				continue
			}
			path = strings.NewReplacer("{id}", "shop", "{seq}", "1").Replace(path)
			op := all[slices.IndexFunc(all, func(o api.Operation) bool { return o.ID == operations[pattern] })]
			if form.Set("confirm", lastWord(path)); strings.HasSuffix(path, "/many") {
				form.Set("confirm", "approve")
			}
			calls.calls = nil
			p := s.post(path, form)
			want := regexp.MustCompile("^" + op.Method + " " + regexp.MustCompile(`\{[^}]+\}`).ReplaceAllString(op.Path, "(shop|1)") + " ")
			if p.status >= 400 || len(calls.calls) != 1 || !want.MatchString(calls.calls[0]) || strings.Contains(calls.calls[0], "typed text") == slices.Contains(silent, op.ID) {
				t.Errorf("%s: %d, calls %q, want %s\n%s", pattern, p.status, calls.calls, want, saysOf(p.body))
			}
			if p.status == http.StatusSeeOther && !strings.Contains(s.get(p.to()).body, `<p class="did" role="status">`) {
				t.Errorf("%s: %s does not say what was done", pattern, p.to())
			}
			if form.Set("confirm", "no"); words[op.ID] != "" {
				calls.calls = nil
				p = s.post(path, form)
				if p.status != http.StatusUnprocessableEntity || len(calls.calls) > 0 || !strings.Contains(p.body, "Type the word "+words[op.ID]+" to confirm") {
					t.Errorf("%s, not confirmed: %d, calls %q\n%s", pattern, p.status, calls.calls, saysOf(p.body))
				}
			}
		}
		if p := s.post("/console/tasks/release.shop/decline", url.Values{"confirm": {"decline"}}); c == atService && !strings.Contains(p.body, "Type the word block") {
			t.Errorf("a release is declined, for ever, without the word block: %d", p.status)
		}
	}
}

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

func lastWord(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
