package admin

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/api"
)

func TestMerchantIsMade(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		c, ctx := h.client(client.RoleAdmin), t.Context()
		in := newMerchant("acme")
		in.APIKey, in.CallbackAPIKey, in.Key = "", "", nil
		made := must(c.CreateMerchant(ctx, in))(t)
		if made.State != "active" || made.Scheme != "service" || made.Concurrency != 64 || made.ConfirmWithin != client.Duration(time.Hour) ||
			made.Body != "bare" || made.ContentType != "application/x-www-form-urlencoded" || made.Version != 1 || made.Private() || made.RetryNotify != nil || made.RetryWithdraw != nil ||
			len(made.FinalCodes) != 0 || made.FinalCodes == nil || len(made.Warnings) != 0 || made.Created.Time() != h.now().UTC() {
			t.Errorf("%+v", made.Merchant)
		}
		kept := must(h.store.Merchant(ctx, "acme"))(t)
		key, err := envelope.ParseKey([]byte(made.PublicKey))
		if err != nil || key.Bits() != 2048 || key.HasPrivate() || key.Fingerprint() != made.Fingerprint || made.ResponseFingerprint != made.Fingerprint ||
			!kept.Key.HasPrivate() || kept.Key.Fingerprint() != made.Fingerprint || made.ResponsePublicKey != "" {
			t.Errorf("the key that is shown is not the one that is kept: %v", err)
		}
		if len(made.APIKey) < 20 || kept.APIKey.Reveal() != made.APIKey.Reveal() {
			t.Error("the API key that is shown is not the one that is kept")
		}
		if len(made.CallbackAPIKey) < 20 || kept.CallbackAPIKey.Reveal() != made.CallbackAPIKey.Reveal() || made.CallbackAPIKey == made.APIKey {
			t.Error("the callback API key that is shown is not the one that is kept")
		}
		shown, err := c.Merchant(ctx, "acme")
		if err != nil || !reflect.DeepEqual(shown, made.Merchant) {
			t.Errorf("%+v\nwant %+v, %v", shown, made.Merchant, err)
		}
		if list, err := c.Merchants(ctx, client.PageOptions{}); err != nil || len(list.Items) != 1 || !reflect.DeepEqual(list.Items[0], shown) {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestMerchantSchemes(t *testing.T) {
	h := sqlite(t)
	c, ctx := h.client(client.RoleAdmin), t.Context()
	for _, scheme := range []client.Scheme{client.SchemeMerchant, client.SchemeMerchantOAEP} {
		in := newMerchant("m-" + strings.TrimPrefix(string(scheme), "merchant"))
		in.Scheme, in.Key = scheme, &client.KeySpec{PublicKey: testKey().PublicBase64()}
		in.ResponseKey = &client.KeySpec{Bits: 1024}
		made := must(c.CreateMerchant(ctx, in))(t)
		if made.PublicKey != "" || made.ResponsePublicKey == "" || made.Fingerprint != testKey().Fingerprint() || made.ResponseFingerprint == made.Fingerprint || len(made.Warnings) != 1 {
			t.Errorf("%s: fingerprints %s and %s, warnings %v", scheme, made.Fingerprint, made.ResponseFingerprint, made.Warnings)
		}
		kept, err := h.store.Merchant(ctx, in.ID)
		if err != nil || kept.Key.HasPrivate() || !kept.ResponseKey.HasPrivate() || kept.ResponseKey.Bits() != 1024 {
			t.Errorf("%s: kept %v, %v, %v", scheme, kept.Key, kept.ResponseKey, err)
		}
	}
	in := newMerchant("small")
	in.Key, in.Name = &client.KeySpec{Bits: 1024}, ""
	made := must(c.CreateMerchant(ctx, in))(t)
	if made.Name != "small" || len(made.Warnings) != 1 || !strings.Contains(made.Warnings[0], "1024 bits") {
		t.Errorf("%q, warnings %v", made.Name, made.Warnings)
	}
}

func TestMerchantIsPatched(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		c, ctx := h.client(client.RoleAdmin), t.Context()
		h.merchant("acme")
		h.pass(time.Second)
		h.server.DefaultAllowPrivate = true // as a service that was started so; then one that was not
		changed := must(c.UpdateMerchant(ctx, "acme", client.MerchantPatch{
			MerchantSettings: client.MerchantSettings{Name: "New name", NotifyURL: "https://new.example/n", Concurrency: 3, RatePerSecond: 2.5, ConfirmWithin: client.Duration(time.Minute), FinalCodes: []client.CodeRange{{From: 5000, To: 5001}}, Body: client.BodyJSON, ContentType: "text/plain", AllowPrivate: new(true), RetryNotify: &client.Schedule{Delays: []client.Duration{0, client.Duration(time.Second)}, Every: client.Duration(time.Minute)}, RetryWithdraw: &client.Schedule{Delays: []client.Duration{0}}},
			Clear:            []string{"callbackApiKey"},
		}))(t)
		if changed.Name != "New name" || changed.NotifyURL != "https://new.example/n" || changed.Concurrency != 3 || changed.RatePerSecond != 2.5 ||
			changed.ConfirmWithin != client.Duration(time.Minute) || changed.FinalCodes[0] != (client.CodeRange{From: 5000, To: 5001}) || changed.Body != "json" || changed.ContentType != "text/plain" ||
			!changed.Private() || changed.Version != 2 || changed.Updated == changed.Created || changed.WithdrawURL != "https://acme.example/withdraw" ||
			changed.RetryNotify.Every != client.Duration(time.Minute) || changed.RetryWithdraw.Every != 0 {
			t.Errorf("%+v", changed)
		}
		kept, _ := h.store.Merchant(ctx, "acme")
		if kept.CallbackAPIKey != "" || kept.APIKey.Reveal() != testAPIKey || !kept.Key.HasPrivate() {
			t.Error("the secrets are not as they should be")
		}
		h.server.DefaultAllowPrivate = false
		// JSON Merge Patch by hand: null clears, absent stays.
		a := h.raw(client.RoleAdmin, patch, "/v1/merchants/acme", api.TypeMerge, `{"retryNotify":null,"finalCodes":null,"concurrency":null,"ratePerSecond":null,"confirmWithin":null,"allowPrivate":null,"contentType":null,"body":null}`)
		var m client.Merchant
		if err := json.Unmarshal([]byte(a.Body), &m); err != nil || a.Status != 200 {
			t.Fatal(a.Body, err)
		}
		if m.RetryNotify != nil || m.RetryWithdraw == nil || m.Concurrency != 64 || m.RatePerSecond != 0 || m.ConfirmWithin != client.Duration(time.Hour) ||
			m.Private() || m.Body != "bare" || m.ContentType != "application/x-www-form-urlencoded" || len(m.FinalCodes) != 0 || m.Name != "New name" {
			t.Errorf("%+v", m)
		}
		if m, err := c.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret("another-api-key-55")}, Clear: []string{"retryWithdraw"}}); err != nil || m.RetryWithdraw != nil {
			t.Errorf("%+v, %v", m, err)
		}
		secrets.add("apiKey", "another-api-key-55")
	})
}

