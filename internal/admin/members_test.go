package admin

import (
	"maps"
	"strings"
	"testing"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/api"
	"countersign/internal/lab/endtest"
)

// asMembers returns v as members that a test can spoil.
func asMembers(t testing.TB, v any) map[string]any { return endtest.AsAny(t, v).(map[string]any) }

// signingPublic is the public part of some signing key.
var signingPublic = envelope.GenerateSigningKey().PublicBase64()

func TestEveryWrongMember(t *testing.T) {
	h := sqlite(t, func(c *Config) { c.RatePerSecond = 1e9 })
	h.merchant("acme")
	withdrawal := acceptWithdrawal(h, newWithdrawal("acme", 1))
	callback := addDeposit(h, newDeposit("acme", 1))

	deposit := asMembers(t, newDeposit("acme", 2))
	deposit["newAddress"], deposit["business"] = "TNew", 4
	address := asMembers(t, newAddress("acme", 1))
	address["trackingId"], address["business"] = "t", 4
	merchant := fullMerchant("other")
	patch := maps.Clone(merchant)
	delete(patch, "id")
	delete(patch, "scheme")
	good := map[string]any{
		"createMerchant":     merchant,
		"updateMerchant":     patch,
		"pauseMerchant":      map[string]any{"reason": "maintenance"},
		"resumeMerchant":     map[string]any{"resend": true},
		"resendCallback":     map[string]any{"accepted": true},
		"freeze":             map[string]any{"reason": "a token was lost"},
		"blockWithdrawal":    map[string]any{"reason": "a fraud"},
		"stageRotation":      map[string]any{"key": merchant["key"], "responseKey": merchant["responseKey"], "apiKey": "key-staged-9", "callbackApiKey": "key-staged-10", "makeApiKey": false, "makeCallbackApiKey": false},
		"activateRotation":   map[string]any{"overlap": "24h"},
		"addDeposits":        []any{deposit},
		"createWithdrawal":   []any{map[string]any{"merchant": "acme", "callBackId": "w-9", "tenantUserId": "u", "trackingId": "t", "business": 1, "details": asMembers(t, newWithdrawal("acme", 1).Details), "confirmWithin": "1m"}},
		"addAddress":         []any{address},
		"reportWaiting":      map[string]any{"for": "funds"},
		"releaseWithdrawal":  map[string]any{"claim": "core-1"},
		"releaseWithdrawals": []any{map[string]any{"merchant": "acme", "callBackId": "w-9", "claim": "core-1"}},
		"reportOutcomes":     []any{map[string]any{"merchant": "acme", "callBackId": "w-9", "permit": "p", "executed": map[string]any{"txId": "0x1", "fromAddress": "TF"}, "failed": map[string]any{"reason": "r"}}},
		"reportOutcome":      map[string]any{"permit": "p", "executed": map[string]any{"txId": "0x1", "fromAddress": "TF"}, "failed": map[string]any{"reason": "r"}},
		"resendCallbacks":    map[string]any{"filter": map[string]any{"merchant": "acme", "type": 1, "state": "refused", "trackingId": "t", "txId": "x", "callBackId": "c", "tenantUserId": "u", "address": "T", "since": "2030-01-01T00:00:00Z", "until": "2031-01-01T00:00:00Z"}, "dryRun": true},
	}
	e, before := h.end(), h.counts()
	e.Path = pathTo(map[string]string{"merchants": "acme", "withdrawals": withdrawal.ID, "callbacks": callback.ID, "tasks": releaseTask(withdrawal.ID), "tokens": "tok_none"})
	endtest.WrongMembers(t, e, h.tokens[client.RoleAdmin], good)
	endtest.WrongQueries(t, e, h.tokens[client.RoleAdmin])
	if after := h.counts(); after != before {
		t.Errorf("refused requests changed the store: %+v, was %+v", after, before)
	}
}

// pathTo returns paths of endpoints with the ids of things, by their collections.
func pathTo(ids map[string]string) func(*api.Endpoint) string {
	return func(rt *api.Endpoint) string {
		collection, _, _ := strings.Cut(strings.TrimPrefix(rt.Path, "/v1/"), "/")
		return strings.NewReplacer("{id}", ids[collection], "{seq}", "1").Replace(rt.Path)
	}
}

