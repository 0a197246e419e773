package learn

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"countersign"
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
	public := Reader{Key: pair().Public(), Field: "data"}
	private := Reader{Key: pair(), Field: "data"}
	bound, unbound := plaintext(t, true), plaintext(t, false)
	sealed := func(plain string) []byte { return seal(t, pair(), envelope.PKCS1v15, plain) }
	for name, c := range map[string]struct {
		reader Reader
		body   []byte
		shows  []string
		fits   string
	}{
		"as the interface": {public, sealed(bound), []string{"bare Base64", "binding    holds", "has the form of the interface"}, "the defaults"},
		"not bound":        {public, sealed(unbound), []string{"a UUID of version 4"}, "--provider other"},
		"bound to others":  {public, sealed(strings.Replace(bound, `"deposit-1"`, `"deposit-2"`, 1)), []string{"binding    broken"}, "--provider other --binding off"},
		"bound, otherwise": {public, sealed(plaintextOf(t, strings.Replace(unbound, `"60001"`, `60001`, 1))), []string{"tenantUserId is a number", "lenient"}, "--lenient"},
		"form field":       {public, []byte("msg=" + queryEscape(string(sealed(bound)))), []string{"form field, in msg"}, "--body-field msg"},
		"data field":       {public, []byte("data=" + queryEscape(string(sealed(bound)))), []string{"form       form field\n"}, "the defaults"},
		"OAEP":             {private, seal(t, pair().Public(), envelope.OAEP, bound), []string{"the private part opens OAEP blocks"}, "--oaep"},
		"no transaction":   {public, sealed(strings.Replace(unbound, `"txId"`, `"txid"`, 1)), []string{"no valid request", `member "txId" is missing; no setting changes that`}, "--provider other"},
		"twice":            {public, sealed(strings.Replace(unbound, `"txId"`, `"symbol":"X","txId"`, 1)), []string{`"symbol" is there twice`}, ""},
		"not JSON":         {public, sealed("hello"), []string{"no valid request"}, ""},
		"another pair":     {Reader{Key: countersigntest.NewService(t).MerchantKey(), Field: "data"}, sealed(bound), []string{"result", "try"}, ""},
		"two fields":       {public, []byte(`{"a":"` + string(sealed(bound)) + `","b":"` + string(sealed(bound)) + `"}`), []string{"no sealed body"}, ""},
		"nothing":          {public, nil, []string{"no sealed body"}, ""},
	} {
		f := c.reader.Read(c.body)
		for _, want := range c.shows {
			if !strings.Contains(f.String(), want) {
				t.Errorf("%s: %q is not in\n%s", name, want, f)
			}
		}
		var p Provider
		p.Add(f, "", "", time.Time{})
		if got := Flags(p.Settings()); c.fits != "" && got != c.fits {
			t.Errorf("%s fits %s, want %s\n%s", name, got, c.fits, f)
		}
		var settings map[string]any
		if _, err := toml.Decode(p.file([]Setting{{Name: "service-key", Value: "a\"b\x01\\é"}}, "x", time.Unix(0, 0)), &settings); err != nil {
			t.Errorf("%s: the file is no TOML: %v", name, err)
		} else if got := settings["gateway"].(map[string]any)["service-key"]; got != "a\"b\x01\\é" {
			t.Errorf("%s: the file has %q", name, got)
		}
	}
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

// TestOnePath: a provider that posts all types to one path is told so.
func TestOnePath(t *testing.T) {
	var p Provider
	for _, typ := range []countersign.Type{countersign.TypeDeposited, countersign.TypeRequestWithdraw} {
		p.Add(Finding{Opened: true, Type: typ, Binding: countersign.BindingHolds, Strict: true, Lenient: true}, "/hook", "", time.Time{})
	}
	if got := Flags(p.Settings()); got != "the defaults" || len(p.Notes()) != 1 || !strings.Contains(p.Notes()[0], "URL of its own") {
		t.Errorf("%s, %q", got, p.Notes())
	}
}

// TestStrangerTeachesNothing: a splice makes binding optional neither where bound callbacks
// were seen, nor where it comes without the API key.
func TestStrangerTeachesNothing(t *testing.T) {
	var out bytes.Buffer
	h := Handler{Reader: Reader{Key: pair().Public(), Field: "data", APIKeys: []countersign.APIKey{"right"}}, Out: &out}
	bound := plaintext(t, true)
	splice := strings.Replace(bound, `"deposit-1"`, `"deposit-2"`, 1)
	post := func(plain, key string) int {
		r, w := httptest.NewRequest(http.MethodPost, "/x", bytes.NewReader(seal(t, pair(), envelope.PKCS1v15, plain))), httptest.NewRecorder()
		r.Header.Set(merchant.DefaultHeader, key)
		h.ServeHTTP(w, r)
		return w.Code
	}
	for _, key := range []string{"wrong", ""} {
		if got := post(splice, key); got != http.StatusUnauthorized || h.provider.Calls > 0 || !strings.Contains(out.String(), "none of its headers") {
			t.Errorf("key %q: %d, after %d calls: %s", key, got, h.provider.Calls, out.String())
		}
	}
	for _, plain := range []string{splice, bound, plaintext(t, false), splice} {
		if got := post(plain, "right"); got != http.StatusOK {
			t.Fatalf("with the key: %d", got)
		}
	}
	if got := Flags(h.provider.Settings()); strings.Contains(got, "provider") || strings.Contains(got, "binding") {
		t.Errorf("where bound ones were seen: %s", got)
	}
	if notes := strings.Join(h.provider.Notes(), "\n"); !strings.Contains(notes, "1 callbacks were bound and 3 were not") {
		t.Errorf("the notes: %s", notes)
	}
}

// FuzzRead: whatever a body holds, it is explained, and nothing in it drives the
// terminal.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{``, `{"type":1}`, `{"type":1,"requestUUID":"\u001b[31m","a\u202eb":{}}`, plaintext(f, true), plaintext(f, false), "\xff", `[]`} {
		f.Add([]byte(seed))
	}
	reader := Reader{Key: pair().Public(), Field: "data"}
	f.Fuzz(func(t *testing.T, plain []byte) {
		texts := []string{reader.Read(plain).String()}
		if body, err := envelope.Seal(pair(), envelope.PKCS1v15, plain); err == nil {
			var out bytes.Buffer
			h := Handler{Reader: reader, Out: &out}
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/x", bytes.NewReader(body)))
			texts = append(texts, out.String())
		}
		for _, text := range texts {
			if strings.ContainsAny(text, "\x1b\r\x00\u202e") {
				t.Fatalf("%q", text)
			}
		}
	})
}
