package dispatch

import (
	"bytes"
	"regexp"
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

// unread is what is kept of a response that was not understood, nil if nothing is.
func (m *merchant) unread(reason client.Reason, r Response, now time.Time) []byte {
	body := r.Body
	switch reason {
	case client.ReasonStatus:
		body = r.Page
	case client.ReasonKeyRefused:
		if r.Status != 200 {
			body = r.Page
		}
	case client.ReasonResponseMalformed, client.ReasonWrongAPIKey, client.ReasonNotUnderstood, client.ReasonDataNotSealed, client.ReasonDataEncoding:
	default:
		return nil // it was understood, or is sealed, or there is none
	}
	if len(body) == 0 || !m.unreads.may(now) {
		return nil
	}
	secrets := []string{m.apiKey.Reveal(), m.callbackKey.Reveal()}
	if m.other != nil {
		secrets = append(secrets, m.other.apiKey.Reveal(), m.other.callbackKey.Reveal())
	}
	head := withoutKeys(body, secrets...)
	return head[:min(len(head), outbox.UnreadMost)]
}

// apiKeyMember finds API keys of other merchants, and of this one before it was changed.
var apiKeyMember = regexp.MustCompile(`(?i)(\\?["']?(?:x-)?api[-_]?key\\?["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"?|[^\s,&}<]+)`)

// withoutKeys gives body without keys, and without the beginning of one at its end: the
// body may be cut off there.
func withoutKeys(body []byte, keys ...string) []byte {
	body = apiKeyMember.ReplaceAll(body, []byte("${1}[apiKey]"))
	for _, key := range keys {
		if key == "" {
			continue
		}
		body = bytes.ReplaceAll(body, []byte(key), []byte("[apiKey]"))
		for n := min(len(key)-1, len(body)); n > 0; n-- {
			if bytes.HasSuffix(body, []byte(key[:n])) {
				body = body[:len(body)-n]
				break
			}
		}
	}
	return body
}
