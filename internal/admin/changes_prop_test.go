package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

// Where an approver's token exists, nobody alone changes where a merchant's money goes or
// who decides on it: not by any calls of one token, and not with tokens that are made
// with it, even where an honest approver agrees to every token that is proposed. The
// approvers only become others by an approval of one of them.
func TestNobodyAloneMovesMoney(t *testing.T) {
	h := sqlite(t, func(c *Config) { c.RatePerSecond = 1e9 })
	spare := must(envelope.GenerateKey(1024))(t)
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		if round == dbtest.Times(100, 20) {
			return
		}
		round++
		merchant := fmt.Sprintf("m%d", round)
		h.merchant(merchant)
		honest, alice := h.person(client.RoleApprover, ""), h.person(client.RoleOperator, "")
		other := h.person(client.RoleApprover, "") // who does nothing
		bound := rapid.SampledFrom([]string{"", merchant}).Draw(r, "bound")
		// Mostly who may make tokens and those who decide: nothing else comes near the rule.
		role := rapid.SampledFrom([]client.Role{client.RoleAdmin, client.RoleAdmin, client.RoleAdmin, client.RoleOperator, client.RoleApprover, client.RoleCore}).Draw(r, "role")
		agrees := rapid.Bool().Draw(r, "the honest approver agrees to tokens")
		k := api.NewStoreToken("who acts alone", role, 1)
		k.Merchants = bound
		held := []string{h.keep(k)} // secrets of all tokens that one person has
		ids := []string{k.ID, honest.id, other.id, alice.id}
		var changes []string
		guardedNow := func() string {
			m := must(h.store.Merchant(t.Context(), merchant))(r)
			members := m.Texts()
			maps.DeleteFunc(members, func(name, _ string) bool { return !slices.Contains(guarded, name) })
			return fmt.Sprint(members)
		}
		before := guardedNow()
		by := func() string { return rapid.SampledFrom(held).Draw(r, "with") }
		note := func(a endtest.Answer) client.CreatedToken { // every answer that waits has its member task
			var p client.CreatedToken
			if a.Status == 202 {
				decodeInto(r, a.Body, &p)
				changes = append(changes, p.Task)
			}
			return p
		}
		url := func() string {
			return "https://" + rapid.StringMatching(`[a-z]{6}`).Draw(r, "host") + ".example/"
		}
		// A vote is on what was just asked for: most of what came before is decided.
		recent := func() string {
			return rapid.SampledFrom(changes[max(0, len(changes)-3):]).Draw(r, "which")
		}
		approve := func(*rapid.T) {
			if len(changes) > 0 {
				h.as(by(), post, "/v1/tasks/"+recent()+"/approve", "", nil)
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"patch": func(r *rapid.T) {
				body := rapid.SampledFrom([]string{`{"withdrawUrl":"` + url() + `w"}`, `{"notifyUrl":"` + url() + `n","name":"x"}`, `{"apiKey":"another-api-key-of-it"}`, `{"callbackApiKey":null}`,
					`{"collect":"any"}`, `{"finalCodes":[{"from":7,"to":8}]}`, `{"allowPrivate":true}`, `{"name":"y","concurrency":5}`}).Draw(r, "body")
				note(h.as(by(), patch, "/v1/merchants/"+merchant, api.TypeMerge, body))
			},
			"keys": func(r *rapid.T) {
				body := client.NewRotation{Key: &client.KeySpec{PrivateKey: client.Secret(privatePEM(spare))}}
				note(h.as(by(), post, "/v1/merchants/"+merchant+"/rotation", api.TypeJSON, body))
				note(h.as(by(), post, "/v1/merchants/"+merchant+"/rotation/activate", "", nil))
				note(h.as(by(), post, "/v1/merchants/"+merchant+"/rotation/"+rapid.SampledFrom([]string{"finish", "cancel"}).Draw(r, "end"), "", nil))
			},
			"pause and resume": func(r *rapid.T) {
				h.as(by(), post, "/v1/merchants/"+merchant+"/pause", "", nil)
				h.as(by(), post, "/v1/merchants/"+merchant+"/resume", "", nil)
			},
			"make a merchant again": func(r *rapid.T) {
				again := newMerchant(merchant)
				again.WithdrawURL = url()
				h.as(by(), post, "/v1/merchants", api.TypeJSON, again)
			},
			"make a token": func(r *rapid.T) {
				in := client.NewToken{Name: "more", Role: rapid.OneOf(rapid.Just(client.RoleApprover), rapid.SampledFrom(client.ValuesAt[client.Role](client.AtService))).Draw(r, "new role")}
				if rapid.Bool().Draw(r, "of the merchant") {
					in.Merchants = []string{merchant}
				}
				p := note(h.as(by(), post, "/v1/tokens", api.TypeJSON, in))
				if p.Secret == "" {
					return
				}
				held, ids = append(held, p.Secret.Reveal()), append(ids, must(changeOf(honest, t.Context(), p.Task))(t).After["token"])
				if agrees {
					h.as(honest.secret, post, "/v1/tasks/"+p.Task+"/approve", "", nil)
				}
			},
			"revoke": func(r *rapid.T) {
				note(h.as(by(), remove, "/v1/tokens/"+rapid.SampledFrom(ids).Draw(r, "whom"), "", nil))
			},
			"approve": approve, "approve again": approve,
			"reject": func(r *rapid.T) {
				if len(changes) > 0 {
					h.as(by(), post, "/v1/tasks/"+recent()+"/decline", "", nil)
				}
			},
			"wait": func(r *rapid.T) {
				h.pass(time.Minute)
				ok(r, h.control.EndOld(t.Context(), db.MillisOf(h.now())))
			},
			"": func(r *rapid.T) {
				if now := guardedNow(); now != before {
					r.Fatalf("changed to %s\nwas %s", now, before)
				}
				for _, p := range []person{honest, other} {
					if k, err := api.FindToken(t.Context(), h.store, p.id); err != nil || !k.Valid(db.MillisOf(h.now())) {
						r.Fatalf("an approver was ended: %+v, %v", k, err)
					}
				}
				// One by one, because the tokens of all earlier rounds are in the list too.
				for _, id := range ids {
					k, err := api.FindToken(t.Context(), h.store, id)
					if err != nil && !errors.Is(err, db.ErrNotFound) {
						r.Fatal(err)
					}
					if k.Role == client.RoleApprover && k.Maker != "" && !agrees {
						r.Fatalf("an approver was made alone: %+v", k)
					}
				}
			},
		})
		// The same proposal by another goes through: the rule stops one alone and not all.
		m := must(h.store.Merchant(t.Context(), merchant))(r)
		if m.State == client.MerchantPaused {
			h.as(alice.secret, post, "/v1/merchants/"+merchant+"/resume", "", nil)
		}
		if a := h.as(alice.secret, patch, "/v1/merchants/"+merchant, api.TypeMerge, `{"withdrawUrl":"https://right.example/w"}`); a.Status == 202 {
			var p client.CreatedToken
			decodeInto(r, a.Body, &p)
			if a := h.as(honest.secret, post, "/v1/tasks/"+p.Task+"/approve", "", nil); a.Status != 200 || guardedNow() == before {
				r.Fatalf("two persons cannot change it: %d %s", a.Status, a.Body)
			}
		} else if a.Status != 401 { // alice was revoked
			r.Fatalf("%d %s", a.Status, a.Body)
		}
	})
}

func decodeInto(r *rapid.T, body string, v any) {
	ok(r, json.Unmarshal([]byte(body), v))
}
