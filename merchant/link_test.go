package merchant_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// linkEnd is a merchant whose service signs.
type linkEnd struct {
	*world
	signer, merchant *envelope.SigningKey // of the service and of the merchant
	now              time.Time
	kept             []merchant.Refused
	answers          []merchant.Exchange
}

func newLinkEnd(t *testing.T, change func(*merchant.Config)) *linkEnd {
	e := &linkEnd{signer: envelope.GenerateSigningKey(), merchant: envelope.GenerateSigningKey(), now: time.Unix(1_780_000_000, 0)}
	e.world = newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.Now = func() time.Time { return e.now }
		c.Sign, c.ServiceSigner, c.PublicURL = e.merchant, e.signer.Public(), linkHost
		c.OnRefused = func(_ context.Context, r merchant.Refused) {
			r.Body = bytes.Clone(r.Body)
			e.kept = append(e.kept, r)
		}
		c.OnAnswer = func(_ context.Context, x merchant.Exchange) error {
			e.answers = append(e.answers, x)
			return nil
		}
		if change != nil {
			change(c)
		}
	})
	return e
}

const linkHost = "https://pay.shop.example"

// request is a signed request of cb, made at at.
func (e *linkEnd) request(t *testing.T, cb countersign.Callback, at time.Time) (*http.Request, []byte) {
	t.Helper()
	plain, _, err := e.service.Plaintext(cb)
	ok(t, err)
	body := must(e.service.Seal(plain))(t)
	path := merchant.DefaultNotifyPath
	if cb.CallbackType().Lane() == countersign.LaneWithdraw {
		path = merchant.DefaultWithdrawPath
	}
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Host = "pay.shop.example"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-API-KEY", e.service.CallbackAPIKey().Reveal())
	ok(t, e.signer.SignRequest(envelope.LinkRequest{Method: r.Method, URL: linkHost + path, Header: r.Header, Body: body}, plain, at))
	return r, body
}

func (e *linkEnd) post(r *http.Request) (*httptest.ResponseRecorder, countersign.Response) {
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, r)
	resp, _ := countersign.ParseResponse(w.Body.Bytes())
	return w, resp
}

// A signed request is taken and its response is signed for it; any other is refused by the
// word of PROTOCOL.md, L7, without being opened, and its refusal is signed where it has a
// signature at all.
func TestLink(t *testing.T) {
	e := newLinkEnd(t, nil)
	r, _ := e.request(t, countersigntest.Deposit(1), e.now)
	w, resp := e.post(r)
	if resp.ErrCode != 0 || e.total() != 1 {
		t.Fatalf("it says %d %s, credited %d", resp.ErrCode, resp.Message, e.total())
	}
	s, err := envelope.VerifyResponse(envelope.LinkResponse{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes(), Request: r.Header}, e.merchant.Public())
	if err != nil || !s.Created.Equal(e.now) {
		t.Errorf("its response: %v, created %v", err, s.Created)
	}
	for _, c := range []struct {
		name, word string
		change     func(*http.Request)
	}{
		{"stripped", "unsigned", func(r *http.Request) {
			for _, h := range []string{"Signature", "Signature-Input", "Content-Digest"} {
				r.Header.Del(h)
			}
		}},
		{"another label", "unsigned", func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), "countersign=", "other=", 1))
		}},
		{"another path", "signature_invalid", func(r *http.Request) {
			r.URL.RawQuery = "a=b"
		}},
		{"a parameter more", "signature_invalid", func(r *http.Request) { r.Header.Set("Signature", r.Header.Get("Signature")+";x=1") }},
		{"for another host", "signature_invalid", func(r *http.Request) {
			body := must(io.ReadAll(r.Body))(t)
			r.Host, r.Body = "other.example", io.NopCloser(bytes.NewReader(body))
			plain, _, err := envelope.OpenBlocks(e.service.MerchantKey(), envelope.PKCS1v15, body)
			ok(t, err)
			ok(t, e.signer.SignRequest(envelope.LinkRequest{Method: r.Method, URL: "https://" + r.Host + r.URL.Path, Header: r.Header, Body: body}, plain, e.now))
		}},
		{"another body", "signature_invalid", func(r *http.Request) { r.Body = http.NoBody; r.ContentLength = 0 }},
		{"by somebody else", "signature_invalid", func(r *http.Request) {
			body := []byte("AAAA")
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			ok(t, envelope.GenerateSigningKey().SignRequest(envelope.LinkRequest{Method: r.Method, URL: linkHost + r.URL.Path, Header: r.Header, Body: body}, body, e.now))
		}},
	} {
		r, _ := e.request(t, countersigntest.Deposit(2), e.now)
		c.change(r)
		w, resp := e.post(r)
		if resp.ErrCode != countersign.CodeMalformed || resp.Message != c.word || e.total() != 1 {
			t.Errorf("%s: %d %q, credited %d", c.name, resp.ErrCode, resp.Message, e.total())
		}
		if got := e.kept[len(e.kept)-1]; string(got.Reason) != c.word || got.Signed || got.Opened != nil {
			t.Errorf("%s: refused %+v", c.name, got.Reason)
		}
		if signed := envelope.Signed(w.Header()); signed != envelope.Signed(r.Header) {
			t.Errorf("%s: its refusal is signed: %v", c.name, signed)
		}
		if again := e.handler.Retry(t.Context(), e.kept[len(e.kept)-1].Body, false); again.Reason != merchant.ReasonUnsigned || e.total() != 1 {
			t.Errorf("%s: a person had it taken: %v", c.name, again.Reason)
		}
	}
}

