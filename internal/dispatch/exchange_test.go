package dispatch

import (
	"net/url"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
)

// TestLongMessageIsCut: what is kept of an exchange has the beginning of the merchant's message
// alone: each attempt makes a record.
func TestLongMessageIsCut(t *testing.T) {
	key, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	code := int64(0)
	body, err := countersign.Response{APIKey: "secret-key", Data: "AAAA", Message: "it is secret-key" + strings.Repeat(" and more", 7000)}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	set := &keySet{apiKey: "secret-key", sealKey: key, openKey: key}
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
