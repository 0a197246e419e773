package dispatch

import (
	"net/url"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
)

// TestPageHasNoKeys: of a response that is none, what is kept has the words of the page and no API
// key, wherever one stands, and nothing of what may be an answer.
func TestPageHasNoKeys(t *testing.T) {
	const key, callbackKey, foreign = "merchant-key-1234", "callback-key-5678", "foreign-key-9012"
	// The reader of a page stops at maxIgnoredBody bytes, here within the key.
	cut := func(page string) string { return page + strings.Repeat(" ", maxIgnoredBody-len(page)-12) + key[:12] }
	m := &merchant{keys: keys{keySet: keySet{apiKey: countersign.APIKey(key), callbackKey: countersign.APIKey(callbackKey)}}}
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"page of a proxy":    {502, "<html>\r\n<head><title>502 Bad Gateway</title></head>\n<h1>" + key + "</h1>", "502 Bad Gateway [apiKey]"},
		"echo of the header": {502, "X-API-KEY: " + callbackKey + "\r\nX-Api-Key: " + foreign + "\r\n", "X-API-KEY: [apiKey] X-Api-Key: [apiKey]"},
		"a page with 200":    {200, "<h1>Welcome</h1> to the shop", "Welcome to the shop"},
		"cut off":            {502, strings.Repeat("x", 195) + key, strings.Repeat("x", 195) + "[apiK"},
		"cut in a key":       {502, cut("<p>the key is"), "the key is"},
		"cut in a tag":       {502, cut("<p>refused <a href="), "refused <a href="},
		"an answer":          {502, `{"code":0,"apiKey":"` + foreign + `"}`, ""},
		"an answer as text":  {200, `data={"amount":"1"}`, ""},
		"nothing":            {502, "", ""},
	} {
		r := Response{Status: c.status, Page: []byte(c.body)}
		if c.status == 200 {
			r = Response{Status: 200, Body: []byte(c.body)}
		}
		v := Judge(Question{APIKeys: []countersign.APIKey{key}, Sent: countersigntest.Deposit(1)}, r, nil)
		if f := m.shown(v.Facts); f.Came != c.want || v.Result != client.AttemptRetry {
			t.Errorf("%s: %+v, want %q", name, f, c.want)
		}
	}
}

// TestLongMessageIsCut: what is kept of an exchange has the beginning of the merchant's message
// alone: each attempt makes a record.
func TestLongMessageIsCut(t *testing.T) {
	code := int64(0)
	body := must(countersign.Response{APIKey: "secret-key", Data: "AAAA", Message: "it is secret-key" + strings.Repeat(" and more", 7000)}.Marshal())
	set := &keySet{apiKey: "secret-key", sealKey: testPair(), openKey: testPair()}
	m := &merchant{urls: [2]*url.URL{{}, {}}, keys: keys{keySet: *set}}
	e := (&attempt{m: m, asked: set}).exchange(set, Response{Status: 200, Body: body}, nil, Verdict{ErrCode: &code})
	if len(e.Message) > mostMessage || !strings.HasPrefix(e.Message, "it is [apiKey] and more") {
		t.Errorf("%d bytes are kept: %.40q", len(e.Message), e.Message)
	}
}

// TestOuterFormOfAnswers: an answer that is compressed, or begins with a byte order mark, is named.
func TestOuterFormOfAnswers(t *testing.T) {
	for want, r := range map[string]Response{
		"Content-Encoding says gzip": {Status: 200, Body: []byte("\x1f\x8b\x08"), Encoding: "gzip"},
		"compressed with gzip":       {Status: 200, Body: []byte("\x1f\x8b\x08")},
		"byte order mark (EF BB BF)": {Status: 200, Body: []byte("\uFEFF{}")},
	} {
		v := Judge(Question{APIKeys: []countersign.APIKey{"key"}, Sent: countersigntest.Deposit(1)}, r, nil)
		if v.Reason != client.ReasonResponseMalformed || !strings.Contains(v.Facts.Cause, want) {
			t.Errorf("%+v, want %q", v, want)
		}
	}
}
