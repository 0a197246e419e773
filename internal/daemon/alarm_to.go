package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/signed"
)

const (
	toTimeout = 40 * time.Second // of one attempt; the services have bounds of their own below it, if any
	// mostHanging is how many attempts at one destination may go on after their time: some
	// services wait for an answer without a bound.
	mostHanging = 3
)

// chat sends messages by one of the services that shoutrrr knows.
type chat struct {
	scheme string
	url    client.Secret
	of     string // names the alarms of this database, with their numbers, to services that put them together

	mu      sync.Mutex
	service types.Service // made by the first attempt: some sign in
	hanging int
}

// toServices are the services of --alarm-to, by scheme; true: they have a title beside the text.
// logger is not one: it would post to nobody.
var toServices = map[string]bool{
	"bark": true, "discord": true, "generic": false, "googlechat": false, "gotify": true, "ifttt": true, "join": true, "lark": true, "matrix": true,
	"mattermost": true, "notifiarr": false, "ntfy": true, "opsgenie": true, "pagerduty": false, "pushbullet": true, "pushover": true, "rocketchat": false,
	"signal": false, "slack": true, "smtp": true, "teams": true, "telegram": true, "wecom": false, "zulip": true,
}

const (
	toPagerDuty = "pagerduty"
	toOpsgenie  = "opsgenie"
	toMatrix    = "matrix"
)

// CheckAlarmTo says what is wrong with a URL of --alarm-to, without the URL: it has secrets.
func CheckAlarmTo(text client.Secret) error {
	_, err := newChat(text, "")
	return err
}

func newChat(text client.Secret, of string) (*chat, error) {
	scheme, _, found := strings.Cut(string(text), "://")
	scheme, _, _ = strings.Cut(strings.ToLower(scheme), "+") // generic+https
	if _, known := toServices[scheme]; !found || !known {
		names := make([]string, 0, len(toServices))
		for name := range toServices {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, fmt.Errorf("it does not begin with the name of a service and ://; the services are %s", strings.Join(names, ", "))
	}
	c := &chat{scheme: scheme, url: text, of: of}
	if scheme == toMatrix { // it signs in when it is made
		if u, err := url.Parse(string(text)); err != nil || u.Host == "" {
			return nil, errToForm(scheme)
		}
		return c, nil
	}
	return c, c.open()
}

func errToForm(scheme string) error {
	return fmt.Errorf("what stands behind %s:// is not of the form that this service needs; docs/alarms.md says where its form is written", scheme)
}

// open makes the service, once. c is locked, or nobody else has it.
func (c *chat) open() (err error) {
	if c.service != nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			err = errToForm(c.scheme)
		}
	}()
	service, err := new(router.ServiceRouter).Locate(string(c.url))
	if err != nil { // its text may have the URL
		return errToForm(c.scheme)
	}
	c.service = service
	return nil
}

// send makes one attempt.
func (c *chat) send(end string, p db.AlarmPost) (signed.Result, error) {
	if c.scheme == toOpsgenie && p.Type() == client.MessageAlarmEnded {
		return signed.Done, nil // it would open another alert
	}
	c.mu.Lock()
	err := c.open()
	service, busy := c.service, c.hanging >= mostHanging
	if err == nil && !busy {
		c.hanging++
	}
	c.mu.Unlock()
	switch {
	case err != nil:
		return signed.Failed, err
	case busy:
		return signed.Timeout, errors.New("the attempts before have not ended")
	}
	title, text := alarmText(end, p)
	params := types.Params{}
	if toServices[c.scheme] {
		params.SetTitle(title)
	} else {
		text = title + "\n" + text
	}
	together := fmt.Sprintf("countersign %s %d", c.of, p.Alarm.Seq)
	switch c.scheme {
	case toOpsgenie:
		params["alias"] = together
	case toPagerDuty:
		params["dedup_key"] = together
		if p.Type() == client.MessageAlarmEnded {
			params["action"] = "resolve"
		}
	}
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = errors.New("the service's library failed")
			}
			c.mu.Lock()
			c.hanging--
			c.mu.Unlock()
			done <- err
		}()
		err = service.Send(text, &params)
	}()
	select {
	case err := <-done:
		if err == nil {
			return signed.Done, nil
		}
		return signed.Failed, errors.New(c.without(err))
	case <-time.After(toTimeout):
		return signed.Timeout, errors.New("no answer in time")
	}
}

// without gives the text of an error without the parts of the URL: errors show other URLs that
// are made of them.
func (c *chat) without(err error) string {
	text := signed.WithoutURL(err)
	if text != err.Error() {
		text = "no answer: " + text
	}
	secrets := string(c.url)
	if plain, err := url.PathUnescape(secrets); err == nil {
		secrets += " " + plain
	}
	parts := strings.FieldsFunc(secrets, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	for _, part := range slices.Compact(parts) {
		if len(part) >= 4 && part != c.scheme {
			text = regexp.MustCompile("(?i)"+regexp.QuoteMeta(part)).ReplaceAllString(text, "…")
		}
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if r := []rune(text); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return text
}

// alarmText says what a message tells, for people. What others wrote is in neither as it came:
// in a chat it could call people by name, lead to an address, or look like another text.
func alarmText(end string, p db.AlarmPost) (title, text string) {
	a := p.Alarm
	kind := strings.ReplaceAll(string(a.Kind), "_", " ")
	about := ""
	if a.Of != "" {
		about = ", " + plain(a.Of)
	}
	title = "countersign " + end + ": " + kind + about
	if a.Kind.Urgent() && p.Type() != client.MessageAlarmEnded {
		title = "URGENT " + title
	}
	times := fmt.Sprintf("%d times", a.Number)
	if a.Number == 1 {
		times = "once"
	}
	var lines []string
	switch p.Type() {
	case client.MessageAlarmGrown:
		title += ", " + times
		lines = append(lines, fmt.Sprintf("Alarm %d was raised %s since %s, last at %s.", a.Seq, times, at(a.At), at(a.Last)))
	case client.MessageAlarmEnded:
		title += ", ended"
		lines = append(lines, fmt.Sprintf("Alarm %d ended at %s: %s", a.Seq, at(a.Ended), a.EndedText), fmt.Sprintf("It was raised %s since %s.", times, at(a.At)))
	default:
		lines = append(lines, fmt.Sprintf("Alarm %d was raised %s at %s.", a.Seq, times, at(a.At)))
	}
	if len(a.Examples) > 0 {
		var list []string
		for _, e := range a.Examples {
			list = append(list, plain(e))
		}
		lines = append(lines, "About: "+strings.Join(list, ", "))
	}
	if p.Type() != client.MessageAlarmEnded {
		lines = append(lines, a.Kind.Text())
	}
	return title, strings.Join(lines, "\n")
}

func at(m db.Millis) string { return m.Time().UTC().Format("2006-01-02 15:04:05 UTC") }

// plain gives text that others wrote as one that chats and mails show as it is.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), strings.ContainsRune(" ._-:/,=+#()", r):
			return r
		}
		return '?'
	}, text)
	text = strings.ReplaceAll(text, "://", ": //") // no link
	if r := []rune(text); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return text
}

// destination is the chat as a destination of alarms.
func (c *chat) destination(name, end string, n int) alarmDestination {
	return alarmDestination{name: name, shown: fmt.Sprintf("alarm-to %d %s", n, c.scheme), timeout: toTimeout, close: func() {},
		send: func(_ context.Context, p db.AlarmPost) (signed.Result, int, error) {
			result, err := c.send(end, p)
			return result, 0, err
		}}
}
