package envelope

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSigningKeyForms(t *testing.T) {
	k := GenerateSigningKey()
	pair := must(k.PrivatePEM())(t)
	for _, c := range []struct {
		name, text string
		private    bool
	}{
		{"Base64", k.PublicBase64(), false},
		{"Base64 and a line end", " " + k.PublicBase64() + "\r\n", false},
		{"PEM", pemOf("PUBLIC KEY", k.parts().spki), false},
		{"pair", string(pair), true},
	} {
		got, err := ParseSigningKey([]byte(c.text))
		if err != nil || got.Fingerprint() != k.Fingerprint() || got.HasPrivate() != c.private {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
	rsa := key1024(t)
	rsaPair := must(rsa.PrivatePEM())(t)
	for name, text := range map[string]string{
		"nothing": " ", "words": "an Ed25519 key", "RSA": rsa.PublicBase64(), "an RSA pair": string(rsaPair), "more behind it": string(pair) + "x",
		"a cut one": k.PublicBase64()[:40], "the pair in Base64": strings.Join(strings.Split(string(pair), "\n")[1:2], ""),
		"the label of a pair": pemOf("PRIVATE KEY", k.parts().spki), "the 32 bytes alone": base64.StdEncoding.EncodeToString(k.parts().public),
	} {
		got, err := ParseSigningKey([]byte(text))
		if !errors.Is(err, ErrSigningKey) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if err != nil && len(text) > 20 && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error repeats the data", name)
		}
	}
	if _, err := ParseKey([]byte(k.PublicBase64())); !errors.Is(err, ErrKey) {
		t.Errorf("ParseKey takes an Ed25519 key: %v", err)
	}
}

// No way of printing shows the private part.
func TestSigningKeyIsHidden(t *testing.T) {
	k := GenerateSigningKey()
	seed := k.parts().private.(ed25519.PrivateKey).Seed()
	object := must(json.Marshal(map[string]any{"key": k, "value": *k}))(t)
	text := string(object)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		text += fmt.Sprintf(verb+verb, k, *k) + fmt.Sprintf(verb, struct{ k *SigningKey }{k})
	}
	for _, secret := range []string{fmt.Sprintf("%x", seed), fmt.Sprintf("%d", seed), base64.StdEncoding.EncodeToString(seed)} {
		if strings.Contains(text, secret[:12]) {
			t.Errorf("it prints the private part: %s", text)
		}
	}
	var none *SigningKey
	if none.Fingerprint() != "" || none.HasPrivate() || none.Public().HasPrivate() || (SigningKey{}).String() == "" {
		t.Error("the zero key is one")
	}
	if err := none.SignRequest(LinkRequest{Header: http.Header{}}, nil, time.Now()); !errors.Is(err, ErrSigningKey) {
		t.Errorf("no key signs: %v", err)
	}
}

func TestTargetURI(t *testing.T) {
	for raw, want := range map[string]string{
		"https://Shop.Example:443":            "https://shop.example/",
		"HTTP://shop.example:80/a?b=%20#c":    "http://shop.example/a?b=%20",
		"https://shop.example:8443/callbacks": "https://shop.example:8443/callbacks",
		"http://[::1]:443/x%2Fy":              "http://[::1]:443/x%2Fy",
	} {
		u := must(url.Parse(raw))(t)
		if got := TargetURI(u); got != want {
			t.Errorf("%s: %s, not %s", raw, got, want)
		}
	}
}

// A value that is verified again from a file cannot stand for two components.
func TestControlCharactersAreNotSigned(t *testing.T) {
	k := GenerateSigningKey()
	h := http.Header{"Content-Type": {"text/plain\n\"@method\": GET"}}
	r := LinkRequest{Method: "POST", URL: "https://shop.example/", Header: h}
	if err := k.SignRequest(r, nil, time.Now()); err == nil {
		t.Error("a line end in a header is signed")
	}
}

// Nothing but the message that was signed is verified: one changed character anywhere
// ends it.
func TestLinkRefusesEveryChange(t *testing.T) {
	service, merchant := GenerateSigningKey(), GenerateSigningKey()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "at"), 0)
		body, plain := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "body"), rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		request := LinkRequest{Method: "POST", URL: "https://shop.example/callbacks/notify", Header: http.Header{"Content-Type": {"text/plain"}}, Body: body}
		ok(t, service.SignRequest(request, plain, at))
		response := LinkResponse{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: request.Header}
		ok(t, merchant.SignResponse(response, plain, at))
		check := func() bool {
			s, err := VerifyRequest(request, service)
			if err != nil || !s.Created.Equal(at) || !s.Covers(plain) {
				return false
			}
			s, err = VerifyResponse(response, merchant)
			return err == nil && s.Created.Equal(at) && s.Covers(plain)
		}
		if !check() {
			t.Fatal("what was signed is refused")
		}
		change := func(s string) string {
			b := []byte(s)
			n := rapid.IntRange(0, len(b)-1).Draw(t, "place")
			b[n] ^= 1 << rapid.IntRange(0, 6).Draw(t, "bit")
			return string(b)
		}
		message := request.Header
		if rapid.Bool().Draw(t, "response") {
			message = response.Header
		}
		name := rapid.SampledFrom([]string{"Content-Type", HeaderDigest, HeaderSignatureInput, HeaderSignature}).Draw(t, "header")
		was := message.Get(name)
		now := change(was) // no flipped bit makes white space, which does not count
		message.Set(name, now)
		if check() {
			t.Fatalf("%s is taken with %q for %q", name, now, was)
		}
	})
}

// FuzzLinkHeaders: no header makes the reader of signatures panic, or is taken.
func FuzzLinkHeaders(f *testing.F) {
	k := GenerateSigningKey()
	h := http.Header{"Content-Type": {"text/plain"}}
	r := LinkRequest{Method: "POST", URL: "https://shop.example/", Header: h, Body: []byte("x")}
	ok(f, k.SignRequest(r, []byte("y"), time.Unix(1, 0)))
	f.Add(h.Get(HeaderDigest), h.Get(HeaderSignatureInput), h.Get(HeaderSignature))
	f.Add("sha-256", "countersign=()", "countersign")
	f.Add("sha-256=1;opened=2", `countersign=("@method");created=@1`, "countersign=(:AA==:)")
	f.Fuzz(func(t *testing.T, digest, input, signature string) {
		r := LinkRequest{Method: "POST", URL: "https://shop.example/", Body: []byte("z"),
			Header: http.Header{"Content-Type": {"text/plain"}, HeaderDigest: {digest}, HeaderSignatureInput: {input}, HeaderSignature: {signature}}}
		if _, err := VerifyRequest(r, k); err == nil {
			t.Fatal("a signature of another body is taken")
		}
		_, _ = VerifyResponse(LinkResponse{Status: 200, Header: r.Header, Body: r.Body, Request: r.Header}, k)
		Signed(r.Header)
	})
}

func BenchmarkLink(b *testing.B) {
	service, merchant := GenerateSigningKey(), GenerateSigningKey()
	body, plain := []byte(strings.Repeat("x", 856)), []byte(strings.Repeat("y", 475))
	now := time.Now()
	request := LinkRequest{Method: "POST", URL: "https://shop.example/callbacks/notify", Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: body}
	response := LinkResponse{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: request.Header}
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(service.SignRequest(request, plain, now))
	must(merchant.SignResponse(response, plain, now))
	b.Run("sign", func(b *testing.B) {
		for b.Loop() {
			must(service.SignRequest(request, plain, now))
		}
	})
	must(merchant.SignResponse(response, plain, now))
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			_, err := VerifyResponse(response, merchant)
			must(err)
		}
	})
}
