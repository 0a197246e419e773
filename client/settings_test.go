package client

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"countersign"
)

// TestSettingsAreDescribed: each setting has what its rows, flags and schemas are made from,
// and what Text writes Set reads.
func TestSettingsAreDescribed(t *testing.T) {
	var m MerchantSettings
	m.SetDefaults()
	m.Name, m.NotifyURL, m.WithdrawURL, m.RatePerSecond = "Shop", "https://s.example/n", "https://s.example/w", 0.5
	m.AnswerKey = "MCowBQYDK2VwAyEA"
	m.RetryNotify = &Schedule{Delays: []Duration{0, Duration(time.Second)}, Every: Duration(time.Hour)}
	m.RetryWithdraw = m.RetryNotify
	m.ApproveAbove = AmountLimits{{Symbol: "USDT", Above: amountOf(t, "10000")}, {Symbol: AnySymbol, Above: amountOf(t, "0.5")}}
	seen := map[string]bool{}
	for _, s := range Settings() {
		if s.Name == "" || s.Label == "" || s.Doc == "" || s.None == "" && !s.Required || seen[s.Name] {
			t.Errorf("%+v is not described", s)
		}
		seen[s.Name] = true
		if s.Secret {
			if s.Text(NewMerchant{MerchantSecrets: MerchantSecrets{APIKey: "a", CallbackAPIKey: "b"}}) != "" {
				t.Errorf("%s is shown", s.Name)
			}
			continue
		}
		text := s.Text(Merchant{MerchantSettings: m})
		var p MerchantPatch
		if err := s.Set(&p, text); err != nil || text == "" {
			t.Errorf("%s: %q: %v", s.Name, text, err)
		}
		of := func(m MerchantSettings) any { return reflect.ValueOf(m).FieldByName(s.field).Interface() }
		if !reflect.DeepEqual(of(p.MerchantSettings), of(m)) {
			t.Errorf("%s: %q is read as %v, not %v", s.Name, text, of(p.MerchantSettings), of(m))
		}
		switch err := s.Set(&p, ""); {
		case s.Clears != (err == nil), s.Clears != slices.Equal(p.Clear, []string{s.Name}):
			t.Errorf("%s is cleared by no text: %v, %q", s.Name, err, p.Clear)
		}
		if s.Type.Kind() != reflect.String && s.Set(&p, "{") == nil {
			t.Errorf("%s takes what it is not", s.Name)
		}
	}
	if len(seen) < 17 {
		t.Errorf("%d names", len(seen))
	}
}

func TestTextOfDurations(t *testing.T) {
	within := Settings()[slices.IndexFunc(Settings(), func(s Setting) bool { return s.Name == "confirmWithin" })]
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Second: "1m30s", 20 * time.Second: "20s", 10 * time.Minute: "10m",
		time.Hour + time.Second: "1h0m1s", 168 * time.Hour: "168h", 20*time.Hour + 10*time.Minute: "20h10m", 500 * time.Millisecond: "500ms"} {
		if got := within.Text(MerchantSettings{ConfirmWithin: Duration(d)}); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

// TestMerchantPatch: its JSON is a JSON Merge Patch, read as it was written, and what it does
// not name stays.
func TestMerchantPatch(t *testing.T) {
	notify, withdraw := &Schedule{Delays: []Duration{1}}, &Schedule{Delays: []Duration{2}}
	was := MerchantSettings{Name: "n", Concurrency: 7, AllowPrivate: new(true), RetryNotify: notify, RetryWithdraw: withdraw}
	for _, test := range []struct {
		patch MerchantPatch
		json  string
		want  MerchantSettings
	}{
		{MerchantPatch{}, `{}`, was},
		{MerchantPatch{MerchantSettings: MerchantSettings{Name: "x", AllowPrivate: new(false)}, Clear: []string{"concurrency", "retryNotify", "retryWithdraw"}},
			`{"allowPrivate":false,"concurrency":null,"name":"x","retryNotify":null,"retryWithdraw":null}`, MerchantSettings{Name: "x", AllowPrivate: new(false)}},
		{MerchantPatch{MerchantSettings: MerchantSettings{RetryWithdraw: notify}}, `{"retryWithdraw":{"delays":["1ns"]}}`,
			MerchantSettings{Name: "n", Concurrency: 7, AllowPrivate: new(true), RetryNotify: notify, RetryWithdraw: notify}},
		{MerchantPatch{Clear: []string{"retryNotify"}}, `{"retryNotify":null}`,
			MerchantSettings{Name: "n", Concurrency: 7, AllowPrivate: new(true), RetryWithdraw: withdraw}},
		{MerchantPatch{MerchantSecrets: MerchantSecrets{APIKey: "k"}, Clear: []string{"callbackApiKey"}}, `{"apiKey":"k","callbackApiKey":null}`,
			was},
	} {
		b, err := json.Marshal(test.patch)
		if err != nil || string(b) != test.json {
			t.Errorf("written as %s, %v; want %s", b, err, test.json)
		}
		var p MerchantPatch
		if err := json.Unmarshal(b, &p); err != nil || !reflect.DeepEqual(p, test.patch) {
			t.Errorf("%s is read as %+v, %v", b, p, err)
		}
		is := was
		if p.Apply(&is); !reflect.DeepEqual(is, test.want) {
			t.Errorf("%s makes %+v, want %+v", b, is, test.want)
		}
	}
}

// TestTextOfCodes: errCodes are written as people do, and their JSON is read too.
func TestTextOfCodes(t *testing.T) {
	final := Settings()[slices.IndexFunc(Settings(), func(s Setting) bool { return s.Name == "finalCodes" })]
	want := []CodeRange{{2000, 2999}, {5001, 5001}}
	if got := final.Text(MerchantSettings{FinalCodes: want}); got != "2000-2999, 5001" {
		t.Errorf("written %q", got)
	}
	for _, text := range []string{"2000-2999, 5001", "2000 - 2999,5001", `[{"from":2000,"to":2999},{"from":5001,"to":5001}]`} {
		var p MerchantPatch
		if err := final.Set(&p, text); err != nil || !slices.Equal(p.FinalCodes, want) {
			t.Errorf("%q is read as %v, %v", text, p.FinalCodes, err)
		}
	}
	var none MerchantPatch
	if err := final.Set(&none, "none"); err != nil || none.FinalCodes == nil || len(none.FinalCodes) > 0 {
		t.Errorf("none is read as %#v, %v", none.FinalCodes, err)
	}
	for _, text := range []string{"2000-", "many", "-5", "2000..2999", "99999999999999999999"} {
		if err := final.Set(&MerchantPatch{}, text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func amountOf(t *testing.T, text string) countersign.Amount {
	t.Helper()
	a, err := countersign.ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAmountLimits: the limit of a currency counts, in any letters, and else that of all others; what no
// limit names, and with 0 everything, needs an approval.
func TestAmountLimits(t *testing.T) {
	limits := AmountLimits{{AnySymbol, amountOf(t, "0")}, {"USDT", amountOf(t, "100")}}
	for _, c := range []struct {
		limits         AmountLimits
		symbol, amount string
		want           bool
	}{
		{limits, "USDT", "100", false}, {limits, "usdt", "100.000000000000000001", true}, {limits, "USDT", "100.0", false},
		{limits, "BTC", "0.00000001", true}, {limits[1:], "BTC", "0.00000001", true}, {nil, "USDT", "1000000", false},
	} {
		if got := c.limits.Exceeded(c.symbol, amountOf(t, c.amount)); got != c.want {
			t.Errorf("%s %s above %v: %v", c.amount, c.symbol, c.limits, got)
		}
	}
}