func fullMerchant(id string) map[string]any {
	schedule := map[string]any{"delays": []any{"0s", "5s"}, "every": "1m"}
	key := map[string]any{"bits": 2048, "privateKey": "x", "publicKey": "y"}
	return map[string]any{
		"id": id, "name": "n", "apiKey": testAPIKey, "callbackApiKey": testCallbackAPIKey,
		"notifyUrl": "https://a.example/n", "withdrawUrl": "https://a.example/w", "scheme": "service",
		"key": key, "responseKey": key, "finalCodes": []any{map[string]any{"from": 2000, "to": 2100}},
		"retryNotify": schedule, "retryWithdraw": schedule, "concurrency": 4, "ratePerSecond": 1.5,
		"confirmWithin": "1h", "releaseWithin": "24h", "allowPrivate": false, "approveAbove": []any{map[string]any{"symbol": "USDT", "above": "100"}}, "contentType": "text/plain", "body": "json", "collect": "any", "answerKey": signingPublic,
	}
}

func acceptWithdrawal(h *harness, w client.NewWithdrawal) client.AcceptedWithdrawal {
	h.t.Helper()
	return must(h.client(client.RoleCore).CreateWithdrawal(h.t.Context(), w))(h.t)
}

func addDeposit(h *harness, d client.NewDeposit) client.Accepted {
	h.t.Helper()
	out := must(h.client(client.RoleCore).AddDeposits(h.t.Context(), d))(h.t)
	return out[0]
}

