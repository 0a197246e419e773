package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
)

// httpCases are about the transport around the sealed body.
func httpCases() []Case {
	return []Case{
		{601, Should, ours, "http/other-method", "HTTP, H2", "A method other than POST is answered with status 405.", nil,
			otherMethods},
		{602, Must, money, "http/api-key", "HTTP, H2",
			"A request without X-API-KEY, or with one that differs in any way, is answered with status 401.",
			[]*Need{NeedCallbackKey}, apiKeys},
		{607, Should, ours, "http/any-content-type", "Body forms, F1", "The Content-Type has no effect on a bare body.",
			nil, anyContentType},
		{608, Should, ours, "http/chunked", "HTTP, H2", "A body without a Content-Length is read.", nil, chunkedBody},
		{609, Should, ours, "http/largest", "HTTP, H2",
			"A body of exactly 65,536 bytes is read, and a message that fills one is accepted.", nil, largest},
		{611, Should, ours, "http/too-large", "HTTP, H2",
			"A body of 65,537 bytes is answered with status 413, whatever is in it.", nil, tooLarge},
		{612, Must, ours, "http/endless", "HTTP, H2", "A body without end is cut off.", nil, endless},
		{613, Should, ours, "http/slow-body", "HTTP, H2",
			"A body that stops half-way is given up, and delays no other request.", nil, slowBody},
		{614, Should, ours, "http/empty-body", "HTTP, H2", "An empty body is answered with status 400.", nil, emptyBody},
		{615, Must, ours, "http/wrong-url", "Error codes, 1004",
			"Types 1 and 3 at the withdraw URL and type 2 at the notify URL get errCode 1004 and have no effect.", nil,
			func(s *session) {
				for _, t := range []countersign.Type{1, 3, 2} {
					refuses(t, countersigntest.FaultWrongURL)(s)
				}
			}},
		{618, Should, ours, "http/slow-headers", "HTTP, H2",
			"A request whose headers never end is given up, and delays no other request.", nil, slowHeaders},
		{619, Must, ours, "http/public-part-alone", "Keys, K8",
			"With a pair that the merchant made, a request without X-API-KEY is answered with status 401.",
			[]*Need{NeedOwnPair}, refuses(countersign.TypeDeposited, countersigntest.FaultNoAPIKey)},
	}
}

// urls are the names of both destinations.
var urls = []string{toNotify.String(), toWithdraw.String()}

func otherMethods(s *session) {
	s.each([]string{http.MethodGet, http.MethodPut, http.MethodDelete}, func(method string) {
		for to := range urls {
			q := request{what: method + " in place of POST"}
			if method == http.MethodPut {
				q = s.attempt(q.what, s.deposit())
			}
			q.method, q.to = method, destination(to)
			s.turnedAway(s.send(q), http.StatusMethodNotAllowed)
		}
	})
}

func apiKeys(s *session) {
	right := s.cfg.CallbackAPIKey.Reveal()
	otherCase := strings.ToUpper(right)
	if otherCase == right {
		otherCase = strings.ToLower(right)
	}
	wrong := map[string]string{"none": "", "another": strings.Repeat("x", len(right)), "a longer one": right + "x",
		"the beginning of the right one": right[:len(right)-1], "the right one in another case": otherCase}
	s.each(slices.Sorted(maps.Keys(wrong)), func(way string) {
		if wrong[way] == right {
			skip("the callback API key has no letters")
		}
		for _, m := range []message{s.deposit(), s.unknown()} {
			key := countersign.APIKey(wrong[way])
			q := s.attempt("a callback whose X-API-KEY is "+way, m)
			q.apiKey = &key
			s.turnedAway(s.send(q), http.StatusUnauthorized)
		}
	})
}

func anyContentType(s *session) {
	s.each([]string{"-", "text/plain", "application/json", "application/octet-stream",
		"application/x-www-form-urlencoded; charset=UTF-8", "multipart/form-data; boundary=x"}, func(t string) {
		q := s.attempt("a deposit with the Content-Type "+t, s.deposit())
		q.contentType = t
		s.takesBody(q)
	})
}

func chunkedBody(s *session) {
	q := s.attempt("a deposit in a chunked body", s.deposit())
	q.stream = bytes.NewReader(q.body)
	s.takesBody(q)
}

// padded is an attempt of a deposit with line ends behind it, n bytes in all.
func (s *session) padded(n int) request {
	q := s.attempt(fmt.Sprintf("a deposit, the body filled up to %d bytes with line ends", n), s.deposit())
	q.body = append(slices.Clip(q.body), bytes.Repeat([]byte("\n"), n-len(q.body))...)
	return q
}

func largest(s *session) {
	s.takesBody(s.padded(envelope.MaxBody))
	m := s.deposit()
	room := s.cfg.Key.MaxPlaintext(s.cfg.Padding) - len(m.add("memo", `""`).bytes())
	s.takes("a deposit as long as the largest body carries", m.add("memo", text(strings.Repeat("m", room))))
}

func tooLarge(s *session) {
	s.turnedAway(s.send(s.padded(envelope.MaxBody+1)), http.StatusRequestEntityTooLarge)
}

// endless sends far more than a body may have, but an end: the case must not flood a network. It also accepts a closed
// connection: the response of an endpoint that stops reading may not arrive.
func endless(s *session) {
	q := s.padded(4 << 20)
	q.stream = bytes.NewReader(q.body)
	s.expect(q, 0)
	r := s.send(q)
	if r.err == nil || errors.Is(r.err, context.DeadlineExceeded) {
		s.turnedAway(r, http.StatusRequestEntityTooLarge)
	}
}

func emptyBody(s *session) {
	for to := range urls {
		s.notOpened(s.send(request{what: "an empty body", to: destination(to)}))
	}
}
