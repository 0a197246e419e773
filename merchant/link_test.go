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
	*merchant.Handler
	s        *countersigntest.Service
	service  *envelope.SigningKey
	merchant *envelope.SigningKey
	now      time.Time
	credited int
	refused  []merchant.Refused
	answers  []merchant.Exchange
}

func newLinkEnd(t *testing.T, change func(*merchant.Config)) *linkEnd {
	e := &linkEnd{s: countersigntest.NewService(t), service: envelope.GenerateSigningKey(), merchant: envelope.GenerateSigningKey(), now: time.Unix(1_780_000_000, 0)}
	c := e.s.MerchantConfig()
	c.Inbox = merchant.NewMemoryInbox()
	c.Now = func() time.Time { return e.now }
	c.Sign, c.ServiceSigner, c.PublicURL = e.merchant, e.service.Public(), linkHost
	c.OnDeposit = func(context.Context, merchant.Deposit) error { e.credited++; return nil }
	c.OnPossibleDuplicate = merchant.KeepForReview
	c.OnWithdrawal = func(context.Context, countersign.WithdrawalRequest) (merchant.Answer, error) {
		return merchant.Confirm(countersigntest.Withdrawal(1).TenantUserID, countersigntest.Order(1)), nil
	}
	c.OnRefused = func(_ context.Context, r merchant.Refused) {
		r.Body = bytes.Clone(r.Body)
		e.refused = append(e.refused, r)
	}
	c.OnAnswer = func(_ context.Context, x merchant.Exchange) error {
		e.answers = append(e.answers, x)
		return nil
	}
	if change != nil {
		change(&c)
	}
	var err error
	if e.Handler, err = merchant.New(c); err != nil {
		t.Fatal(err)
	}
	return e
}

const linkHost = "https://pay.shop.example"

// request is a signed request of cb, made at at.
func (e *linkEnd) request(t *testing.T, cb countersign.Callback, at time.Time) (*http.Request, []byte) {
	t.Helper()
	plain, _, err := e.s.Plaintext(cb)
	if err != nil {
		t.Fatal(err)
	}
	body, err := e.s.Seal(plain)
	if err != nil {
		t.Fatal(err)
	}
	path := merchant.DefaultNotifyPath
	if cb.CallbackType().Lane() == countersign.LaneWithdraw {
		path = merchant.DefaultWithdrawPath
	}
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Host = "pay.shop.example"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-API-KEY", e.s.CallbackAPIKey().Reveal())
	if err := e.service.SignRequest(envelope.LinkRequest{Method: r.Method, URL: linkHost + path, Header: r.Header, Body: body}, plain, at); err != nil {
		t.Fatal(err)
	}
	return r, body
}

func (e *linkEnd) post(r *http.Request) (*httptest.ResponseRecorder, countersign.Response) {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
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
	if resp.ErrCode != 0 || e.credited != 1 {
		t.Fatalf("it says %d %s, credited %d", resp.ErrCode, resp.Message, e.credited)
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
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			r.Host, r.Body = "other.example", io.NopCloser(bytes.NewReader(body))
			plain, _, err := envelope.OpenBlocks(e.s.MerchantKey(), envelope.PKCS1v15, body)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.service.SignRequest(envelope.LinkRequest{Method: r.Method, URL: "https://" + r.Host + r.URL.Path, Header: r.Header, Body: body}, plain, e.now); err != nil {
				t.Fatal(err)
			}
		}},
		{"another body", "signature_invalid", func(r *http.Request) { r.Body = http.NoBody; r.ContentLength = 0 }},
		{"by somebody else", "signature_invalid", func(r *http.Request) {
			body := []byte("AAAA")
			r.Body, r.ContentLength = struct {
				*bytes.Reader
				closer
			}{bytes.NewReader(body), closer{}}, int64(len(body))
			if err := envelope.GenerateSigningKey().SignRequest(envelope.LinkRequest{Method: r.Method, URL: linkHost + r.URL.Path, Header: r.Header, Body: body}, body, e.now); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		r, _ := e.request(t, countersigntest.Deposit(2), e.now)
		c.change(r)
		w, resp := e.post(r)
		if resp.ErrCode != countersign.CodeMalformed || resp.Message != c.word || e.credited != 1 {
			t.Errorf("%s: %d %q, credited %d", c.name, resp.ErrCode, resp.Message, e.credited)
		}
		if got := e.refused[len(e.refused)-1]; string(got.Reason) != c.word || got.Signed || got.Opened != nil {
			t.Errorf("%s: refused %+v", c.name, got.Reason)
		}
		if signed := envelope.Signed(w.Header()); signed != envelope.Signed(r.Header) {
			t.Errorf("%s: its refusal is signed: %v", c.name, signed)
		}
		if again := e.Retry(t.Context(), e.refused[len(e.refused)-1].Body, false); again.Reason != merchant.ReasonUnsigned || e.credited != 1 {
			t.Errorf("%s: a person had it taken: %v", c.name, again.Reason)
		}
	}
}

type closer struct{}

func (closer) Close() error { return nil }

// The signature must be over what the body opens to.
func TestLinkOtherPlaintext(t *testing.T) {
	e := newLinkEnd(t, nil)
	r, body := e.request(t, countersigntest.Deposit(1), e.now)
	if err := e.service.SignRequest(envelope.LinkRequest{Method: r.Method, URL: linkHost + r.URL.Path, Header: r.Header, Body: body}, []byte("{}"), e.now); err != nil {
		t.Fatal(err)
	}
	if _, resp := e.post(r); resp.Message != "signature_invalid" || e.credited != 0 || e.refused[0].Signed {
		t.Errorf("%q, credited %d", resp.Message, e.credited)
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
	again.Body, again.ContentLength = struct {
		*bytes.Reader
		closer
	}{bytes.NewReader(body), closer{}}, int64(len(body))
	if _, resp := e.post(again); resp.ErrCode != 0 || e.credited != 1 {
		t.Errorf("what was taken before: %d %s, credited %d", resp.ErrCode, resp.Message, e.credited)
	}
	if _, resp := e.post(late); resp.Message != "signature_old" || e.credited != 1 || !e.refused[0].Signed {
		t.Errorf("a new old one: %d %s, credited %d", resp.ErrCode, resp.Message, e.credited)
	}
	if r := e.Retry(t.Context(), lateBody, true); r.Reason != merchant.ReasonAccepted || e.credited != 2 {
		t.Errorf("by a person: %v, credited %d", r.Reason, e.credited)
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
	if _, err := envelope.VerifyRequest(envelope.LinkRequest{Method: http.MethodPost, URL: x.Link.URL, Header: x.Link.Request, Body: x.Request}, e.service.Public()); err != nil {
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