// What no schema can say: members that contradict each other or the store.
func TestWrongByMeaning(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	w := acceptWithdrawal(h, newWithdrawal("acme", 1))
	decided := acceptWithdrawal(h, newWithdrawal("acme", 3))
	addDeposit(h, newDeposit("acme", 1))
	other, elsewhere, taken := newDeposit("acme", 1), newWithdrawal("acme", 1), newWithdrawal("acme", 2)
	other.Amount, elsewhere.Details.Address, taken.TrackingID = amount("99"), "TOther", w.CallBackID
	must(h.client(client.RoleAdmin).CancelWithdrawal(t.Context(), decided.ID))(t)
	pub, priv := testKey().PublicBase64(), privatePEM(testKey())
	before := h.counts()
	type edit func(m map[string]any)
	with := func(name string, v any) edit { return func(m map[string]any) { m[name] = v } }
	merchant := func(edits ...edit) map[string]any {
		m := asMembers(t, newMerchant("other"))
		for _, e := range edits {
			e(m)
		}
		return m
	}
	schedule := func(v any) edit { return with("retryNotify", v) }
	for name, c := range map[string]struct {
		method, path string
		body         any
		status       int
		location     string
	}{
		"same URLs":             {post, "/v1/merchants", merchant(with("withdrawUrl", "https://other.example/notify")), 422, "body.withdrawUrl"},
		"same URLs, other text": {post, "/v1/merchants", merchant(with("withdrawUrl", "https://OTHER.example:443/a/../notify/")), 422, "body.withdrawUrl"},
		"URL refused":           {post, "/v1/merchants", merchant(with("notifyUrl", "ftp://x.example/")), 422, "body.notifyUrl"},
		// No token opens a way into the private network that the service was not started with.
		"made private":            {post, "/v1/merchants", merchant(with("allowPrivate", true)), 422, "body.allowPrivate"},
		"patched private":         {patch, "/v1/merchants/acme", map[string]any{"allowPrivate": true}, 422, "body.allowPrivate"},
		"patched private, URL":    {patch, "/v1/merchants/acme", map[string]any{"allowPrivate": true, "notifyUrl": "https://127.0.0.1/n"}, 422, "body.allowPrivate"},
		"private URL":             {post, "/v1/merchants", merchant(with("withdrawUrl", "https://127.0.0.1/")), 422, "body.withdrawUrl"},
		"codes upside down":       {post, "/v1/merchants", merchant(with("finalCodes", []any{map[string]any{"from": 5, "to": 4}})), 422, "body.finalCodes[0].to"},
		"delay too long":          {post, "/v1/merchants", merchant(schedule(map[string]any{"delays": []any{"1s", "169h"}})), 422, "body.retryNotify.delays[1]"},
		"delay below 0":           {post, "/v1/merchants", merchant(schedule(map[string]any{"delays": []any{"-1s"}})), 422, "body.retryNotify.delays[0]"},
		"every too short":         {post, "/v1/merchants", merchant(schedule(map[string]any{"delays": []any{"1s"}, "every": "1ns"})), 422, "body.retryNotify.every"},
		"confirmWithin short":     {post, "/v1/merchants", merchant(with("confirmWithin", "9s")), 422, "body.confirmWithin"},
		"releaseWithin short":     {post, "/v1/merchants", merchant(with("releaseWithin", "59s")), 422, "body.releaseWithin"},
		"releaseWithin long":      {post, "/v1/merchants", merchant(with("releaseWithin", "8761h")), 422, "body.releaseWithin"},
		"confirmWithin long":      {post, "/v1/merchants", merchant(with("confirmWithin", "169h")), 422, "body.confirmWithin"},
		"signing key":             {post, "/v1/merchants", merchant(with("answerKey", "MCowBQYDK2VwAyEA")), 422, "body.answerKey"},
		"three signing keys":      {post, "/v1/merchants", merchant(with("answerKey", signingPublic+","+signingPublic+","+signingPublic)), 422, "body.answerKey"},
		"media type":              {post, "/v1/merchants", merchant(with("contentType", "text/plain\r\nX: y")), 422, "body.contentType"},
		"bits and key":            {post, "/v1/merchants", merchant(with("key", map[string]any{"bits": 2048, "privateKey": priv})), 422, "body.key.privateKey"},
		"public key, own pair":    {post, "/v1/merchants", merchant(with("key", map[string]any{"publicKey": pub})), 422, "body.key.publicKey"},
		"public for private":      {post, "/v1/merchants", merchant(with("key", map[string]any{"privateKey": pub})), 422, "body.key.privateKey"},
		"no key":                  {post, "/v1/merchants", merchant(with("key", map[string]any{"privateKey": "AAAA"})), 422, "body.key.privateKey"},
		"their key missing":       {post, "/v1/merchants", merchant(with("scheme", "merchant"), func(m map[string]any) { delete(m, "key") }), 422, "body.key"},
		"their key not there":     {post, "/v1/merchants", merchant(with("scheme", "merchant"), with("key", map[string]any{})), 422, "body.key.publicKey"},
		"bits for their key":      {post, "/v1/merchants", merchant(with("scheme", "merchant"), with("key", map[string]any{"bits": 2048})), 422, "body.key.bits"},
		"their private key":       {post, "/v1/merchants", merchant(with("scheme", "merchant-oaep"), with("key", map[string]any{"publicKey": priv})), 422, "body.key.publicKey"},
		"private for their key":   {post, "/v1/merchants", merchant(with("scheme", "merchant"), with("key", map[string]any{"privateKey": priv})), 422, "body.key.privateKey"},
		"response key of theirs":  {post, "/v1/merchants", merchant(with("responseKey", map[string]any{"publicKey": pub})), 422, "body.responseKey.publicKey"},
		"id taken":                {post, "/v1/merchants", newMerchant("acme"), 409, ""},
		"patched to same URLs":    {patch, "/v1/merchants/acme", map[string]any{"withdrawUrl": "https://acme.example/notify"}, 422, "body.withdrawUrl"},
		"patched no longer free":  {patch, "/v1/merchants/acme", map[string]any{"notifyUrl": "https://127.0.0.1/x"}, 422, "body.notifyUrl"},
		"patched within":          {patch, "/v1/merchants/acme", map[string]any{"confirmWithin": "0s"}, 422, "body.confirmWithin"},
		"patch of no merchant":    {patch, "/v1/merchants/none", map[string]any{"name": "x"}, 404, ""},
		"keys of no merchant":     {post, "/v1/merchants/none/rotation", map[string]any{}, 404, ""},
		"keys of the wrong kind":  {post, "/v1/merchants/acme/rotation", map[string]any{"key": map[string]any{"publicKey": pub}}, 422, "body.key.publicKey"},
		"deposit, no merchant":    {post, "/v1/deposits", []any{newDeposit("none", 1)}, 422, "body[0].merchant"},
		"item, no merchant":       {post, "/v1/deposits", []client.NewDeposit{newDeposit("acme", 1), newDeposit("none", 2)}, 422, "body[1].merchant"},
		"withdrawal, no merchant": {post, "/v1/withdrawals", []any{newWithdrawal("none", 1)}, 422, "body[0].merchant"},
		"withdrawal of nothing":   {post, "/v1/withdrawals", func() any { w := newWithdrawal("acme", 2); w.Details.Amount = amount("0.00"); return []any{w} }(), 422, "body[0].details.amount"},
		"withdrawal too short":    {post, "/v1/withdrawals", func() any { w := newWithdrawal("acme", 2); w.ConfirmWithin = 1e9; return []any{w} }(), 422, "body[0].confirmWithin"},
		"outcome of both":         {post, "/v1/withdrawals/" + w.ID + "/outcome", client.Outcome{Permit: "p", Executed: &client.Executed{TxID: "x"}, Failed: &client.Failed{Reason: "r"}}, 422, "body.failed"},
		"outcome of neither":      {post, "/v1/withdrawals/" + w.ID + "/outcome", client.Outcome{Permit: "p"}, 422, "body.executed"},
		"outcome too early":       {post, "/v1/withdrawals/" + w.ID + "/outcome", client.Outcome{Permit: "p", Failed: &client.Failed{Reason: "r"}}, 409, ""},
		"release too early":       {post, "/v1/withdrawals/" + w.ID + "/release", client.Claim{Holder: "c"}, 409, ""},
		"another deposit":         {post, "/v1/deposits", []any{other}, 409, "body[0].trackingId"},
		"item, another deposit":   {post, "/v1/deposits", []client.NewDeposit{newDeposit("acme", 2), other}, 409, "body[1].trackingId"},
		"items that differ":       {post, "/v1/deposits", []client.NewDeposit{newDeposit("acme", 3), newDeposit("acme", 4), {Merchant: "acme", TrackingID: "dep-4", TxID: "0xother", TenantUserID: "user-7", ChainName: "TRON", Symbol: "USDT", Amount: amount("2.5"), FromAddress: "TFrom", ToAddress: "TTo"}}, 409, "body[2].trackingId"},
		"another withdrawal":      {post, "/v1/withdrawals", []any{elsewhere}, 409, "body[0].callBackId"},
		// The merchant would take the end of one for that of the other.
		"trackingId of another": {post, "/v1/withdrawals", []any{taken}, 409, "body[0].trackingId"},
		"resend of all":         {post, "/v1/callbacks/resend", map[string]any{"filter": map[string]any{}}, 422, "body.filter"},
		"resend of accepted":    {post, "/v1/callbacks/resend", map[string]any{"filter": map[string]any{"state": "accepted"}}, 422, "body.filter.state"},
		"resend of type 2":      {post, "/v1/callbacks/resend", map[string]any{"filter": map[string]any{"type": 2, "state": "refused"}}, 422, "body.filter.type"},
		"resend of the decided": {post, "/v1/callbacks/" + decided.Callback + "/resend", nil, 409, ""},
	} {
		t.Run(name, func(t *testing.T) {
			contentType := api.TypeJSON
			if c.body == nil {
				contentType = ""
			}
			a := h.raw(client.RoleAdmin, c.method, c.path, contentType, c.body)
			if c.location != "" {
				if a.Names(t, c.status, c.location); len(a.Problem().Faults) != 1 {
					t.Errorf("%d faults: %s", len(a.Problem().Faults), a.Body)
				}
			} else if a.Status != c.status || a.Problem().Detail == "" {
				t.Errorf("status %d, want %d with a reason: %s", a.Status, c.status, a.Body)
			}
		})
	}
	if after := h.counts(); after != before {
		t.Errorf("refused requests changed the store: %+v, was %+v", after, before)
	}
	if m, err := h.store.Merchant(t.Context(), "acme"); err != nil || m.Version != 1 {
		t.Errorf("refused requests changed the merchant: version %d, %v", m.Version, err)
	}
}

