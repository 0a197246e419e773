package gateway

import (
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"testing"
	"time"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/api"
	"countersign/internal/lab/endtest"
)

// end is the gateway as the suite of both ends sees it. Its paths name what is not there.
func (r *rig) end() endtest.End {
	tokens := api.NewTokens(r.db)
	return endtest.End{API: r.api.base, Pass: func() { r.clock.advance(2 * time.Second) },
		Ask: func(secret, method, path, contentType, body string) endtest.Answer {
			status, text, header := newUser(r.t, r.client.url, client.Secret(secret)).send(r.t, method, path, contentType, body)
			return endtest.Answer{Status: status, Header: header, Body: text}
		},
		Keep: func(k api.Token) string {
			secret, hash := api.MintToken()
			if err := tokens.Create(r.t.Context(), k, hash); err != nil {
				r.t.Fatal(err)
			}
			return secret.Reveal()
		},
		Revoke: func(id string) {
			if err := tokens.Revoke(r.t.Context(), id, 5, nil); err != nil {
				r.t.Fatal(err)
			}
		},
		Path: func(rt *api.Endpoint) string { return regexp.MustCompile(`\{\w+\}`).ReplaceAllString(rt.Path, "77") }}
}

func TestOpenAPI(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { c.Metrics = http.NotFoundHandler() })
	endtest.Document(t, r.end(), reflect.TypeFor[*client.Gateway]())
}

// TestEveryWrongMember: nothing that is refused adds anything.
func TestEveryWrongMember(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), nil)
	order := map[string]any{"callBackId": "c1", "tenantUserId": "7", "address": "TX", "chainName": "TRON", "symbol": "USDT", "amount": "2.50",
		"expiresAt": "2031-01-01T00:00:00Z", "labels": map[string]any{"a": "b"}}
	try := maps.Clone(order)
	delete(try, "callBackId")
	try["at"] = "2030-01-01T00:00:00Z"
	endtest.WrongMembers(t, r.end(), r.client.token.Reveal(), map[string]any{"addOrder": order, "cancelOrder": map[string]any{"reason": "seen"},
		"moveCursor": map[string]any{"deposits": 1, "events": 1}, "tryPolicy": try})
	if s, err := r.client.Stats(t.Context()); err != nil || len(s.Orders) != 0 {
		t.Fatalf("something was added: %+v, %v", s, err)
	}
}
