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
	"testing"

	"github.com/BurntSushi/toml"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// TestLearn: what comes while the gateway learns is kept and summed up, and nothing is booked. What
// came without the API key teaches nothing. With the right settings afterwards the same bodies are
// taken, and parts of them joined are not.
func TestLearn(t *testing.T) {
	eachUnbound(t, func(c *Config) { c.Learn = true }, func(t *testing.T, r *rig) {
		bodies := [][]byte{r.body(countersigntest.Deposit(1)), r.body(countersigntest.Deposit(2))}
		for _, body := range slices.Concat(bodies, bodies) {
			if resp := must(countersign.ParseResponse(r.service.Post(t.Context(), r.to, "/odd", body).Raw))(t); resp.ErrCode != countersign.CodeInternal || !r.service.APIKey().Equal(resp.APIKey) {
				t.Fatalf("%+v", resp)
			}
		}
		for _, key := range []string{"wrong", ""} {
			w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/odd", bytes.NewReader(bodies[0]))
			req.Header.Set(merchant.DefaultHeader, key)
			if r.Callbacks().ServeHTTP(w, req); w.Code != http.StatusUnauthorized {
				t.Errorf("key %q: %d", key, w.Code)
			}
		}
		list := r.allRefused(2)
		if one := list[0]; one.Reason != client.RefusalLearning || one.Number != 2 || !one.Opened || one.CallbackID != "deposit-2" {
			t.Errorf("%+v", one)
		}
		if st, err := r.book.Stats(t.Context()); err != nil || st.Deposits != 0 {
			t.Errorf("%+v, %v", st, err)
		}
		learned, err := client.Get[client.Learned](t.Context(), r.client, "/v1/refused/learned")
		if err != nil || learned.Note != "" {
			t.Errorf("%+v, %v", learned, err)
		}
		wants(t, learned.Settings, "2 callbacks, of which 0 would be refused", "notify-path = \"/odd\"", "provider = \"other\"")
		// A dismissed one counts no more.
		must(r.client.DismissRefused(t.Context(), list[0].ID, ""))(t)
		if learned, err = client.Get[client.Learned](t.Context(), r.client, "/v1/refused/learned"); err != nil || !strings.Contains(learned.Settings, "1 callbacks, of") {
			t.Errorf("%+v, %v", learned, err)
		}
		after := newRigOn(t, r.db, r.service, nil)
		for i, body := range [][]byte{r.splice(bodies[0], bodies[1], 2), bodies[0], bodies[1]} {
			if code := after.posted(merchant.DefaultNotifyPath, body); (code == countersign.CodeAccepted) != (i > 0) {
				t.Errorf("body %d: errCode %d", i, code)
			}
		}
	})
}

func seal(t testing.TB, key *envelope.Key, p envelope.Padding, plain string) []byte {
	t.Helper()
	return must(envelope.Seal(key, p, []byte(plain)))(t)
}

func sealed(t testing.TB, plain string) []byte { return seal(t, testPair(), envelope.PKCS1v15, plain) }

// plaintext is a deposit, bound or not.
func plaintext(t testing.TB, bound bool) string {
	t.Helper()
	d := *countersigntest.Deposit(1)
	d.RequestUUID = countersign.UnboundUUID
	b, err := d.Marshal()
	if err == nil && bound {
		b, _, err = countersign.Bind(b, [6]byte{1})
	}
	ok(t, err)
	if !bound {
		b = bytes.Replace(b, []byte(countersign.UnboundUUID), []byte("7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"), 1)
	}
	return string(b)
}

// field is a body in a form field.
func field(name string, body []byte) []byte {
	return []byte(name + "=" + strings.NewReplacer("+", "%2B", "/", "%2F", "=", "%3D").Replace(string(body)))
}

func urlSafe(body []byte) []byte {
	return []byte(strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(string(body)))
}

// publicReader reads with the public part, as a merchant has it.
func publicReader() CallbackReader { return CallbackReader{Key: testPair().Public(), Field: "data"} }