func TestWrongQueriesAndPaths(t *testing.T) {
	h := sqlite(t)
	for path, location := range map[string]string{
		"/v1/decisions?wait=61s":                      "query.wait",
		"/v1/merchants?cursor=m-a":                    "query.cursor",
		"/v1/callbacks?" + strings.Repeat("a=1&", 30): "query.a",
		"/v1/callbacks?cursor=nonsense!":              "query.cursor",
		"/v1/withdrawals?cursor=nonsense!":            "query.cursor",
	} {
		h.raw(client.RoleAdmin, get, path, "", nil).Names(t, 422, location)
	}
	for _, path := range []string{
		"/v1/merchants/none", "/v1/withdrawals/none", "/v1/withdrawals/acme.00000000000000000000000000",
		"/v1/callbacks/none", "/v1/callbacks/acme.00000000000000000000000000", "/v1/callbacks/%00", "/v1/callbacks/a%20b",
		"/v1/merchants/" + strings.Repeat("a", 200), "/v1/merchants/%ff", "/v1/nothing", "/", "/v2/merchants", "/v1/callbacks/resend",
	} {
		if a := h.raw(client.RoleAdmin, get, path, "", nil); a.Status != 404 || a.Problem().Title == "" {
			t.Errorf("%s: %d %s, want a 404 problem", path, a.Status, a.Body)
		}
	}
	for path, allow := range map[string]string{
		"/v1/merchants": "GET, POST", "/v1/merchants/acme": "GET, PATCH", "/v1/deposits": "GET, POST",
		"/v1/tokens/x": "DELETE", "/healthz": "GET", "/v1/callbacks/resend": "GET, POST",
	} {
		if a := h.raw(client.RoleAdmin, "PUT", path, "", nil); a.Status != 405 || a.Header.Get("Allow") != allow {
			t.Errorf("PUT %s: %d, Allow %q, want 405 and %q", path, a.Status, a.Header.Get("Allow"), allow)
		}
	}
}

