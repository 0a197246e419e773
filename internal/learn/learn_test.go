package learn

import (
	"bytes"
	"context"
	"fmt"
	"io"
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
	if got := Flags(p.Settings()); got != "--notify-path /hook" || len(p.Notes()) != 1 || !strings.Contains(p.Notes()[0], "URL of its own") {
		t.Errorf("%s, %q", got, p.Notes())
	}
	if got := p.Summary(); !strings.Contains(got, "1 of 2 callbacks would be refused:\n  1  type 2: it comes to the URL of the other types, /hook\n") {
		t.Error(got)
	}
	if got := p.Note(time.Unix(0, 0)); !strings.Contains(got, "go to a URL of their own") {
		t.Error(got)
	}
}

// TestSummary: how many callbacks the gateway would refuse with what fits, each once however
// often it came; what no setting mends is in the note to the provider, and no value but
// identifiers is.
func TestSummary(t *testing.T) {
	var out bytes.Buffer
	h := Handler{Reader: Reader{Key: pair().Public(), Field: "data"}, Out: &out}
	post := func(path, plain string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(seal(t, pair(), envelope.PKCS1v15, plain))))
	}
	deposit := func(id string) string {
		return strings.Replace(plaintext(t, false), `"deposit-1"`, `"`+id+`"`, 1)
	}
	const notify, withdraw = merchant.DefaultNotifyPath, merchant.DefaultWithdrawPath
	for range 3 {
		post(notify, deposit("good"))
		post(notify, strings.Replace(deposit("bad-1"), `"txId"`, `"txHash"`, 1))
		post(notify, strings.NewReplacer(`"txId"`, `"txHash"`, `"60001"`, `"S3CRET",2:3`).Replace(deposit("not JSON")))
	}
	post(notify, strings.Replace(deposit("bad-2\x1b[31m"), `"txId"`, `"txHash"`, 1)) // no JSON: a control character
	post(notify, strings.Replace(deposit(`bad-2\u001b[31m`), `"txId"`, `"txHash"`, 1))
	post(withdraw, `{"type":2,"callBackId":"w-1","requestUUID":"7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"}`)
	post(notify, `{"type":9,"requestUUID":"7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"}`)
	l := h.Learned(nil, "")
	for _, want := range []string{
		"7 of 9 callbacks would be refused:\n", "  2  type 1: member \"txId\" is missing (bad-1, bad-2?[31m)\n", "  1  type 9: unknown callback type: 9\n",
	} {
		if !strings.Contains(l.Summary, want) {
			t.Errorf("%q is not in\n%s", want, l.Summary)
		}
	}
	if !strings.Contains(l.File, "\n# 7 of 9 callbacks would be refused:\n#   3  ") {
		t.Error(l.File)
	}
	if !strings.Contains(out.String(), "so far     0 of 1 would be refused\n") || !strings.HasSuffix(strings.TrimSpace(out.String()[:strings.LastIndex(out.String(), "form ")]), "so far     7 of 9 would be refused") {
		t.Error(out.String())
	}
	for _, want := range []string{
		NoteMark, "we had received 9 different callbacks from you. Our end must refuse 7 of them.", "member \"txId\" is missing.\n   Such as: (bad-1, bad-2?[31m)\n",
		"The interface: txId is a text, and every callback of type 1 has it.\n", "Example of a whole callback of type 1", "type is a number from 1 to 7",
	} {
		if !strings.Contains(l.Note, want) {
			t.Errorf("%q is not in\n%s", want, l.Note)
		}
	}
	for _, text := range []string{out.String(), l.Summary, l.Note, l.File} {
		for _, value := range []string{"\x1b", "60001", "S3CRET"} {
			if strings.Contains(text, value) {
				t.Errorf("%q is in\n%s", value, text)
			}
		}
	}
}

