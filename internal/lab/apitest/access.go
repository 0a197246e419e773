package apitest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/api"
)

// Rule says of an operation who may call it. Tables of rules are written by hand, so that nobody changes who may do
// what by accident.
type Rule = struct {
	Roles string // empty: nobody needs a token
	// Other is what a token gets that is bound to another merchant than the call is about: 403 where
	// the call concerns all merchants, 404 or 422 where it names that merchant, 200 where the answer
	// just leaves it out. 0 at the gateway, whose tokens are bound to none.
	Other int
	Body  string // a request about the merchant mine
}

// Access calls every endpoint with tokens of every role, bound to nothing, to the merchant mine that
// the call is about or to another, expired or revoked, and without one.
func Access(t *testing.T, e End, rules map[string]Rule, roles ...client.Role) {
	known := map[string]bool{}
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
			if change(&k); k.Merchants != "" && rules["self"].Other == 0 {
				continue
			}
			if tokens[what] = e.Keep(k); what == "revoked" {
				e.Revoke(k.ID)
			}
		}
		if role == "" {
			tokens["none"] = ""
		}
		for _, rt := range e.API.Endpoints() {
			rule, ok := rules[rt.ID]
			if !ok {
				t.Fatalf("%s is not in the table", rt.ID)
			}
			known[rt.ID] = true
			for what, secret := range tokens {
				e.Pass()
				contentType := ""
				if rule.Body != "" {
					contentType = api.TypeJSON
				}
				access(t, rt, rule, role, what, e.Ask(secret, rt.Method, e.Path(rt), contentType, rule.Body))
			}
		}
	}
	for id := range rules {
		if !known[id] {
			t.Errorf("the table has %s, which is no operation", id)
		}
	}
}

func access(t *testing.T, rt *api.Endpoint, rule Rule, role client.Role, what string, a Answer) {
	detail := a.Problem().Detail
	want := 0 // let in
	switch {
	case rule.Roles == "":
		want = rule.Other
	case what == "none" || what == "expired" || what == "revoked":
		want = http.StatusUnauthorized
	case !slices.Contains(strings.Fields(rule.Roles), string(role)),
		rule.Other == http.StatusForbidden && (what == "elsewhere" || what == "bound" && rt.ID != "createToken"),
		rt.ID == "declineTask" && role == client.RoleOperator && what != "elsewhere": // another proposed it
		want = http.StatusForbidden
	case what == "elsewhere":
		want = rule.Other
	}
	missing := a.Status == http.StatusNotFound && rule.Other != 0 // at the gateway paths name nothing
	switch {
	case want == 0 && (a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden || missing || a.Status >= 500),
		want != 0 && a.Status != want:
		t.Errorf("%s by %s, %s: %d, want %d: %s", rt.ID, role, what, a.Status, want, a.Body)
	case what == "elsewhere" && strings.Contains(a.Body, "mine") && rule.Roles != "":
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
