package dispatch

import (
	"net/url"
	"strings"
	"testing"

	"countersign"
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
	e := m.exchange(set, set, nil, nil, Response{Status: 200, Body: body}, nil, nil, Verdict{ErrCode: &code})
	if len(e.Message) > mostMessage || !strings.HasPrefix(e.Message, "it is [apiKey] and more") {
		t.Errorf("%d bytes are kept: %.40q", len(e.Message), e.Message)
	}
}