// TestMixed: what differs from what one setting says for all callbacks would be refused, and
// a body that does not open, too.
func TestMixed(t *testing.T) {
	r := Reader{Key: pair().Public(), Field: "data"}
	read := func(bound bool, id string) Finding {
		return r.Read(seal(t, pair(), envelope.PKCS1v15, strings.Replace(plaintext(t, bound), `"deposit-1"`, `"`+id+`"`, 1)))
	}
	bound := r.Read(seal(t, pair(), envelope.PKCS1v15, plaintext(t, true)))
	for name, c := range map[string]struct {
		add  func(*Provider)
		want string
	}{
		"paths": {func(p *Provider) {
			p.Add(read(false, "a"), "/a", "", time.Time{})
			p.Add(read(false, "b"), "/b", "", time.Time{})
		}, "1 of 2 callbacks would be refused:\n  1  type 1: it comes to /a, others of its kind to /b (a)\n"},
		"headers": {func(p *Provider) {
			p.Add(read(false, "a"), "/b", "A", time.Time{})
			p.Add(read(false, "b"), "/b", "B", time.Time{})
		}, "in the header A, that of others in B (a)\n"},
		"fields": {func(p *Provider) {
			for _, f := range []string{"a", "b"} {
				p.Add(r.Read([]byte(f+"="+queryEscape(string(seal(t, pair(), envelope.PKCS1v15, plaintext(t, true)))))), "/b", "", time.Time{})
				p.attempts["1 x"+f] = p.attempts["1 deposit-1"]
			}
		}, "its body is in a, that of others in b"},
		"binding": {func(p *Provider) { p.Add(bound, "/b", "", time.Time{}); p.Add(read(false, "b"), "/b", "", time.Time{}) }, "1 of 2 callbacks would be refused:\n  1  type 1: its requestUUID is not bound to it, as that of 1 others is: it may be forged (b)\n"},
		"no seal": {func(p *Provider) {
			p.Add(bound, "/b", "", time.Time{})
			p.Add(r.Read([]byte("AAAA")), "/b", "", time.Time{})
		}, "1 of 2 callbacks would be refused:\n  1  does not open: "},
		"none": {func(p *Provider) { p.Add(bound, "/b", "", time.Time{}) }, "0 of 1 callbacks would be refused\n"},
	} {
		var p Provider
		c.add(&p)
		if got := p.Summary(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
		if note := p.Note(time.Time{}); (note != "") != (name == "paths" || name == "headers" || name == "fields") {
			t.Errorf("%s: the note is %q", name, note)
		}
	}
}

// TestExamples: the example of each type is a callback of the interface, so a provider that
// sends it is right.
func TestExamples(t *testing.T) {
	for _, typ := range countersign.TypeUnknown.Values() {
		example := exampleOf(typ)
		cb, err := countersign.ParseCallback([]byte(example), countersign.ParseOptions{})
		if err != nil || cb.CallbackType() != typ {
			t.Errorf("%d: %s: %v", typ, example, err)
		}
		for _, m := range exampleMembers(typ) {
			if m.kind == "" || m.kind == "null" && m.name != "trackingId" {
				t.Errorf("%d: %s is %q", typ, m.name, m.kind)
			}
		}
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

// TestURLSafeOnly: six bodies in the URL alphabet have one cause, which the note tells the provider.
func TestURLSafeOnly(t *testing.T) {
	var out bytes.Buffer
	h := &Handler{Reader: Reader{Key: pair().Public(), Field: "data"}, Out: &out}
	for n := range 6 {
		d := *countersigntest.Deposit(n)
		d.RequestUUID = countersign.UnboundUUID
		plain, err := d.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		body := strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(string(seal(t, pair(), envelope.PKCS1v15, string(plain))))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
	}
	zipped := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("\x1f\x8b\x08"))
	zipped.Header.Set("Content-Encoding", "gzip")
	h.ServeHTTP(httptest.NewRecorder(), zipped)
	got := h.Learned(nil, "")
	if strings.Count(got.Summary, "\n") != 3 || !strings.Contains(got.Summary, "  6  does not open") {
		t.Errorf("%s", got.Summary)
	}
	for _, want := range []string{"Seen in 6 of 7", "URL alphabet", "with + and / and padding", "Seen in 1 of 7", "says gzip"} {
		if !strings.Contains(got.Note, want) {
			t.Errorf("%q is not in the note:\n%s", want, got.Note)
		}
	}
	if strings.Contains(out.String(), "OAEP") || strings.Contains(out.String(), "--service-key") {
		t.Errorf("%s", &out)
	}
}

// TestStrayCallback: one callback that is not as the others does not become the setting, in
// whatever order they come, and the provider is asked to mend that one alone.
func TestStrayCallback(t *testing.T) {
	r := Reader{Key: pair().Public(), Field: "data"}
	for last := range 7 {
		var p Provider
		for n := range 7 {
			body := seal(t, pair(), envelope.PKCS1v15, strings.Replace(plaintext(t, true), `"deposit-1"`, fmt.Sprintf(`"d-%d"`, n), 1))
			path, header, field := "/usual", "X-Usual", "usual"
			if n == last {
				path, header, field = "/stray", "X-Stray", "stray"
			}
			p.Add(r.Read([]byte(field+"="+queryEscape(string(body)))), path, header, time.Time{})
		}
		if flags := Flags(p.Settings()); !strings.Contains(flags, "/usual") || !strings.Contains(flags, "X-Usual") || !strings.Contains(flags, "body-field usual") || strings.Contains(strings.ToLower(flags), "stray") {
			t.Errorf("stray number %d: %s", last, flags)
		}
		if got := p.Summary(); !strings.HasPrefix(got, "1 of 7 callbacks would be refused") {
			t.Errorf("stray number %d: %s", last, got)
		}
	}
}

// TestUncheckedHeader: where no API key is given, the summary names the headers that may carry it.
func TestUncheckedHeader(t *testing.T) {
	h := &Handler{Reader: Reader{Key: pair().Public(), Field: "data"}, Out: io.Discard}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(seal(t, pair(), envelope.PKCS1v15, plaintext(t, true))))
		r.Header.Set("X-Api-Key", "secret")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	got := h.Learned(nil, "")
	if !strings.Contains(got.Summary, "2 had the header X-Api-Key, which the gateway will not check") || !strings.Contains(got.File, "X-Api-Key") || strings.Contains(got.Summary+got.File, "secret") {
		t.Errorf("%s\n%s", got.Summary, got.File)
	}
}

// TestRemembers: what came while it learned cannot be joined when the settings are right.
func TestRemembers(t *testing.T) {
	s, err := countersigntest.MakeService(countersigntest.ServiceConfig{Key: pair(), Unbound: true})
	if err != nil {
		t.Fatal(err)
	}
	c := s.MerchantConfig()
	inbox := merchant.NewMemoryInbox()
	c.Inbox = inbox
	h := &Handler{Reader: Reader{Key: pair().Public(), Field: "data"}, Out: io.Discard, Remember: func(ctx context.Context, b *merchant.Blocks) error {
		return inbox.Remember(ctx, merchant.Entry{Blocks: b})
	}}
	var bodies [][]byte
	for n := range 2 {
		body, _, err := s.Body(countersigntest.Deposit(n + 1))
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
	}
	join, err := countersigntest.Splice(bodies[0], bodies[1], 2, pair().Size())
	if err != nil {
		t.Fatal(err)
	}
	end, err := merchant.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for i, body := range [][]byte{join, bodies[0], bodies[1]} {
		resp, err := countersign.ParseResponse(s.Post(t.Context(), countersigntest.ToHandler(end), merchant.DefaultNotifyPath, body).Raw)
		if err != nil || (resp.ErrCode == countersign.CodeAccepted) != (i > 0) {
			t.Errorf("body %d: errCode %d, %v", i, resp.ErrCode, err)
		}
	}
}