func TestBodiesThatAreNone(t *testing.T) {
	h := sqlite(t, func(c *Config) { c.MaxBody = 4096 })
	h.merchant("acme")
	before := h.counts()
	good := endtest.Encode(t, []any{newDeposit("acme", 1)})
	for name, c := range map[string]struct {
		contentType, body string
		status            int
		location          string
	}{
		"no type":          {"", good, 415, "header.Content-Type"},
		"form":             {"application/x-www-form-urlencoded", good, 415, "header.Content-Type"},
		"other text":       {"text/json", good, 415, "header.Content-Type"},
		"other characters": {"application/json; charset=utf-16", good, 415, "header.Content-Type"},
		"two":              {api.TypeJSON, good + good, 400, "body"},
		"too long":         {api.TypeJSON, `"` + strings.Repeat("a", 4096) + `"`, 413, "body"},
		"deep":             {api.TypeJSON, strings.Repeat("[", 2000) + strings.Repeat("]", 2000), 422, "body[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			h.raw(client.RoleCore, post, "/v1/deposits", c.contentType, c.body).Names(t, c.status, c.location)
			// The same without a length that is known beforehand.
			h.raw(client.RoleCore, post, "/v1/deposits", c.contentType, struct{ *strings.Reader }{strings.NewReader(c.body)}).Names(t, c.status, c.location)
		})
	}
	if after := h.counts(); after != before {
		t.Errorf("refused bodies changed the store: %+v, was %+v", after, before)
	}
	if a := h.raw(client.RoleCore, post, "/v1/deposits", "application/json; charset=UTF-8", good); a.Status != 202 {
		t.Errorf("%d %s, want it taken", a.Status, a.Body)
	}
	var list []client.NewDeposit
	for i := range maxBatch + 1 {
		list = append(list, newDeposit("acme", i))
	}
	big := sqlite(t)
	big.merchant("acme")
	big.postJSON("/v1/deposits", list).Names(t, 422, "body")
	if a := big.postJSON("/v1/deposits", list[:maxBatch]); a.Status != 202 || strings.Count(a.Body, `"id"`) != maxBatch {
		t.Errorf("a batch of %d: %d", maxBatch, a.Status)
	}
}
