package passkey_test

import (
	"errors"
	"strings"
	"testing"

	"countersign/internal/lab/passkeytest"
	"countersign/internal/passkey"
)

const page = "https://console.example:8443"

func registered(t *testing.T) (*passkeytest.Device, passkey.Key) {
	t.Helper()
	d, challenge := passkeytest.New(t, page, "console.example"), passkey.NewChallenge()
	k, err := passkey.Register(d.Create(passkey.Encode(challenge)), challenge, page)
	if err != nil {
		t.Fatal(err)
	}
	return d, k
}

func TestHostOf(t *testing.T) {
	for origin, want := range map[string]string{
		page: "console.example", "http://localhost:8091": "localhost", "https://localhost": "localhost",
		"http://console.example": "", "https://127.0.0.1:8091": "", "https://[::1]": "", "http://127.0.0.1:8091": "",
		"": "", "console.example": "", "https://a@console.example": "", "https://console.example/x": "", "ftp://console.example": "",
	} {
		if got, err := passkey.HostOf(origin); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", origin, got, err)
		}
	}
}

// TestRegister refuses what was not made for the challenge, the page and the person.
func TestRegister(t *testing.T) {
	challenge := passkey.NewChallenge()
	for name, lie := range map[string]func(d *passkeytest.Device) []byte{
		"another challenge":      func(d *passkeytest.Device) []byte { return passkey.NewChallenge() },
		"another page":           func(d *passkeytest.Device) []byte { d.Origin = "https://evil.example"; return challenge },
		"a page without TLS":     func(d *passkeytest.Device) []byte { d.Origin = "http://console.example:8443"; return challenge },
		"another port":           func(d *passkeytest.Device) []byte { d.Origin = "https://console.example:8444"; return challenge },
		"no port":                func(d *passkeytest.Device) []byte { d.Origin = "https://console.example"; return challenge },
		"another host":           func(d *passkeytest.Device) []byte { d.Host = "evil.example"; return challenge },
		"nobody looked":          func(d *passkeytest.Device) []byte { d.Flags = 0; return challenge },
		"the person not checked": func(d *passkeytest.Device) []byte { d.Flags = 1; return challenge },
	} {
		d := passkeytest.New(t, page, "console.example")
		asked := lie(d)
		if _, err := passkey.Register(d.Create(passkey.Encode(asked)), challenge, page); !errors.Is(err, passkey.ErrAssertion) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := passkey.Register([]byte("{}"), challenge, page); !errors.Is(err, passkey.ErrAssertion) {
		t.Errorf("no credential: %v", err)
	}
}

// TestEvidence: only the key's own signature of the very statement is evidence.
func TestEvidence(t *testing.T) {
	d, k := registered(t)
	other, _ := registered(t)
	text, err := passkey.Statement{Act: "order.approved", At: 5, Token: "tok_1", ID: "order-1", About: []byte(`{"amount":"1"}`)}.Text()
	if err != nil {
		t.Fatal(err)
	}
	challenge := passkey.Encode(passkey.Challenge(text))
	good, err := passkey.EvidenceOf(text, k, d.Sign(challenge))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := good.Check(); err != nil || s.ID != "order-1" || s.Token != "tok_1" || s.Act != "order.approved" || string(s.About) != `{"amount":"1"}` {
		t.Fatalf("%+v, %v", s, err)
	}
	for name, lie := range map[string]func(e *passkey.Evidence){
		"another statement": func(e *passkey.Evidence) { e.Statement = strings.Replace(text, `"1"`, `"2"`, 1) },
		"another page":      func(e *passkey.Evidence) { e.Origin = "https://evil.example" },
		"another port":      func(e *passkey.Evidence) { e.Origin = "https://console.example:8444" },
		"signed at another port": func(e *passkey.Evidence) {
			d.Origin = "https://console.example:8444"
			e.Assertion = d.Sign(challenge)
			d.Origin = page
		},
		"another key's id":       func(e *passkey.Evidence) { e.Key = "AAAA" },
		"a key that is none":     func(e *passkey.Evidence) { e.Public = "AAAA" },
		"another key signed":     func(e *passkey.Evidence) { other.ID = d.ID; e.Assertion = other.Sign(challenge) },
		"another challenge":      func(e *passkey.Evidence) { e.Assertion = d.Sign(passkey.Encode(passkey.NewChallenge())) },
		"the person not checked": func(e *passkey.Evidence) { d.Flags = 1; e.Assertion = d.Sign(challenge); d.Flags = 5 },
		"no assertion":           func(e *passkey.Evidence) { e.Assertion = []byte(`{}`) },
	} {
		e := good
		lie(&e)
		if _, err := e.Check(); !errors.Is(err, passkey.ErrAssertion) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := passkey.ReadStatement(text + " "); !errors.Is(err, passkey.ErrAssertion) {
		t.Errorf("a statement with a space: %v", err)
	}
}
