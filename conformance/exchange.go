package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

// destination is one of the endpoint's two URLs.
type destination int

const (
	toNotify destination = iota
	toWithdraw
)

func destinationOf(t countersign.Type) destination {
	if t.Lane() == countersign.LaneWithdraw {
		return toWithdraw
	}
	return toNotify
}

func (d destination) String() string {
	if d == toWithdraw {
		return "withdraw URL"
	}
	return "notify URL"
}

// request is one exchange to make. The zero value of every field is correct, so
// a case sets only what it makes wrong.
type request struct {
	what      string
	to        destination
	plaintext []byte // for the report; the body is body
	uuid      string // the requestUUID in plaintext
	// trackingID is that of the deposit in plaintext, for what the endpoint credits.
	trackingID string
	amount     string // of that deposit
	quiet      bool   // not in the report

	body        []byte
	stream      io.Reader // in place of body, in chunks
	method      string    // "": POST
	contentType string    // "": application/x-www-form-urlencoded; "-": none
	apiKey      *countersign.APIKey
	// resign changes the signature of r, which is signed and whose headers are h. Nil: it is right.
	resign func(r envelope.LinkRequest, h http.Header)
}

// reply is the result of an exchange. Either err or status is set.
type reply struct {
	request
	err      error
	status   int
	header   http.Header
	body     []byte
	index    int // of the Exchange
	members  map[string]json.RawMessage
	response countersign.Response
	parseErr error // of the response
	answer   []byte
	parsed   countersign.Answer // set by opensTo
	blocks   []int              // how many bytes of answer each block held
	openErr  error              // of the answer

	asked     http.Header // Content-Type and signature of the request; nil: it was not signed
	signature envelope.LinkSignature
	signErr   error // of the response, if the key that signs answers is known
}

// UserAgent is how the requests of a Checker and a Caller name themselves.
const UserAgent = "countersign-check"

// send makes one exchange and records it.
func (s *session) send(q request) *reply {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	defer cancel()
	r := &reply{request: q, index: s.begin(q)}
	defer s.end(r)
	req, err := s.newRequest(ctx, r)
	if err != nil {
		r.err = err
		return r
	}
	if q.stream != nil {
		// A stream cannot be sent again if a kept connection turns out to be
		// closed, so it gets a new connection.
		s.client.CloseIdleConnections()
	}
	resp, err := s.client.Do(req)
	if err != nil {
		r.err = unwrapURL(err)
	} else {
		s.receive(r, resp)
	}
	return r
}

// newRequest makes the request of r, and sets r.asked.
func (s *session) newRequest(ctx context.Context, r *reply) (*http.Request, error) {
	q := r.request
	var body io.Reader = bytes.NewReader(q.body)
	if q.stream != nil {
		body = q.stream
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(q.method, http.MethodPost), s.urls[q.to].String(), body)
	if err != nil {
		return nil, err
	}
	if q.stream != nil {
		req.ContentLength = -1
	}
	switch q.contentType {
	case "":
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	case "-":
	default:
		req.Header.Set("Content-Type", q.contentType)
	}
	if s.cfg.Sign != nil {
		signed := envelope.LinkRequest{Method: req.Method, URL: s.urls[q.to].String(), Header: req.Header, Body: q.body}
		if q.contentType == "-" {
			req.Header.Set("Content-Type", "") // it is covered
		}
		if err := s.cfg.Sign.SignRequest(signed, q.plaintext, time.Now()); err != nil {
			return nil, err
		}
		if q.resign != nil {
			q.resign(signed, req.Header)
		}
		r.asked = envelope.LinkHeaders(req.Header)
	}
	req.Header.Set("User-Agent", UserAgent)
	key := s.cfg.CallbackAPIKey
	if q.apiKey != nil {
		key = *q.apiKey
	}
	if key != "" {
		req.Header.Set(cmp.Or(s.cfg.APIKeyHeader, merchant.DefaultHeader), key.Reveal())
	}
	return req, nil
}

