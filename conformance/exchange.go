package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// UserAgent is the User-Agent of all requests of a Checker.
const UserAgent = "countersign-check"

// request is one exchange to make. attempt sets what is correct, so a case sets only what it makes wrong.
type request struct {
	what                    string
	m                       message // what Plaintext was made of
	to                      countersign.Lane
	countersigntest.Request // without Body and Header until it is sent; ContentType "-": none

	stream  io.Reader // in place of Sealed, in chunks
	length  int       // of stream; 0: it is not announced
	method  string    // "": POST
	fault   countersigntest.ServiceFault
	earlier countersigntest.Request // which some faults need
}

// reply is the result of an exchange. Either err or status is set.
type reply struct {
	request
	err      error
	status   int
	header   http.Header
	body     []byte
	response countersign.Response
	parseErr error // of the response
	answer   []byte
	parsed   countersign.Answer // set by accepted
	blocks   []int              // how many bytes of answer each block held
	openErr  error              // of the answer

	asked     http.Header // Content-Type and signature of the request; nil: it was not signed
	signature envelope.LinkSignature
	signErr   error // of the response, if the key that signs answers is known
}

// code returns the errCode of r, if r is a response with status 200, or else -1.
func (r *reply) code() countersign.ErrCode {
	if r.err != nil || r.status != http.StatusOK || r.parseErr != nil {
		return -1
	}
	return r.response.ErrCode
}

// member returns a member of the opened answer as it was written, or "" if there is none.
func (r *reply) member(name string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(r.answer, &members) != nil {
		return ""
	}
	return string(bytes.TrimSpace(members[name]))
}

// attempt puts a requestUUID into m, bound if the service binds, and seals it.
func (s *session) attempt(what string, m message) request { return s.attemptOf(what, m, m.bytes()) }

// attemptOf is attempt with m written as plain.
func (s *session) attemptOf(what string, m message, plain []byte) request {
	q := request{what: what, m: m, Request: countersigntest.Request{APIKey: s.cfg.CallbackAPIKey}}
	q.Plaintext, q.UUID = s.fakes.Attempt(plain)
	q.Sealed = s.seal(q.Plaintext)
	if m.bare("type") == "2" {
		q.to = countersign.LaneWithdraw
	}
	return q
}

// seal seals plain in full chunks. It skips the case if the key cannot carry the message.
func (s *session) seal(plain []byte) []byte {
	body, err := envelope.Seal(s.cfg.Key, s.cfg.Padding, plain)
	if err != nil {
		skip("the key cannot carry this message: %v", err)
	}
	return body
}

// inChunks returns q with other bytes, each chunk of them in blocks of its own.
func (s *session) inChunks(q request, chunks ...[]byte) request {
	q.Plaintext, q.Sealed = bytes.Join(chunks, nil), join(s.blocks(chunks...))
	return q
}

// blocks returns the blocks of the chunks, each chunk in blocks of its own.
func (s *session) blocks(chunks ...[]byte) (blocks [][]byte) {
	for _, c := range chunks {
		raw, err := base64.StdEncoding.AppendDecode(nil, s.seal(c))
		if err != nil {
			panic(err) // Seal writes standard Base64
		}
		blocks = slices.AppendSeq(blocks, slices.Chunk(raw, s.cfg.Key.Size()))
	}
	return blocks
}

// post makes an attempt of m.
func (s *session) post(what string, m message) *reply { return s.send(s.attempt(what, m)) }

// atOnce sends all requests at the same time.
func (s *session) atOnce(requests []request) []*reply {
	replies := make([]*reply, len(requests))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, q := range requests {
		wg.Go(func() {
			<-start
			replies[i] = s.send(q)
		})
	}
	// A connection that was dialled, and not needed then, may be closed while the next request is written.
	s.client.CloseIdleConnections()
	close(start)
	wg.Wait()
	s.client.CloseIdleConnections()
	return replies
}

// send makes one exchange and records it.
func (s *session) send(q request) *reply {
	r := &reply{request: q}
	defer s.record(r)
	req, err := s.newRequest(s.ctx, r) // which may make a key, and take long
	if err != nil {
		r.err = err
		return r
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	defer cancel()
	if q.stream != nil {
		// It cannot be sent again if a kept connection turns out to be closed, so it gets a new one.
		s.client.CloseIdleConnections()
	}
	resp, err := s.client.Do(req.WithContext(ctx))
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL, which may hold a secret
		}
		r.err = err
	} else {
		s.receive(r, resp)
	}
	return r
}

