package admin

import (
	"encoding/json"
	"fmt"
	"log/slog"
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
		made, err := c.CreateMerchant(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		h.remember(made)
		if made.State != "active" || made.Scheme != "service" || made.Concurrency != 64 || made.ConfirmWithin != client.Duration(time.Hour) ||
			made.Body != "bare" || made.ContentType != "application/x-www-form-urlencoded" || made.Version != 1 || made.Private() || made.Retry != nil ||
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
		shown.APIKeyFingerprint, shown.CallbackAPIKeyFingerprint = "", "" // a list opens no secrets
		if list, err := c.Merchants(ctx, client.PageOptions{}); err != nil || len(list.Merchants) != 1 || !reflect.DeepEqual(list.Merchants[0], shown) {
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
		made, err := c.CreateMerchant(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		h.remember(made)
		if made.PublicKey != "" || made.ResponsePublicKey == "" || made.Fingerprint != testKey().Fingerprint() || made.ResponseFingerprint == made.Fingerprint || len(made.Warnings) != 1 {
			t.Errorf("%s: fingerprints %s and %s, warnings %v", scheme, made.Fingerprint, made.ResponseFingerprint, made.Warnings)
		}
		kept, err := h.store.Merchant(ctx, in.ID)
		if err != nil || kept.Key.HasPrivate() || !kept.ResponseKey.HasPrivate() || kept.ResponseKey.Bits() != 1024 {
			t.Errorf("%s: kept %v, %v, %v", scheme, kept.Key, kept.ResponseKey, err)
		}
	}
	in := newMerchant("small")
	in.Key = &client.KeySpec{Bits: 1024}
	made := must(c.CreateMerchant(ctx, in))(t)
	h.remember(made)
	if len(made.Warnings) != 1 || !strings.Contains(made.Warnings[0], "1024 bits") {
		t.Errorf("warnings %v", made.Warnings)
	}
}

func TestKeysRotate(t *testing.T) {
	h := sqlite(t)
	c, ctx := h.client(client.RoleAdmin), t.Context()
	made := h.merchant("acme")
	// replace takes all steps at once.
	replace := func(id string, n client.NewRotation) (made client.StagedKeys, is client.Merchant) {
		t.Helper()
		made = must(c.StageRotation(ctx, id, n))(t)
		must(c.ActivateRotation(ctx, id, 0))(t)
		return made, must(c.FinishRotation(ctx, id))(t).Merchant
	}
	fresh, is := replace("acme", client.NewRotation{})
	secrets.add("public key", fresh.PublicKey)
	kept, _ := h.store.Merchant(ctx, "acme")
	if is.Fingerprint == made.Fingerprint || kept.Key.PublicBase64() != fresh.PublicKey || !kept.Key.HasPrivate() || kept.Fingerprint != is.Fingerprint ||
		kept.Version != 4 || is.ResponseFingerprint != is.Fingerprint || kept.APIKey.Reveal() != testAPIKey {
		t.Errorf("fingerprint %s, version %d", is.Fingerprint, kept.Version)
	}
	split, after := replace("acme", client.NewRotation{ResponseKey: &client.KeySpec{Bits: 2048}})
	secrets.add("response public key", split.ResponsePublicKey)
	if after.Fingerprint != is.Fingerprint || split.PublicKey != "" || split.ResponsePublicKey == "" || after.ResponseFingerprint == after.Fingerprint {
		t.Errorf("a response key of its own: %s, %s", after.Fingerprint, after.ResponseFingerprint)
	}
	_, set := replace("acme", client.NewRotation{Key: &client.KeySpec{PrivateKey: client.Secret(privatePEM(testKey()))}})
	if set.Fingerprint != testKey().Fingerprint() || set.ResponseFingerprint != after.ResponseFingerprint {
		t.Errorf("a key that is given: %s", set.Fingerprint)
	}

	in := newMerchant("theirs")
	in.Scheme, in.Key, in.ResponseKey = "merchant", &client.KeySpec{PublicKey: testKey().PublicBase64()}, &client.KeySpec{PrivateKey: client.Secret(privatePEM(testKey()))}
	other := must(c.CreateMerchant(ctx, in))(t)
	answers, answering := replace("theirs", client.NewRotation{})
	if answering.Fingerprint != other.Fingerprint || answering.ResponseFingerprint == other.ResponseFingerprint || answers.PublicKey != "" {
		t.Errorf("the empty request in scheme merchant: %+v", answering)
	}
	secrets.add("response public key", answers.ResponsePublicKey)
	given, theirs := replace("theirs", client.NewRotation{Key: &client.KeySpec{PublicKey: fresh.PublicKey}})
	if theirs.Fingerprint != is.Fingerprint || theirs.ResponseFingerprint != answering.ResponseFingerprint || given.ResponsePublicKey != "" {
		t.Errorf("another key of theirs: %+v", theirs)
	}
}

func TestMerchantIsPatched(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		c, ctx := h.client(client.RoleAdmin), t.Context()
		h.merchant("acme")
		h.pass(time.Second)
		h.server.DefaultAllowPrivate = true // as a service that was started so; then one that was not
		changed := must(c.UpdateMerchant(ctx, "acme", client.MerchantPatch{
			MerchantSettings: client.MerchantSettings{Name: "New name", NotifyURL: "https://new.example/n", Concurrency: 3, RatePerSecond: 2.5, ConfirmWithin: client.Duration(time.Minute), FinalCodes: []client.CodeRange{{From: 5000, To: 5001}}, Body: client.BodyJSON, ContentType: "text/plain", AllowPrivate: new(true), Retry: &client.Retry{Notify: &client.Schedule{Delays: []client.Duration{0, client.Duration(time.Second)}, Every: client.Duration(time.Minute)}, Withdraw: &client.Schedule{Delays: []client.Duration{0}}}},
			Clear:            []string{"callbackApiKey"},
		}))(t)
		if changed.Name != "New name" || changed.NotifyURL != "https://new.example/n" || changed.Concurrency != 3 || changed.RatePerSecond != 2.5 ||
			changed.ConfirmWithin != client.Duration(time.Minute) || changed.FinalCodes[0] != (client.CodeRange{From: 5000, To: 5001}) || changed.Body != "json" || changed.ContentType != "text/plain" ||
			!changed.Private() || changed.Version != 2 || changed.Updated == changed.Created || changed.WithdrawURL != "https://acme.example/withdraw" ||
			changed.Retry.Notify.Every != client.Duration(time.Minute) || changed.Retry.Withdraw.Every != 0 {
			t.Errorf("%+v", changed)
		}
		kept, _ := h.store.Merchant(ctx, "acme")
		if kept.CallbackAPIKey != "" || kept.APIKey.Reveal() != testAPIKey || !kept.Key.HasPrivate() {
			t.Error("the secrets are not as they should be")
		}
		h.server.DefaultAllowPrivate = false
		// JSON Merge Patch by hand: null clears, absent stays.
		a := h.raw(client.RoleAdmin, patch, "/v1/merchants/acme", api.TypeMerge, `{"retry":{"notify":null},"finalCodes":null,"concurrency":null,"ratePerSecond":null,"confirmWithin":null,"allowPrivate":null,"contentType":null,"body":null}`)
		var m client.Merchant
		if err := json.Unmarshal([]byte(a.body), &m); err != nil || a.status != 200 {
			t.Fatal(a.body, err)
		}
		if m.Retry == nil || m.Retry.Notify != nil || m.Retry.Withdraw == nil || m.Concurrency != 64 || m.RatePerSecond != 0 || m.ConfirmWithin != client.Duration(time.Hour) ||
			m.Private() || m.Body != "bare" || m.ContentType != "application/x-www-form-urlencoded" || len(m.FinalCodes) != 0 || m.Name != "New name" {
			t.Errorf("%+v", m)
		}
		if m, err := c.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret("another-api-key-55")}, Clear: []string{"retry"}}); err != nil || m.Retry != nil {
			t.Errorf("%+v, %v", m, err)
		}
		secrets.add("apiKey", "another-api-key-55")
	})
}