// receive reads a response into r.
func (s *session) receive(r *reply, resp *http.Response) {
	defer resp.Body.Close()
	r.status, r.header = resp.StatusCode, resp.Header
	var err error
	r.body, err = io.ReadAll(io.LimitReader(resp.Body, countersign.MaxMessage+1))
	if err != nil {
		r.status, r.err = 0, fmt.Errorf("the response broke off: %w", err)
		return
	}
	s.open(r, len(r.plaintext))
	if s.cfg.AnswerKey != nil {
		r.signature, r.signErr = envelope.VerifyResponse(envelope.LinkResponse{Status: r.status, Header: r.header, Body: r.body, Request: r.asked}, s.cfg.AnswerKey)
		if r.signErr == nil && r.signature.Old(time.Now()) {
			r.signErr = errors.New("its time is more than five minutes from this clock")
		}
	}
}

// unwrapURL removes the URL, which may hold a secret, from err.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// open reads the response as a service does. request is the length of the request's
// plaintext in bytes, which bounds the answer.
func (s *session) open(r *reply, request int) {
	_ = json.Unmarshal(r.body, &r.members) // nil if it is not an object; parseErr says so
	r.response, r.parseErr = countersign.ParseResponse(r.body)
	if r.parseErr != nil || r.response.Data == "" {
		return
	}
	w := envelope.Worker{Most: countersign.MaxAnswer(request)}
	r.answer, r.blocks, r.openErr = w.OpenBlocks(s.cfg.ResponseKey, s.cfg.ResponsePadding, []byte(r.response.Data))
}

func (s *session) begin(q request) int {
	if q.quiet {
		return -1
	}
	e := Exchange{What: q.what, To: q.to.String(), Method: cmp.Or(q.method, http.MethodPost), Bytes: len(q.body), Plaintext: s.show(q.plaintext)}
	if q.stream != nil {
		e.Bytes = -1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exchanges = append(s.exchanges, e)
	return len(s.exchanges) - 1
}

func (s *session) end(r *reply) {
	if r.quiet {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &s.exchanges[r.index]
	e.Status = r.status
	if r.err != nil {
		e.Error = s.redact(r.err.Error())
	} else {
		e.Response = s.showResponse(r)
		e.Answer = s.show(r.answer)
	}
}

// maxShown is how much of a text a report shows, in bytes.
const maxShown = 600

// show makes printable text of any bytes.
func (s *session) show(b []byte) string {
	cut := ""
	if len(b) > maxShown {
		cut = fmt.Sprintf(" … (%d bytes in all)", len(b))
		b = b[:maxShown]
		for len(b) > 0 && !utf8.RuneStart(b[len(b)-1]) {
			b = b[:len(b)-1]
		}
		if n := len(b); n > 0 && b[n-1] >= utf8.RuneSelf {
			b = b[:n-1]
		}
	}
	return s.redact(printable(b)) + cut
}

// printable is b without what would control a terminal.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, string(bytes.ToValidUTF8(b, []byte("\uFFFD"))))
}

var responseMembers = []string{"apiKey", "errCode", "message", "data"}

// showResponse returns the members of a response without its secrets.
func (s *session) showResponse(r *reply) string {
	if r.members == nil {
		if len(r.body) == 0 {
			return "(empty)"
		}
		return s.show(r.body)
	}
	unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(r.members)), func(name string) bool { return slices.Contains(responseMembers, name) })
	var parts []string
	for _, name := range slices.Concat(responseMembers, unknown) {
		raw, ok := r.members[name]
		if !ok {
			continue
		}
		var str string
		isText := json.Unmarshal(raw, &str) == nil && string(raw) != "null"
		switch {
		case name == "apiKey" && isText && s.cfg.APIKey.Equal(countersign.APIKey(str)):
			parts = append(parts, "apiKey: as expected")
		case name == "apiKey" && isText && s.cfg.APIKey == "":
			parts = append(parts, fmt.Sprintf("apiKey: a text of %d characters", utf8.RuneCountInString(str)))
		case name == "apiKey" && isText:
			parts = append(parts, fmt.Sprintf("apiKey: another text of %d characters", utf8.RuneCountInString(str)))
		case name == "data" && isText && len(str) > 40:
			parts = append(parts, fmt.Sprintf("data: %d characters", len(str)))
		default:
			parts = append(parts, s.show([]byte(name))+": "+s.show(raw))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// redact removes the secrets of the settings from a text of the endpoint.
func (s *session) redact(t string) string {
	for _, k := range []countersign.APIKey{s.cfg.APIKey, s.cfg.CallbackAPIKey} {
		if k != "" {
			t = strings.ReplaceAll(t, k.Reveal(), "[API key]")
		}
	}
	return strings.ReplaceAll(t, s.publicKey, "[key]")
}
