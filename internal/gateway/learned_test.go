package gateway

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/BurntSushi/toml"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

var pair = sync.OnceValue(func() *envelope.Key {
	k, err := envelope.GenerateKey(1024)
	if err != nil {
		panic(err)
	}
	return k
})

func seal(t testing.TB, key *envelope.Key, p envelope.Padding, plain string) []byte {
	t.Helper()
	b, err := envelope.Seal(key, p, []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// plaintext is a deposit, bound or not.
func plaintext(t testing.TB, bound bool) string {
	t.Helper()
	d := *countersigntest.Deposit(1)
	d.RequestUUID = countersign.UnboundUUID
	b, err := d.Marshal()
	if err == nil && bound {
		b, _, err = countersign.Bind(b, [6]byte{1})
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bound {
		b = bytes.Replace(b, []byte(countersign.UnboundUUID), []byte("7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"), 1)
	}
	return string(b)
}

// TestFits: what each body shows, and the settings that fit it.
func TestFits(t *testing.T) {
	public := CallbackReader{Key: pair().Public(), Field: "data"}
	private := CallbackReader{Key: pair(), Field: "data"}
	bound, unbound := plaintext(t, true), plaintext(t, false)
	sealed := func(plain string) []byte { return seal(t, pair(), envelope.PKCS1v15, plain) }
	for name, c := range map[string]struct {
		reader CallbackReader
		body   []byte
		shows  []string
		fits   string
	}{
		"as the interface": {public, sealed(bound), []string{"bare Base64", "binding    holds"}, "the defaults"},
		"not bound":        {public, sealed(unbound), []string{"binding    absent"}, "--provider other"},
		"bound to others":  {public, sealed(strings.Replace(bound, `"deposit-1"`, `"deposit-2"`, 1)), []string{"binding    broken"}, "--binding off --provider other"},
		"bound, otherwise": {public, sealed(plaintextOf(t, strings.Replace(unbound, `"60001"`, `60001`, 1))), []string{`member "tenantUserId" is not a string`}, "--lenient"},
		"form field":       {public, []byte("msg=" + queryEscape(string(sealed(bound)))), []string{"form field, in msg"}, "--body-field msg"},
		"data field":       {public, []byte("data=" + queryEscape(string(sealed(bound)))), []string{", form field\n"}, "the defaults"},
		"OAEP":             {private, seal(t, pair().Public(), envelope.OAEP, bound), []string{"the private part opens OAEP blocks"}, "--oaep"},
		"as it is set": {CallbackReader{Key: pair(), Padding: envelope.OAEP, Field: "msg"}, []byte("msg=" + queryEscape(string(seal(t, pair().Public(), envelope.OAEP, bound)))),
			[]string{"form field, in msg"}, "--body-field msg --oaep"},
		"no transaction": {public, sealed(strings.Replace(unbound, `"txId"`, `"txid"`, 1)), []string{`member "txId" is missing; no setting changes that`}, "--provider other"},
		"twice":          {public, sealed(strings.Replace(unbound, `"txId"`, `"symbol":"X","txId"`, 1)), []string{`"symbol" occurs twice`}, ""},
		"not JSON":       {public, sealed("hello"), []string{"refused    "}, ""},
		"another pair":   {CallbackReader{Key: countersigntest.NewService(t).MerchantKey(), Field: "data"}, sealed(bound), []string{"result", "try"}, ""},
		"two fields":     {public, []byte(`{"a":"` + string(sealed(bound)) + `","b":"` + string(sealed(bound)) + `"}`), []string{"result     body: not a known body form"}, ""},
		"nothing":        {public, nil, []string{"result     body: nothing there"}, ""},
	} {
		f := c.reader.Read(c.body)
		for _, want := range c.shows {
			if !strings.Contains(f.String(), want) {
				t.Errorf("%s: %q is not in\n%s", name, want, f)
			}
		}
		seen := f
		seen.Path = "/a\"b\x01\\é"
		if got := fits([]Finding{f}); c.fits != "" && got != c.fits {
			t.Errorf("%s fits %s, want %s\n%s", name, got, c.fits, f)
		}
		var settings map[string]any
		if _, err := toml.Decode(sumUp([]Finding{seen}).Settings, &settings); err != nil {
			t.Errorf("%s: the file is no TOML: %v", name, err)
		} else if got := settings["gateway"].(map[string]any)["notify-path"]; f.Type == countersign.TypeDeposited && got != seen.Path {
			t.Errorf("%s: the file has %q", name, got)
		}
	}
}

// fits are the settings that fit list, as flags.
func fits(list []Finding) string {
	settings := fitOf(list).settings()
	var words []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		words = append(words, strings.TrimSuffix(fmt.Sprintf("--%s %v", name, settings[name]), " true"))
	}
	return cmp.Or(strings.Join(words, " "), "the defaults")
}

// plaintextOf binds a plaintext anew.
func plaintextOf(t *testing.T, plain string) string {
	t.Helper()
	b, _, err := countersign.Bind([]byte(plain), [6]byte{2})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func queryEscape(s string) string {
	return strings.NewReplacer("+", "%2B", "/", "%2F", "=", "%3D").Replace(s)
}

// came is what a callback shows that came to a path.
func came(t testing.TB, path, plain string) Finding {
	t.Helper()
	return CallbackReader{Key: pair().Public(), Field: "data"}.Seen(seal(t, pair(), envelope.PKCS1v15, plain), []client.Fact{{Member: factPath, Came: path}})
}

// deposit is one of a provider that does not bind.
func deposit(t testing.TB, id string) string {
	return strings.Replace(plaintext(t, false), `"deposit-1"`, `"`+id+`"`, 1)
}

const notify, withdraw = merchant.DefaultNotifyPath, merchant.DefaultWithdrawPath

// wants looks for texts, and for what must not be there.
func wants(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for _, value := range []string{"\x1b", "60001", "S3CRET"} {
		if strings.Contains(text, value) {
			t.Errorf("%q is in\n%s", value, text)
		}
	}
}

// TestOnePath: a provider that posts all types to one path is told so.
func TestOnePath(t *testing.T) {
	var list []Finding
	for _, typ := range []countersign.Type{countersign.TypeDeposited, countersign.TypeRequestWithdraw} {
		list = append(list, Finding{Type: typ, Binding: countersign.BindingHolds, Path: "/hook"})
	}
	got := sumUp(list)
	wants(t, got.Settings, "2 callbacks, of which 1 would be refused.\n#   1  type 2: its path is that of the other types, /hook\n", "notify-path = \"/hook\"\n")
	wants(t, got.Note, "go to a URL of their own")
	if strings.Contains(got.Settings, "withdraw-path") {
		t.Error(got.Settings)
	}
}

// TestSum: how many callbacks the gateway would refuse with what fits, and why; no value but identifiers is said.
func TestSum(t *testing.T) {
	list := []Finding{
		came(t, notify, deposit(t, "good")),
		came(t, notify, strings.Replace(deposit(t, "bad-1"), `"txId"`, `"txHash"`, 1)),
		came(t, notify, strings.NewReplacer(`"txId"`, `"txHash"`, `"60001"`, `"S3CRET",2:3`).Replace(deposit(t, "not JSON"))),
		came(t, notify, strings.Replace(deposit(t, "bad-2\x1b[31m"), `"txId"`, `"txHash"`, 1)), // no JSON: a control character
		came(t, notify, strings.Replace(deposit(t, `bad-2\u001b[31m`), `"txId"`, `"txHash"`, 1)),
		came(t, withdraw, `{"type":2,"callBackId":"w-1","requestUUID":"7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"}`),
		came(t, notify, `{"type":9,"requestUUID":"7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"}`),
	}
	got := sumUp(list)
	wants(t, got.Settings, "# What this provider does: 7 callbacks, of which 5 would be refused.\n#   2  type 1: member \"txId\" is missing (such as bad-1, bad-2?[31m)\n",
		"#   1  type 9: unknown callback type: 9\n", "provider = \"other\"\n")
	wants(t, got.Note, "We received 7 different callbacks from you, and our end must refuse 5 of them.",
		"Seen in 2 of 7 callbacks: type 1: member \"txId\" is missing (such as bad-1, bad-2?[31m).\n")
}

// TestMixed: what differs from what one setting says for all callbacks would be refused, and a body
// that does not open, too. What may be forged, or may be the fault of a key here, is not in the note.
func TestMixed(t *testing.T) {
	r := CallbackReader{Key: pair().Public(), Field: "data"}
	bound := came(t, "/b", plaintext(t, true))
	with := func(header string) Finding { s := came(t, "/b", deposit(t, "a")); s.APIKey = header; return s }
	in := func(field string) Finding {
		return r.Seen([]byte(field+"="+queryEscape(string(seal(t, pair(), envelope.PKCS1v15, plaintext(t, true))))), []client.Fact{{Member: factPath, Came: "/b"}})
	}
	for name, c := range map[string]struct {
		list []Finding
		want string
		note bool
	}{
		"paths":   {[]Finding{came(t, "/a", deposit(t, "a")), came(t, "/b", deposit(t, "b"))}, "type 1: its path is /a, that of others /b (such as a)\n", true},
		"headers": {[]Finding{with("A"), with("B")}, "its header of the API key is A, that of others B (such as a)\n", true},
		"fields":  {[]Finding{in("a"), in("b")}, "its field of the body is a, that of others b", true},
		"binding": {[]Finding{bound, came(t, "/b", deposit(t, "b"))}, "type 1: its requestUUID is not bound to it, as that of 1 others is: it may be forged (such as b)\n", false},
		"no seal": {[]Finding{bound, r.Seen([]byte("AAAA"), nil)}, "#   1  does not open: ", false},
		"none":    {[]Finding{bound}, "1 callbacks, of which 0 would be refused.\n", false},
	} {
		if got := sumUp(c.list); !strings.Contains(got.Settings, c.want) || (got.Note != "") != c.note {
			t.Errorf("%s: %s\nnote: %q", name, got.Settings, got.Note)
		}
	}
}

// TestBoundAndNot: a callback that is not bound makes binding optional only where no bound one came.
func TestBoundAndNot(t *testing.T) {
	splice := strings.Replace(plaintext(t, true), `"deposit-1"`, `"deposit-2"`, 1)
	got := sumUp([]Finding{came(t, notify, splice), came(t, notify, plaintext(t, true)), came(t, notify, plaintext(t, false)), came(t, notify, splice)}).Settings
	wants(t, got, "not bound to it, as that of 1 others is")
	if strings.Contains(got, "provider =") || strings.Contains(got, "binding =") {
		t.Error(got)
	}
}

// TestURLSafeOnly: six bodies in the URL alphabet have one cause.
func TestURLSafeOnly(t *testing.T) {
	var list []Finding
	for n := range 6 {
		body := strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(string(seal(t, pair(), envelope.PKCS1v15, deposit(t, fmt.Sprint("d-", n)))))
		s := CallbackReader{Key: pair().Public(), Field: "data"}.Seen([]byte(body), nil)
		if list = append(list, s); strings.Contains(s.String(), "OAEP") || strings.Contains(s.String(), "--service-key") {
			t.Errorf("%v", s)
		}
	}
	got := sumUp(append(list, CallbackReader{Key: pair().Public(), Field: "data"}.Seen([]byte("\x1f\x8b\x08"), nil)))
	if strings.Count(got.Settings, "does not open") != 2 {
		t.Error(got.Settings)
	}
	wants(t, got.Settings, "#   6  does not open", "URL alphabet", "#   1  does not open")
	wants(t, got.Note, "Seen in 6 of 7", "URL alphabet", "with + and / and padding", "Seen in 1 of 7", "not\ncompressed")
}

// TestStrayCallback: one callback that is not as the others does not become the setting, in
// whatever order they come, and the provider is asked to mend that one alone.
func TestStrayCallback(t *testing.T) {
	r := CallbackReader{Key: pair().Public(), Field: "data"}
	for last := range 7 {
		var list []Finding
		for n := range 7 {
			body := seal(t, pair(), envelope.PKCS1v15, strings.Replace(plaintext(t, true), `"deposit-1"`, fmt.Sprintf(`"d-%d"`, n), 1))
			is := "usual"
			if n == last {
				is = "stray"
			}
			list = append(list, r.Seen([]byte(is+"="+queryEscape(string(body))), []client.Fact{{Member: factPath, Came: "/" + is}, {Member: factHeader, Came: "X-" + is, Cause: "x"}}))
		}
		if got := fits(list); got != "--api-key-header X-usual --binding off --body-field usual --notify-path /usual --provider other" {
			t.Errorf("stray number %d: %s", last, got)
		}
		got := sumUp(list)
		wants(t, got.Settings, "7 callbacks, of which 1 would be refused", "its path is /stray, that of others /usual (such as d-"+fmt.Sprint(last)+")")
	}
}

// TestRequestFacts: names of headers are kept and no values; where no API key is given, what may carry it is named.
func TestRequestFacts(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/x", nil)
	r.Header.Set("X-Api-Key", "S3CRET")
	r.Header.Set("Accept", "x")
	for _, key := range []countersign.APIKey{"S3CRET", "other"} {
		facts, known := requestFacts(r, []countersign.APIKey{key})
		s := CallbackReader{Key: pair().Public(), Field: "data"}.Seen(seal(t, pair(), envelope.PKCS1v15, plaintext(t, true)), facts)
		got := sumUp([]Finding{s, s}).Settings
		wants(t, fmt.Sprint(facts, got))
		if s.Path != "/x" || known != (key == "S3CRET") || (s.APIKey != "") != known || strings.Contains(got, "callbacks had the header X-Api-Key, which the gateway will not check") == known {
			t.Errorf("key %s: %+v\n%s", key.Reveal(), facts, got)
		}
	}
}

// FuzzRead: whatever a body holds, it is explained, and nothing in it drives the
// terminal.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{``, `{"type":1}`, `{"type":1,"requestUUID":"\u001b[31m","a\u202eb":{}}`, plaintext(f, true), plaintext(f, false), "\xff", `[]`} {
		f.Add([]byte(seed))
	}
	reader := CallbackReader{Key: pair().Public(), Field: "data"}
	f.Fuzz(func(t *testing.T, plain []byte) {
		texts := []string{reader.Read(plain).String()}
		if body, err := envelope.Seal(pair(), envelope.PKCS1v15, plain); err == nil {
			sum := sumUp([]Finding{reader.Seen(body, nil)})
			texts = append(texts, reader.Read(body).String(), sum.Settings, sum.Note)
		}
		for _, text := range texts {
			if strings.ContainsAny(text, "\x1b\r\x00\u202e") {
				t.Fatalf("%q", text)
			}
		}
	})
}