// newRequest makes the request of r as its fault has it, in the form of the config, and sets what it is.
func (s *session) newRequest(ctx context.Context, r *reply) (*http.Request, error) {
	q, at, elsewhere := &r.request, s.urls[r.to].String(), countersign.LaneNotify+countersign.LaneWithdraw-r.to
	untyped := q.ContentType == "-"
	q.URL, q.ContentType = at, strings.TrimPrefix(q.ContentType, "-")
	var err error
	if q.Request, err = s.fakes.Forge(q.fault, q.Request, s.urls[elsewhere].String(), q.earlier); err != nil {
		return nil, err
	}
	if q.URL != at {
		q.to = elsewhere
	}
	body := cmp.Or[io.Reader](q.stream, bytes.NewReader(q.Body))
	req, err := http.NewRequestWithContext(ctx, cmp.Or(q.method, http.MethodPost), q.URL, body)
	if err != nil {
		return nil, err
	}
	req.Header = q.Header
	if q.stream != nil {
		req.ContentLength = int64(cmp.Or(q.length, -1))
	}
	if s.cfg.Sign != nil {
		r.asked = envelope.LinkHeaders(req.Header)
	} else if untyped {
		req.Header.Del("Content-Type")
	}
	req.Header.Set("User-Agent", UserAgent)
	if q.APIKey != "" {
		req.Header.Set(cmp.Or(s.cfg.APIKeyHeader, merchant.DefaultHeader), q.APIKey.Reveal())
	}
	return req, nil
}

// receive reads a response into r, as a service does.
func (s *session) receive(r *reply, resp *http.Response) {
	defer resp.Body.Close()
	r.status, r.header = resp.StatusCode, resp.Header
	var err error
	r.body, err = io.ReadAll(io.LimitReader(resp.Body, countersign.MaxMessage+1))
	if err != nil {
		r.status, r.err = 0, fmt.Errorf("the response broke off: %w", err)
		return
	}
	r.response, r.parseErr = countersign.ParseResponse(r.body)
	if r.parseErr == nil && r.response.Data != "" {
		w := envelope.Worker{Most: countersign.MaxAnswer(len(r.Plaintext))}
		r.answer, r.blocks, r.openErr = w.OpenBlocks(s.cfg.ResponseKey, s.cfg.ResponsePadding, []byte(r.response.Data))
	}
	if s.cfg.AnswerKey != nil {
		signed := envelope.LinkResponse{Status: r.status, Header: r.header, Body: r.body, Request: r.asked}
		r.signature, r.signErr = envelope.VerifyResponse(signed, s.cfg.AnswerKey)
		if r.signErr == nil && r.signature.Old(time.Now()) {
			r.signErr = errors.New("its time is more than five minutes from this clock")
		}
	}
}

// record adds r to the report.
func (s *session) record(r *reply) {
	e := Exchange{What: r.what, To: r.to.String() + " URL", Method: cmp.Or(r.method, http.MethodPost), Bytes: len(r.Body),
		Plaintext: s.show(r.Plaintext), Status: r.status}
	if r.stream != nil {
		e.Bytes = -1
	}
	if r.err != nil {
		e.Error = s.redact(r.err.Error())
	} else {
		e.Response, e.Answer = s.showResponse(r), s.show(r.answer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exchanges = append(s.exchanges, e)
}

// maxShown is how much of a text a report shows, in bytes.
const maxShown = 600

// show makes printable text of any bytes.
func (s *session) show(b []byte) string {
	if len(b) <= maxShown {
		return s.redact(printable(b))
	}
	return s.redact(printable(b[:maxShown])) + fmt.Sprintf(" … (%d bytes in all)", len(b))
}

// printable returns b without what would control a terminal.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, string(bytes.ToValidUTF8(b, []byte("\uFFFD"))))
}

// foreignKey finds the API key of a response, which may be somebody else's.
var foreignKey = regexp.MustCompile(`("apiKey"\s*:\s*)"[^"]*"`)

// showResponse returns the members of a response without its secrets.
func (s *session) showResponse(r *reply) string {
	if r.parseErr != nil {
		return cmp.Or(s.show(foreignKey.ReplaceAll(r.body, []byte(`$1"…"`))), "(empty)")
	}
	key, data := "another text", text(r.response.Data)
	if s.expectedKey(r) {
		key = "as expected"
	}
	if len(data) > 40 {
		data = fmt.Sprintf("%d characters", len(r.response.Data))
	}
	message := s.show([]byte(text(r.response.Message)))
	return fmt.Sprintf("{apiKey: %s, errCode: %d, message: %s, data: %s}", key, r.response.ErrCode, message, data)
}

// expectedKey reports whether the apiKey of r is the merchant's, if that is known.
func (k *Checker) expectedKey(r *reply) bool {
	return k.cfg.APIKey == "" || k.cfg.APIKey.Equal(r.response.APIKey)
}

// redact removes the secrets of the settings from a text of the endpoint.
func (s *session) redact(t string) string {
	for _, k := range []countersign.APIKey{s.cfg.APIKey, s.cfg.CallbackAPIKey} {
		if k != "" {
			t = strings.ReplaceAll(t, k.Reveal(), "[API key]")
		}
	}
	return strings.ReplaceAll(t, s.cfg.Key.PublicBase64(), "[key]")
}
