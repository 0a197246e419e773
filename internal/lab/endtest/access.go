package endtest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/lab/dbtest"
)

// rule says of an operation who may call it.
type rule struct {
	roles []string // none: nobody needs a token
	// other is what a token gets that is bound to another merchant than the call is about; 0 at the gateway, whose
	// tokens are bound to none.
	other int
}

// rules reads testdata/operations.golden, which Document compares with the routes, so that nobody changes who may do
// what by accident.
func rules(t *testing.T, elsewhere map[int]string) map[string]rule {
	text, all := dbtest.Must(os.ReadFile(filepath.Join("testdata", "operations.golden")))(t), map[string]rule{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		of := rule{roles: strings.FieldsFunc(strings.TrimPrefix(f[3], "roles="), func(r rune) bool { return r == '+' })}
		if elsewhere != nil && len(of.roles) > 0 {
			of.other = http.StatusNotFound
		}
		for status, ids := range elsewhere {
			if slices.Contains(strings.Fields(ids), f[2]) {
				of.other = status
			}
		}
		all[f[2]] = of
	}
	return all
}

// Access calls every endpoint with tokens of every role, bound to nothing, to the merchant mine that the call is about
// or to another, expired or revoked, and without one. elsewhere has the operations that answer a token bound to another
// merchant with another status than 404: 403 where the call concerns all merchants, 422 where it names that merchant,
// 200 where the answer just leaves it out. It is nil where tokens are bound to none. bodies are requests about the
// merchant mine; any other is the empty object.
func Access(t *testing.T, e End, elsewhere map[int]string, bodies map[string]string, roles ...client.Role) {
	all := rules(t, elsewhere)
	for _, role := range append(roles, "") {
		tokens := map[string]string{}
		for what, change := range map[string]func(*api.Token){
			"unbound": func(*api.Token) {}, "bound": func(k *api.Token) { k.Merchants = "mine" },
			"elsewhere": func(k *api.Token) { k.Merchants = "others theirs" },
			"expired":   func(k *api.Token) { k.Expires = 5 }, "revoked": func(*api.Token) {},
		} {
			if role == "" {
				continue
			}
			k := api.NewStoreToken(what, role, 1)
			if change(&k); k.Merchants != "" && elsewhere == nil {
				continue
			}
			if tokens[what] = e.Keep(k); what == "revoked" {
				dbtest.OK(t, e.Tokens.Revoke(t.Context(), k.ID, 5, nil))
			}
		}
		if role == "" {
			tokens["none"] = ""
		}
		for _, what := range []string{"unbound", "bound"} {
			if tokens[what] != "" && slices.Contains(all["self"].roles, string(role)) {
				self(t, e, all, role, what, tokens[what])
			}
		}
		for _, rt := range e.API.Endpoints() {
			rule, ok := all[rt.ID]
			if !ok {
				t.Fatalf("%s is not in operations.golden", rt.ID)
			}
			contentType, body := "", ""
			if rt.Method != http.MethodGet {
				contentType, body = api.TypeJSON, cmp.Or(bodies[rt.ID], "{}")
			}
			for what, secret := range tokens {
				e.Pass()
				access(t, rt, rule, role, what, e.ask(t, secret, rt.Method, e.Path(rt), contentType, body))
			}
		}
	}
}

// self holds what a token is told that it may do to the rules. Who may make tokens depends on whether there is an
// approver.
func self(t *testing.T, e End, all map[string]rule, role client.Role, what, secret string) {
	var is client.Self
	a := e.ask(t, secret, http.MethodGet, "/v1/tokens/self", "", "")
	if err := json.Unmarshal([]byte(a.Body), &is); err != nil || is.Role != role || is.Name != what || strings.Contains(a.Body, secret) {
		t.Errorf("%s, %s: %d %s", role, what, a.Status, a.Body)
	}
	for id, rule := range all {
		may := slices.Contains(rule.roles, string(role)) && (what == "unbound" || rule.other != http.StatusForbidden)
		if id != "createToken" && slices.Contains(is.May, id) != may {
			t.Errorf("%s, %s: is told that it may %s: %v", role, what, id, !may)
		}
	}
}

func access(t *testing.T, rt *api.Endpoint, rule rule, role client.Role, what string, a Answer) {
	detail := a.Problem().Detail
	want := 0 // let in
	switch {
	case len(rule.roles) == 0:
		want = rule.other
	case what == "none" || what == "expired" || what == "revoked":
		want = http.StatusUnauthorized
	case !slices.Contains(rule.roles, string(role)),
		rule.other == http.StatusForbidden && (what == "elsewhere" || what == "bound" && rt.ID != "createToken"),
		rt.ID == "declineTask" && role == client.RoleOperator && what != "elsewhere": // another proposed it
		want = http.StatusForbidden
	case what == "elsewhere":
		want = rule.other
	}
	missing := a.Status == http.StatusNotFound && rule.other != 0 // at the gateway paths name nothing
	switch {
	case want == 0 && (a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden || missing || a.Status >= 500),
		want != 0 && a.Status != want:
		t.Errorf("%s by %s, %s: %d, want %d: %s", rt.ID, role, what, a.Status, want, a.Body)
	case what == "elsewhere" && strings.Contains(a.Body, "mine") && len(rule.roles) > 0:
		t.Errorf("%s by %s: a token that is bound to others learns of the merchant: %s", rt.ID, role, a.Body)
	case what == "bound" && strings.Contains(a.Body, `"theirs"`):
		t.Errorf("%s by %s: a bound token sees others: %s", rt.ID, role, a.Body)
	case a.Status == http.StatusUnauthorized && !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer"):
		t.Errorf("%s, %s: no challenge", rt.ID, what)
	case what == "expired" && a.Status == http.StatusUnauthorized && detail != "the token has expired",
		what == "revoked" && a.Status == http.StatusUnauthorized && detail != "the token was revoked":
		t.Errorf("%s, %s: %q", rt.ID, what, detail)
	}
}
