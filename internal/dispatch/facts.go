package dispatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"countersign"
	"countersign/client"
)

// Limits of facts, in characters.
const (
	mostMessage = 500
	mostFact    = 200
)

// shown returns facts fit to be kept and shown: without keys, on one line, and short.
func (m *merchant) shown(f client.Fact) client.Fact {
	keys := []string{m.apiKey.Reveal(), m.callbackKey.Reveal()}
	if m.other != nil {
		keys = append(keys, m.other.apiKey.Reveal(), m.other.callbackKey.Reveal())
	}
	clean := func(text string, most int) string { return line(withoutKeys(text, keys), most) }
	return client.Fact{Message: clean(f.Message, mostMessage), Member: clean(f.Member, mostFact),
		Expected: clean(f.Expected, mostFact), Came: clean(f.Came, mostFact), Cause: clean(f.Cause, mostFact)}
}

// apiKeyMember finds API keys of other merchants, and of this one before it was changed.
var apiKeyMember = regexp.MustCompile(`(?i)(\\?["']?(?:x-)?api[-_]?key\\?["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"?|[^\s,&}<]+)`)

// withoutKeys returns text without API keys.
func withoutKeys(text string, keys []string) string {
	text = apiKeyMember.ReplaceAllString(text, "${1}[apiKey]")
	for _, key := range keys {
		if key != "" {
			text = strings.ReplaceAll(text, key, "[apiKey]")
		}
	}
	return text
}

// tags matches the markup that is left out of a page.
var tags = regexp.MustCompile(`<[^>]*>`)

// words returns the words of a page, such as a proxy's. It returns none of what may be a JSON object, which may hold
// what the merchant meant to seal.
func words(page []byte) string {
	if bytes.ContainsRune(page, '{') && !bytes.HasPrefix(bytes.TrimSpace(page), []byte("<")) {
		return ""
	}
	if len(page) >= maxIgnoredBody { // cut off, perhaps within an API key, which then is not recognized
		page = page[:bytes.LastIndexAny(page, " \t\r\n")+1]
	}
	return strings.Join(strings.Fields(tags.ReplaceAllString(string(page), " ")), " ")
}

// line returns at most most characters of text. A space replaces each that is not printable, such as a line's end.
func line(text string, most int) string {
	n := 0
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch n++; {
		case n > most:
			return -1
		case !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, text))
}

// logged returns the facts as attributes of a log line, without amounts, addresses and users.
func logged(f client.Fact) (attrs []slog.Attr) {
	public := f.Cause != "" // then what came is a kind
	switch f.Member {
	case "type", "requestUUID", "trackingId", "callBackId", "txId", "chainName", "symbol":
		public = true
	}
	add := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	add("message", f.Message)
	add("member", f.Member)
	if public {
		add("expected", f.Expected)
		add("came", f.Came)
	}
	add("cause", f.Cause)
	return attrs
}

// statusFacts returns what came with a status other than 200. A merchant refuses what it cannot open or read with a
// response of its own (PROTOCOL.md, H2).
func statusFacts(r Response) client.Fact {
	f := client.Fact{Cause: strings.TrimSpace(fmt.Sprintf("HTTP %d %s", r.Status, http.StatusText(r.Status)))}
	if to, err := url.Parse(r.Location); err == nil && r.Location != "" {
		f.Cause += ", to " + to.Host + to.EscapedPath()
	}
	if resp, err := countersign.ParseResponse(r.Page); err != nil {
		if r.Location == "" { // else the page may repeat it whole
			f.Came = words(r.Page)
		}
	} else {
		f.Message = resp.Message
		f.Cause += fmt.Sprintf(", errCode %d", resp.ErrCode)
	}
	return f
}

// unreadFacts returns what of object could not be read. Of the member at fault it shows only the kind, because the
// value may be a secret.
func unreadFacts(err error, object []byte) client.Fact {
	var member *countersign.MemberError
	if !errors.As(err, &member) {
		return client.Fact{Cause: strings.TrimPrefix(err.Error(), countersign.ErrMalformed.Error()+": "),
			Came: words(object[:min(len(object), maxIgnoredBody)])}
	}
	return client.Fact{Member: member.Member, Cause: member.Problem, Came: kindOf(membersOf(object)[member.Member])}
}

// differs returns what object has as the member name, and what it should have.
func differs(q Question, name string, object []byte) client.Fact {
	var ordered countersign.Details
	if q.Ordered != nil {
		ordered = *q.Ordered
	}
	right, err := q.Sent.Accept(ordered).Marshal()
	if err != nil { // the order is not known
		right, _ = q.Sent.Marshal()
	}
	return client.Fact{Member: name, Expected: valueOf(membersOf(right)[name]), Came: valueOf(membersOf(object)[name])}
}

func membersOf(object []byte) (m map[string]json.RawMessage) {
	_ = json.Unmarshal(object, &m) // what is no object has no members
	return m
}

func valueOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// kindOf names the kind of a JSON value. It returns nothing for a missing value and for null, which the problem names.
func kindOf(raw json.RawMessage) string {
	var v any
	_ = json.Unmarshal(raw, &v)
	switch v.(type) {
	case string:
		return "a text"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case bool:
		return "true or false"
	case float64:
		return "a number"
	}
	return ""
}

// unopenedCause is the one text for all causes with that reason (PROTOCOL.md, S7).
const unopenedCause = "data does not open with the response key, or opens to no JSON object"