// Only a merchant that was told so by name has answers taken that are not bound,
// and whoever says so is warned.
func TestCollectIsBoundUnlessAnyIsNamed(t *testing.T) {
	h := sqlite(t)
	c, ctx := h.client(client.RoleAdmin), t.Context()
	expect := func(m client.Merchant, warned []string, want client.Collect) {
		t.Helper()
		if kept := must(h.store.Merchant(ctx, m.ID))(t); kept.Collect != want || m.Collect != want {
			t.Errorf("shown %q, kept %q; want %q", m.Collect, kept.Collect, want)
		}
		if (want == client.CollectAny) != (len(warned) == 1 && strings.Contains(warned[0], "collect is any")) {
			t.Errorf("warned %q of %q", warned, want)
		}
	}
	made := h.merchant("acme")
	expect(made.Merchant, made.Warnings, client.CollectBound)
	in := newMerchant("loose")
	in.Collect = client.CollectAny
	made = must(c.CreateMerchant(ctx, in))(t)
	expect(made.Merchant, made.Warnings, client.CollectAny)
	for body, want := range map[string]client.Collect{`{"name":"Other"}`: client.CollectAny, `{"collect":null}`: client.CollectBound, `{"collect":"bound"}`: client.CollectBound} {
		must(c.UpdateMerchant(ctx, "loose", client.MerchantPatch{MerchantSettings: client.MerchantSettings{Collect: client.CollectAny}}))(t)
		var m client.UpdatedMerchant
		ok(t, json.Unmarshal([]byte(h.raw(client.RoleAdmin, patch, "/v1/merchants/loose", api.TypeMerge, body).Body), &m))
		expect(m.Merchant, m.Warnings, want)
	}
}