// The signature must be over what the body opens to.
func TestLinkOtherPlaintext(t *testing.T) {
	e := newLinkEnd(t, nil)
	r, body := e.request(t, countersigntest.Deposit(1), e.now)
	ok(t, e.signer.SignRequest(envelope.LinkRequest{Method: r.Method, URL: linkHost + r.URL.Path, Header: r.Header, Body: body}, []byte("{}"), e.now))
	if _, resp := e.post(r); resp.Message != "signature_invalid" || e.total() != 0 || e.kept[0].Signed {
		t.Errorf("%q, credited %d", resp.Message, e.total())
	}
}

// An old request is refused unless it was taken before, and a person may take it.
func TestLinkOld(t *testing.T) {
	e := newLinkEnd(t, nil)
	first, body := e.request(t, countersigntest.Deposit(1), e.now)
	late, lateBody := e.request(t, countersigntest.Deposit(2), e.now)
	if _, resp := e.post(first); resp.ErrCode != 0 {
		t.Fatal(resp.Message)
	}
	e.now = e.now.Add(envelope.LinkTolerance + time.Second)
	again := first.Clone(t.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if _, resp := e.post(again); resp.ErrCode != 0 || e.total() != 1 {
		t.Errorf("what was taken before: %d %s, credited %d", resp.ErrCode, resp.Message, e.total())
	}
	if _, resp := e.post(late); resp.Message != "signature_old" || e.total() != 1 || !e.kept[0].Signed {
		t.Errorf("a new old one: %d %s, credited %d", resp.ErrCode, resp.Message, e.total())
	}
	if r := e.handler.Retry(t.Context(), lateBody, true); r.Reason != merchant.ReasonAccepted || e.total() != 2 {
		t.Errorf("by a person: %v, credited %d", r.Reason, e.total())
	}
}

// What is kept of an answer about a withdrawal verifies with the two public parts alone.
func TestLinkIsKept(t *testing.T) {
	e := newLinkEnd(t, nil)
	r, _ := e.request(t, countersigntest.Withdrawal(1), e.now)
	w, resp := e.post(r)
	if resp.ErrCode != 0 || len(e.answers) != 1 || e.answers[0].Link == nil {
		t.Fatalf("%d %s, kept %v", resp.ErrCode, resp.Message, e.answers)
	}
	x := e.answers[0]
	if w.Header().Get("Signature") != x.Link.Response.Get("Signature") {
		t.Error("another signature was sent than is kept")
	}
	s, err := envelope.VerifyResponse(envelope.LinkResponse{Status: x.Link.Status, Header: x.Link.Response, Body: w.Body.Bytes(), Request: x.Link.Request}, e.merchant.Public())
	if err != nil || s.Key.Fingerprint() != e.merchant.Fingerprint() || !s.Covers(x.DataOpened) || s.Covers(append(x.DataOpened, ' ')) {
		t.Errorf("the answer: %v", err)
	}
	if _, err := envelope.VerifyRequest(envelope.LinkRequest{Method: http.MethodPost, URL: x.Link.URL, Header: x.Link.Request, Body: x.Request}, e.signer.Public()); err != nil {
		t.Errorf("the question: %v", err)
	}
}

// Without the link nothing is looked at, and what is sent has no header more.
func TestNoLink(t *testing.T) {
	e := newLinkEnd(t, func(c *merchant.Config) { c.Sign, c.ServiceSigner = nil, nil })
	r, _ := e.request(t, countersigntest.Deposit(1), e.now)
	r.Header.Set("Signature", "countersign=:"+base64.StdEncoding.EncodeToString(make([]byte, 64))+":")
	w, resp := e.post(r)
	if resp.ErrCode != 0 {
		t.Fatal(resp.Message)
	}
	if len(w.Header()) != 2 || w.Header().Get("Content-Type") == "" || w.Header().Get("Content-Length") == "" {
		t.Errorf("headers %v", w.Header())
	}
	e = newLinkEnd(t, func(c *merchant.Config) { c.ServiceSigner = nil })
	r, _ = e.request(t, countersigntest.Deposit(1), e.now)
	r.Header.Del("Signature")
	if w, _ := e.post(r); envelope.Signed(w.Header()) {
		t.Error("the response to a request that is not signed is signed")
	}
}

func TestLinkConfig(t *testing.T) {
	key := envelope.GenerateSigningKey()
	for name, change := range map[string]func(*merchant.Config){
		"Sign is a public part":          func(c *merchant.Config) { c.Sign = key.Public() },
		"ServiceSigner is a pair":        func(c *merchant.Config) { c.ServiceSigner = key },
		"ServiceSigner is the zero key":  func(c *merchant.Config) { c.ServiceSigner = new(envelope.SigningKey) },
		"NextServiceSigner alone":        func(c *merchant.Config) { c.NextServiceSigner = key.Public() },
		"ServiceSigner without a URL":    func(c *merchant.Config) { c.ServiceSigner = key.Public() },
		"PublicURL has no host":          func(c *merchant.Config) { c.PublicURL = "/callbacks" },
		"PublicURL has a query":          func(c *merchant.Config) { c.PublicURL = "https://shop.example?a=b" },
		"PublicURL has another protocol": func(c *merchant.Config) { c.PublicURL = "ftp://shop.example" },
	} {
		c := countersigntest.NewService(t).MerchantConfig()
		c.Inbox = merchant.NewMemoryInbox()
		change(&c)
		if _, err := merchant.New(c); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