// Only a merchant that was told so by name has answers taken that are not bound,
// and whoever says so is warned.
func TestCollectIsBoundUnlessAnyIsNamed(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		c, ctx := h.client(client.RoleAdmin), t.Context()
		expect := func(id string, shown client.Collect, warned []string, want client.Collect) {
			t.Helper()
			kept, err := h.store.Merchant(ctx, id)
			if err != nil || kept.Collect != want || shown != want {
				t.Errorf("%s: shown %q, kept %q, %v; want %q", id, shown, kept.Collect, err, want)
			}
			if (want == client.CollectAny) != (len(warned) == 1 && strings.Contains(warned[0], "collect is any")) {
				t.Errorf("%s: warned %q of %q", id, warned, want)
			}
		}
		made := h.merchant("acme")
		expect("acme", made.Collect, made.Warnings, client.CollectBound)
		in := newMerchant("loose")
		in.Collect = client.CollectAny
		made = must(c.CreateMerchant(ctx, in))(t)
		h.remember(made)
		expect("loose", made.Collect, made.Warnings, client.CollectAny)
		for _, step := range []struct {
			patch client.MerchantPatch
			want  client.Collect
		}{
			{client.MerchantPatch{MerchantSettings: client.MerchantSettings{Name: "Other"}}, client.CollectAny},
			{client.MerchantPatch{Clear: []string{"collect"}}, client.CollectBound},
			{client.MerchantPatch{MerchantSettings: client.MerchantSettings{Collect: client.CollectAny}}, client.CollectAny},
			{client.MerchantPatch{MerchantSettings: client.MerchantSettings{Collect: client.CollectBound}}, client.CollectBound},
		} {
			m := must(c.UpdateMerchant(ctx, "loose", step.patch))(t)
			expect("loose", m.Collect, m.Warnings, step.want)
		}
		for _, wrong := range []string{`"loose"`, `""`, `true`, `"ANY"`} {
			if a := h.raw(client.RoleAdmin, patch, "/v1/merchants/loose", api.TypeMerge, `{"collect":`+wrong+`}`); a.status/100 != 4 {
				t.Errorf("collect %s gave %d", wrong, a.status)
			}
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	h := sqlite(t)
	c, ctx := h.client(client.RoleAdmin), t.Context()
	h.merchant("acme")
	if m, err := c.PauseMerchant(ctx, "acme", "their maintenance"); err != nil || m.State != "paused" || m.PausedReason != "their maintenance" {
		t.Errorf("%+v, %v", m, err)
	}
	if a := addDeposit(h, newDeposit("acme", 1)); a.State != "pending" {
		t.Errorf("a paused merchant does not take deposits: %+v", a)
	}
	if m, err := c.PauseMerchant(ctx, "acme", ""); err != nil || m.State != "paused" {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := c.ResumeMerchant(ctx, "acme", client.Resume{}); err != nil || m.State != "active" || m.PausedReason != "" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestNormalURL(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"https://a.example/x", "HTTPS://A.example:443/x/", true},
		{"https://a.example", "https://a.example./", true},
		{"https://a.example/a/../x", "https://a.example/x", true},
		{"http://a.example:80/x", "http://a.example/x", true},
		{"https://a.example/x", "http://a.example/x", false},
		{"https://a.example/x", "https://a.example:8443/x", false},
		{"https://a.example/x", "https://a.example/X", false},
		{"https://a.example/x?a=1", "https://a.example/x?a=2", false},
	} {
		if a, b := normalURL(c.a), normalURL(c.b); (a == b) != c.same {
			t.Errorf("%s and %s: %s, %s", c.a, c.b, a, b)
		}
	}
}

// No verb and no logger shows what the types of the API hold in secret.
func TestSecretsDoNotPrint(t *testing.T) {
	const secret = "very-secret-text"
	values := []any{
		client.Secret(secret), client.NewMerchant{ID: "m", Key: &client.KeySpec{PrivateKey: secret}, MerchantSecrets: client.MerchantSecrets{APIKey: secret}}, client.CreatedMerchant{APIKey: secret, PublicKey: secret},
		client.NewRotation{Key: &client.KeySpec{PrivateKey: secret}}, client.MerchantPatch{MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret(secret)}},
		client.CreatedToken{Secret: secret}, client.Permit{Permit: secret}, client.Outcome{Permit: secret},
	}
	for _, v := range values {
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		if strings.Contains(log.String(), secret) {
			t.Errorf("slog shows a %T", v)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{client.Secret(secret), []client.Secret{secret}, client.Permit{Permit: secret}, client.KeySpec{PrivateKey: secret}, client.MerchantPatch{MerchantSecrets: client.MerchantSecrets{APIKey: secret}}} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, secret) || strings.Contains(s, fmt.Sprintf("%x", secret)) {
				t.Errorf("%s shows a %T", verb, v)
			}
		}
	}
	c := must(client.NewService(client.Config{URL: "http://127.0.0.1:1", Token: secret}))(t)
	if s := fmt.Sprintf("%+v", c); strings.Contains(s, secret) {
		t.Error("a client shows its token")
	}
}
