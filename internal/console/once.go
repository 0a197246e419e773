package console

import (
	"crypto/rand"
	"encoding/base64"
	"html/template"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"countersign/client"
)

// once is something that is shown a single time: keys and tokens that nobody can read
// again. The post that made it puts it, sealed, into a cookie for the page that shows it, which
// works on every node. Nothing else keeps such a form from being posted twice: were the answer to the
// post itself the page, loading it again, or the back button, would make another key or token.
type once struct {
	Title    string
	Back     string // where to go on
	Warnings []string
	Items    []onceItem
	For      string // id of the token that sees it
	Code     string // under which it is remembered as shown
}

type onceItem struct {
	Name string
	What string
	File string
	Text string
}

// Link is a file with the text, to be saved by the browser.
func (i onceItem) Link() template.URL {
	return template.URL("data:application/octet-stream;base64," + base64.StdEncoding.EncodeToString([]byte(i.Text+"\n")))
}

const (
	onceCookie = "once"
	oncePath   = "/console/shown"
	onceLife   = 2 * time.Minute // for the browser to follow the redirect
)

// shownCodes remembers what this process has shown, as long as it could be asked for again.
type shownCodes struct {
	mu sync.Mutex
	at map[string]time.Time // by once.Code
}

// first reports whether code was not shown yet, and remembers it.
func (s *shownCodes) first(code string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[string]time.Time{}
	}
	maps.DeleteFunc(s.at, func(_ string, at time.Time) bool { return now.Sub(at) > onceLife })
	_, before := s.at[code]
	s.at[code] = now
	return !before
}

// handOver lists what a merchant must be given; empty texts are left out.
func handOver(publicKey, responseKey, apiKey, callbackAPIKey string) (items []onceItem) {
	for _, i := range []onceItem{
		{"Request key", "opens what the service sends", "service.b64", publicKey},
		{"Response key", "seals the merchant's answers", "response.b64", responseKey},
		{"API key", "the member apiKey of every response", "api.key", apiKey},
		{"Callback API key", "the header X-API-KEY of every request", "callback-api.key", callbackAPIKey},
	} {
		if i.Text != "" {
			items = append(items, i)
		}
	}
	return items
}

// notUsedYet adds to the warnings of keys that their change waits, if it does.
func notUsedYet(warnings []string, change *client.ChangeEntry) []string {
	if change == nil {
		return warnings
	}
	return append(warnings, "They are not used yet: the change "+change.ID+" waits for an approver.")
}

func (v *visit) showOnce(o once) error {
	o.For, o.Code = v.me.ID, rand.Text()
	if err := v.c.keep(v.w, v.r, onceCookie, oncePath, o, onceLife); err != nil {
		return err
	}
	http.Redirect(v.w, v.r, oncePath, http.StatusSeeOther)
	return nil
}

func (v *visit) shownOnce() error {
	var o once
	if !v.c.kept(v.r, onceCookie, &o) || o.For != v.me.ID || !v.c.shown.first(o.Code, v.c.Now()) {
		return v.renderAs(http.StatusGone, "error", "Shown before", failure{Status: http.StatusGone, Back: root, Says: []string{
			"This was shown before, and it cannot be read again.", "If it was lost, make a new key or token in its place."}})
	}
	v.c.drop(v.w, v.r, onceCookie, oncePath)
	return v.render("once", o.Title, o)
}

// number reads a field of a form, 0 if it is empty.
func (v *visit) number(field, what string) (int, error) {
	text := v.form(field)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, refuse("the " + what + " is no whole number")
	}
	return n, nil
}