// TestFits: what each body shows, and the settings that fit it.
func TestFits(t *testing.T) {
	public, private := publicReader(), CallbackReader{Key: testPair(), Field: "data"}
	oaepField := CallbackReader{Key: testPair(), Padding: envelope.OAEP, Field: "msg"}
	other := CallbackReader{Key: countersigntest.NewService(t).MerchantKey(), Field: "data"}
	bound, unbound := plaintext(t, true), plaintext(t, false)
	lenient, _, err := countersign.Bind([]byte(strings.Replace(unbound, `"60001"`, `60001`, 1)), [6]byte{2})
	ok(t, err)
	right, oaep := sealed(t, bound), seal(t, testPair().Public(), envelope.OAEP, bound)
	const note = "sealed blocks in standard Base64, with + and / and padding, and nothing else"
	for name, c := range map[string]struct {
		reader CallbackReader
		body   []byte
		shows  string
		fits   string
		note   string // what the provider must change
	}{
		"as the interface": {public, right, "bare Base64", "the defaults", ""},
		"not bound":        {public, sealed(t, unbound), "binding    absent", "--provider other", ""},
		"bound to others": {public, sealed(t, strings.Replace(bound, `"deposit-1"`, `"deposit-2"`, 1)), "binding    broken",
			"--binding off --provider other", ""},
		"bound, otherwise": {public, sealed(t, string(lenient)), `member "tenantUserId" is not a string`, "--lenient", ""},
		"form field":       {public, field("msg", right), "form field, in msg", "--body-field msg", ""},
		"data field":       {public, field("data", right), ", form field\n", "the defaults", ""},
		"OAEP":             {private, oaep, "the private part opens OAEP blocks", "--oaep", ""},
		"as it is set":     {oaepField, field("msg", oaep), "form field, in msg", "--body-field msg --oaep", ""},
		"no transaction": {public, sealed(t, strings.Replace(unbound, `"txId"`, `"txid"`, 1)), `member "txId" is missing; no setting changes that`,
			"--provider other", `member "txId" is missing`},
		"twice":           {public, sealed(t, strings.Replace(unbound, `"txId"`, `"symbol":"X","txId"`, 1)), `"symbol" occurs twice`, "", "occurs twice"},
		"not JSON":        {public, sealed(t, "hello"), "refused    ", "", "type 0"},
		"another pair":    {other, right, "try", "the defaults", ""},
		"two fields":      {public, fmt.Appendf(nil, `{"a":"%s","b":"%[1]s"}`, right), "result     body: not a known body form", "the defaults", "not a known body form"},
		"nothing":         {public, nil, "result     body: nothing there", "the defaults", "nothing there"},
		"gzip":            {public, append([]byte("\x1f\x8b\x08"), right...), "result", "the defaults", "it is compressed: the sender must send it as it is"},
		"byte order mark": {public, append([]byte("\uFEFF"), right...), "result", "the defaults", "byte order mark (EF BB BF): the sender must leave that out"},
		"multipart": {public, fmt.Appendf(nil, "--x\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\n%s\r\n--x--\r\n", right), "result",
			"the defaults", "it is multipart/form-data: the sender must post the bare Base64"},
		"URL alphabet": {public, urlSafe(right), "result", "the defaults", "URL alphabet"},
		"no padding":   {public, bytes.TrimRight(right, "="), "result", "the defaults", "padding is missing"},
	} {
		f := c.reader.Read(c.body)
		if !strings.Contains(f.String(), c.shows) {
			t.Errorf("%s: %q is not in\n%s", name, c.shows, f)
		}
		if got := fits([]Finding{f}); c.fits != "" && got != c.fits {
			t.Errorf("%s fits %s, want %s\n%s", name, got, c.fits, f)
		}
		f.Path = "/a\"b\x01\\é"
		got := sumUp([]Finding{f})
		if (got.Note != "") != (c.note != "") || !strings.Contains(got.Note, c.note) || c.note != "" && !strings.Contains(got.Note, note) {
			t.Errorf("%s: the note to the provider is %q, want %q", name, got.Note, c.note)
		}
		var settings map[string]any
		if _, err := toml.Decode(got.Settings, &settings); err != nil {
			t.Errorf("%s: the file is no TOML: %v", name, err)
		} else if got := settings["gateway"].(map[string]any)["notify-path"]; f.Type == countersign.TypeDeposited && got != f.Path {
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

// came is what a callback shows that came to a path.
func came(t testing.TB, path, plain string) Finding {
	t.Helper()
	return publicReader().Seen(sealed(t, plain), []client.Fact{{Member: factPath, Came: path}})
}

// deposit is one of a provider that does not bind.
func deposit(t testing.TB, id string) string {
	return strings.Replace(plaintext(t, false), `"deposit-1"`, `"`+id+`"`, 1)
}

// wants looks for texts, and for values that must not be there.
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

// TestSumUp: how many callbacks the gateway would refuse with what fits, and why. What may be forged, or may be the fault
// of a key here, is not in the note to the provider. No value but identifiers is said.
func TestSumUp(t *testing.T) {
	const notify, withdraw = merchant.DefaultNotifyPath, merchant.DefaultWithdrawPath
	bound := came(t, "/b", plaintext(t, true))
	with := func(header string) Finding { s := came(t, "/b", deposit(t, "a")); s.APIKey = header; return s }
	in := func(name string) Finding {
		return publicReader().Seen(field(name, sealed(t, plaintext(t, true))), []client.Fact{{Member: factPath, Came: "/b"}})
	}
	onePath := func(typ countersign.Type) Finding {
		return Finding{Type: typ, Binding: countersign.BindingHolds, Path: "/hook"}
	}
	splice := came(t, notify, strings.Replace(plaintext(t, true), `"deposit-1"`, `"deposit-2"`, 1))
	noTx := func(id string) Finding {
		return came(t, notify, strings.Replace(deposit(t, id), `"txId"`, `"txHash"`, 1))
	}
	var urls []Finding
	for n := range 6 { // one cause
		urls = append(urls, publicReader().Seen(urlSafe(sealed(t, deposit(t, fmt.Sprint("d-", n)))), nil))
	}
	for name, c := range map[string]struct {
		list  []Finding
		wants []string // in the settings
		lacks string
		note  []string // empty: there is none
	}{
		"none":    {[]Finding{bound}, []string{"1 callbacks, of which 0 would be refused.\n"}, "type 1", nil},
		"paths":   {[]Finding{came(t, "/a", deposit(t, "a")), came(t, "/b", deposit(t, "b"))}, []string{"type 1: its path is /a, that of others /b (such as a)\n"}, "withdraw-path", []string{"its path is /a"}},
		"headers": {[]Finding{with("A"), with("B")}, []string{"its header of the API key is A, that of others B (such as a)\n"}, "S3CRET", []string{"header of the API key"}},
		"fields":  {[]Finding{in("a"), in("b")}, []string{"its field of the body is a, that of others b"}, "S3CRET", []string{"field of the body"}},
		"binding": {[]Finding{bound, came(t, "/b", deposit(t, "b"))}, []string{"type 1: its requestUUID is not bound to it, as that of 1 others is: it may be forged (such as b)\n"}, "provider =", nil},
		"no seal": {[]Finding{bound, publicReader().Seen([]byte("AAAA"), nil)}, []string{"#   1  does not open: "}, "oaep", nil},
		// One that is not bound makes binding optional only where no bound one came.
		"bound and not": {[]Finding{splice, came(t, notify, plaintext(t, true)), came(t, notify, plaintext(t, false)), splice},
			[]string{"not bound to it, as that of 1 others is"}, "binding =", nil},
		"one path": {[]Finding{onePath(countersign.TypeDeposited), onePath(countersign.TypeRequestWithdraw)},
			[]string{"2 callbacks, of which 1 would be refused.\n#   1  type 2: its path is that of the other types, /hook\n", "notify-path = \"/hook\"\n"},
			"withdraw-path", []string{"go to a URL of their own"}},
		"URL alphabet": {append(urls, publicReader().Read([]byte("\x1f\x8b\x08"))), []string{"#   6  does not open", "URL alphabet", "#   1  does not open"},
			"body-field", []string{"Seen in 6 of 7", "URL alphabet", "with + and / and padding", "Seen in 1 of 7", "not\ncompressed"}},
		"several": {[]Finding{
			came(t, notify, deposit(t, "good")), noTx("bad-1"),
			came(t, notify, strings.NewReplacer(`"txId"`, `"txHash"`, `"60001"`, `"S3CRET",2:3`).Replace(deposit(t, "not JSON"))),
			noTx("bad-2\x1b[31m"), // no JSON: a control character
			noTx(`bad-2\u001b[31m`),
			came(t, withdraw, `{"type":2,"callBackId":"w-1","requestUUID":"7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"}`),
			came(t, notify, `{"type":9,"requestUUID":"7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"}`),
		}, []string{"# What this provider does: 7 callbacks, of which 5 would be refused.\n#   2  type 1: member \"txId\" is missing (such as bad-1, bad-2?[31m)\n",
			"#   1  type 9: unknown callback type: 9\n", "provider = \"other\"\n"}, "lenient",
			[]string{"We received 7 different callbacks from you, and our end must refuse 5 of them.",
				"Seen in 2 of 7 callbacks: type 1: member \"txId\" is missing (such as bad-1, bad-2?[31m).\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := sumUp(c.list)
			wants(t, got.Settings, c.wants...)
			wants(t, got.Note, c.note...)
			if strings.Contains(got.Settings, c.lacks) || (got.Note != "") != (c.note != nil) {
				t.Errorf("%s\nnote: %q", got.Settings, got.Note)
			}
		})
	}
}

// TestStrayCallback: one callback that is not as the others does not become the setting, in
// whatever order they come, and the provider is asked to mend that one alone.
func TestStrayCallback(t *testing.T) {
	for last := range 7 {
		var list []Finding
		for n := range 7 {
			is := "usual"
			if n == last {
				is = "stray"
			}
			body := field(is, sealed(t, strings.Replace(plaintext(t, true), `"deposit-1"`, fmt.Sprintf(`"d-%d"`, n), 1)))
			list = append(list, publicReader().Seen(body, []client.Fact{{Member: factPath, Came: "/" + is}, {Member: factHeader, Came: "X-" + is}}))
		}
		if got := fits(list); got != "--api-key-header X-usual --binding off --body-field usual --notify-path /usual --provider other" {
			t.Errorf("stray number %d: %s", last, got)
		}
		wants(t, sumUp(list).Settings, "7 callbacks, of which 1 would be refused", "its path is /stray, that of others /usual (such as d-"+fmt.Sprint(last)+")")
	}
}

// TestRequestFacts: the name of the header with the API key is kept, and no value.
func TestRequestFacts(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/x", nil)
	r.Header.Set("X-Api-Key", "S3CRET")
	r.Header.Set("Accept", "x")
	for key, header := range map[countersign.APIKey]string{"S3CRET": "X-Api-Key", "other": ""} {
		facts, known := requestFacts(r, []countersign.APIKey{key})
		s := publicReader().Seen(sealed(t, plaintext(t, true)), facts)
		wants(t, fmt.Sprint(facts))
		if s.Path != "/x" || known != (header != "") || s.APIKey != header {
			t.Errorf("key %s: %+v", key.Reveal(), facts)
		}
	}
}

// FuzzRead: whatever a body holds, it is explained, and nothing in it drives the
// terminal.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{``, `{"type":1}`, `{"type":1,"requestUUID":"\u001b[31m","a\u202eb":{}}`, plaintext(f, true), plaintext(f, false), "\xff", `[]`} {
		f.Add([]byte(seed))
	}
	reader := publicReader()
	f.Fuzz(func(t *testing.T, plain []byte) {
		texts := []string{reader.Read(plain).String()}
		if body, err := envelope.Seal(testPair(), envelope.PKCS1v15, plain); err == nil {
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

// TestShower: what came is shown, also where it did not arrive whole or the response breaks off; no secret and no control
// character is.
func TestShower(t *testing.T) {
	s := countersigntest.NewService(t)
	fault := countersigntest.NoMerchantFault
	m := must(countersigntest.MakeMerchant(countersigntest.MerchantConfig{Key: s.MerchantKey(), APIKey: s.APIKey(), CallbackAPIKey: s.CallbackAPIKey(),
		Fault: func(int, countersign.Callback) countersigntest.MerchantFault { return fault }}))(t)
	var out bytes.Buffer
	server := httptest.NewServer(&Shower{CallbackReader: CallbackReader{Key: s.MerchantKey()}, Next: m, Out: &out})
	to := countersigntest.ToURLs(server.URL+merchant.DefaultNotifyPath, server.URL+merchant.DefaultWithdrawPath, nil)
	if r := s.Deliver(t.Context(), to, countersigntest.Deposit(1)); r.Err != nil {
		t.Error(r.Err)
	}
	s.Deliver(t.Context(), to, countersigntest.Withdrawal(1))
	fault = countersigntest.FaultAnswerLost
	s.Deliver(t.Context(), to, countersigntest.Deposit(2))
	for _, hostile := range []string{"", "\x1b[31mred", strings.Repeat("A", envelope.MaxBody+1), `{"data":"\u001b"}`} {
		resp := must(http.Post(server.URL+"/callbacks/%1b%5bnotify", "text/plain", strings.NewReader(hostile)))(t)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("it was taken")
		}
	}
	server.Close() // after which nothing writes
	m.Close()
	for _, text := range []string{`callback 1: POST "/callbacks/notify"`, "block 0", "binding    holds", `callback 2: POST "/callbacks/withdraw"`,
		"callback 3: ", "its body did not arrive"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is not shown:\n%s", text, &out)
		}
	}
	for _, secret := range []string{s.APIKey().Reveal(), s.CallbackAPIKey().Reveal(), s.MerchantKey().PublicBase64(), "\x1b"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is shown:\n%s", secret, &out)
		}
	}
}
