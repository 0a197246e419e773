package dispatch

import (
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
)

// What is kept of a response has none of its API keys, wherever they stand.
func TestUnreadHasNoKeys(t *testing.T) {
	const key, callbackKey, foreign = "merchant-key-1234", "callback-key-5678", "foreign-key-9012"
	filler := strings.Repeat("x", 2040)
	for name, c := range map[string]struct {
		reason client.Reason
		body   string
		want   string // what it still says; empty: nothing is kept
	}{
		"page of a proxy":      {client.ReasonStatus, "<html>502 Bad Gateway " + key, "502 Bad Gateway"},
		"echo of the header":   {client.ReasonStatus, "X-API-KEY: " + callbackKey + "\r\nX-Api-Key: " + foreign + "\r\n", "X-API-KEY"},
		"not the protocol":     {client.ReasonResponseMalformed, `{"code":0,"apiKey":"` + key + `"}`, `"code":0`},
		"another merchant's":   {client.ReasonWrongAPIKey, `{"apiKey" : "` + foreign + `","errCode":0}`, `"errCode":0`},
		"escaped":              {client.ReasonResponseMalformed, `"{\"apiKey\":\"` + foreign + `\",\"n\":1}"`, `{`},
		"unfinished":           {client.ReasonResponseMalformed, `{"n":1,"apiKey":"` + foreign, `"n":1`},
		"cut off within a key": {client.ReasonStatus, filler + key[:11], "xxx"},
		"key across the end":   {client.ReasonStatus, filler + key + "and more", "xxx"},
		"plain answer":         {client.ReasonDataNotSealed, `{"apiKey":"` + key + `","data":{"type":1}}`, `"type":1`},
		"did not open":         {client.ReasonDataUnreadable, `{"data":"AAAA"}`, "AAAA"},
		"right":                {client.ReasonAccepted, `{"data":"AAAA"}`, ""},
		"empty":                {client.ReasonStatus, "", ""},
	} {
		m := &merchant{keys: keys{keySet: keySet{apiKey: countersign.APIKey(key), callbackKey: countersign.APIKey(callbackKey)}}}
		r := Response{Status: 200, Body: []byte(c.body)}
		if c.reason == client.ReasonStatus {
			r = Response{Status: 502, Page: []byte(c.body)}
		}
		v := Verdict{Result: client.AttemptRetry, Reason: c.reason}
		if c.reason == client.ReasonAccepted {
			v.Result = client.AttemptAccepted
		}
		got := string(m.unread(v, r, time.Unix(0, 0)))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || len(got) > 2048 {
			t.Errorf("%s: %q", name, got)
		}
		for _, secret := range []string{key[:9], callbackKey[:9], foreign[:9]} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: it has a key: %q", name, got)
			}
		}
	}
}

// A merchant that answers everything with a page has some of them kept.
func TestUnreadIsLimited(t *testing.T) {
	m := &merchant{keys: keys{keySet: keySet{apiKey: "merchant-key-1234"}}}
	kept := func(at time.Time) (n int) {
		for range 1000 {
			if m.unread(Verdict{Result: client.AttemptRetry, Reason: client.ReasonStatus}, Response{Status: 502, Page: []byte("x")}, at) != nil {
				n++
			}
		}
		return n
	}
	if n := kept(time.Unix(59, 0)); n != unreadMost {
		t.Errorf("%d kept in a minute", n)
	}
	if n := kept(time.Unix(60, 0)); n != unreadMost {
		t.Errorf("%d kept in the next minute", n)
	}
}
