package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"countersign"
	"countersign/client"
)

// functions are the functions that templates call.
var functions = template.FuncMap{
	"text":   text,
	"id":     identifier,
	"short":  short,
	"when":   when,
	"from":   relative,
	"state":  state,
	"number": number,
	"path":   url.PathEscape,
	"pretty": pretty,
	"static": staticURL,
	"code": func(errCode *int64) int64 { // of a settled callback; absent: 0
		if errCode == nil {
			return 0
		}
		return *errCode
	},
	"kind":  countersign.Type.Words,
	"words": func(v any) string { return strings.ReplaceAll(fmt.Sprint(v), "_", " ") },
}

// text returns text that others wrote as HTML. It cannot change the direction of the text around it. Invisible
// characters, which could make one identifier look like another, are shown.
func text(v any) template.HTML {
	s := fmt.Sprint(v)
	if s == "" {
		return `<span class="none">–</span>`
	}
	return template.HTML("<bdi>" + visible(s) + "</bdi>")
}

// visible returns s as HTML.
func visible(s string) string {
	var b strings.Builder
	plain := 0
	for i, r := range s {
		if !hidden(r) {
			continue
		}
		b.WriteString(template.HTMLEscapeString(s[plain:i]))
		fmt.Fprintf(&b, `<span class="hidden-character" title="a character that is not shown">U+%04X</span>`, r)
		plain = i + len(string(r))
	}
	b.WriteString(template.HTMLEscapeString(s[plain:]))
	return b.String()
}

// hidden reports whether a character is invisible.
func hidden(r rune) bool {
	return r != '\n' && r != '\t' && r != ' ' && (unicode.Is(unicode.C, r) || unicode.Is(unicode.Z, r) ||
		unicode.Is(unicode.Variation_Selector, r))
}

// identifier returns a text that can be copied.
func identifier(v any) template.HTML {
	s := fmt.Sprint(v)
	if s == "" {
		return text("")
	}
	return template.HTML(`<span class="id" data-copy="` + template.HTMLEscapeString(s) + `"><bdi>` + visible(s) +
		"</bdi></span>")
}

// shortEnd is how many characters of each end of a long identifier lists show.
const shortEnd = 8

// short returns the ends of a long identifier, on one line. It is for lists whose rows lead to the whole, and never for
// addresses: senders of money would have to choose among similar ones.
func short(v any) template.HTML {
	s := fmt.Sprint(v)
	r := []rune(s)
	if len(r) <= 2*shortEnd+3 {
		return text(s)
	}
	return template.HTML(`<span class="short" title="` + template.HTMLEscapeString(strings.Map(shown, s)) + `"><bdi>` +
		visible(string(r[:shortEnd])) + "…" + visible(string(r[len(r)-shortEnd:])) + "</bdi></span>")
}

// shown drops invisible characters.
func shown(r rune) rune {
	if hidden(r) {
		return -1
	}
	return r
}

// when returns a time in UTC. The browser converts it to the viewer's zone.
func when(t client.Time) template.HTML {
	if t == 0 {
		return text("")
	}
	u := t.Time()
	return template.HTML(`<time datetime="` + u.Format("2006-01-02T15:04:05.000Z") + `">` +
		u.Format("2006-01-02 15:04:05") + " UTC</time>")
}

// relative returns how long before or after now t is.
func relative(t client.Time) string {
	if t == 0 {
		return ""
	}
	d := time.Until(t.Time())
	if d < 0 {
		return span(-d) + " ago"
	}
	return "in " + span(d)
}

// span returns a duration in its largest unit or two.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// looks are the colours of states; the word is always shown too.
var looks = map[string]string{
	"accepted": "good", "confirmed": "good", "executed": "good", "active": "good", "approved": "good", "applied": "good",
	"taken": "good", "running": "good", "credited": "good", "valid": "good",
	"pending": "wait", "sending": "wait", "awaiting": "wait", "released": "wait", "open": "wait", "held": "wait",
	"proposed": "wait", "waiting": "wait", "hold": "wait",
	"refused": "bad", "exhausted": "bad", "declined": "bad", "failed": "bad", "blocked": "bad", "frozen": "bad",
	"paused": "bad", "rejected": "bad", "unknown": "bad", "silent": "bad",
	"retry": "warn", "expired": "warn", "stale": "warn", "lapsed": "warn",
}

// state returns a state as a word with a colour.
func state(v any) template.HTML {
	s := fmt.Sprint(v)
	if s == "" {
		return text("")
	}
	look := looks[s]
	if look == "" {
		look = "plain"
	}
	return template.HTML(`<span class="state ` + look + `">` + visible(strings.ReplaceAll(s, "_", " ")) + "</span>")
}

// number returns a count with separators.
func number(v any) string {
	s := strconv.FormatInt(reflect.ValueOf(v).Int(), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// pretty returns JSON with one member a line. Numbers keep their digits.
func pretty(raw json.RawMessage) template.HTML {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		b.Reset()
		b.Write(raw)
	}
	return template.HTML(visible(b.String()))
}
