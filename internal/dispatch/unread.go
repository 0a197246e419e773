package dispatch

import (
	"bytes"
	"regexp"
	"slices"
	"sync"
	"time"

	"countersign/client"
	"countersign/internal/outbox"
)

// unreadMost is how many responses of a merchant are kept each minute, so that a merchant
// whose every response is a page of its proxy fills no disk.
const unreadMost = 60

// unreads counts the responses that were kept in a minute.
type unreads struct {
	mu     sync.Mutex
	minute int64
	kept   int
}

func (u *unreads) may(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if minute := now.Unix() / 60; minute != u.minute {
		u.minute, u.kept = minute, 0
	}
	u.kept++
	return u.kept <= unreadMost
}

// unread is what is kept of the response to an attempt that failed, nil if nothing is.
func (m *merchant) unread(v Verdict, r Response, now time.Time) []byte {
	body := r.Body
	if body == nil {
		body = r.Page
	}
	if v.Result != client.AttemptRetry && v.Result != client.AttemptRefused || len(body) == 0 || !m.unreads.may(now) {
		return nil
	}
	keys := m.secrets()
	head := withoutStarts(withoutKeys(body, keys...), keys...)
	return head[:min(len(head), outbox.UnreadMost)]
}

// secrets are the API keys of m, those that are being replaced too.
func (m *merchant) secrets() []string {
	keys := []string{m.apiKey.Reveal(), m.callbackKey.Reveal()}
	if m.other != nil {
		keys = append(keys, m.other.apiKey.Reveal(), m.other.callbackKey.Reveal())
	}
	return slices.DeleteFunc(keys, func(key string) bool { return key == "" })
}

// apiKeyMember finds API keys of other merchants, and of this one before it was changed.
var apiKeyMember = regexp.MustCompile(`(?i)(\\?["']?(?:x-)?api[-_]?key\\?["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"?|[^\s,&}<]+)`)

// withoutKeys returns body without keys.
func withoutKeys(body []byte, keys ...string) []byte {
	body = apiKeyMember.ReplaceAll(body, []byte("${1}[apiKey]"))
	for _, key := range keys {
		body = bytes.ReplaceAll(body, []byte(key), []byte("[apiKey]"))
	}
	return body
}

// withoutStarts returns body without the beginning of a key at its end: it may be cut off
// there.
func withoutStarts(body []byte, keys ...string) []byte {
	for _, key := range keys {
		for n := min(len(key)-1, len(body)); n > 0; n-- {
			if bytes.HasSuffix(body, []byte(key[:n])) {
				body = body[:len(body)-n]
				break
			}
		}
	}
	return body
}
