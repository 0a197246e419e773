package conformance

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
)

// httpCases are about the transport around the sealed body.
func httpCases() []Case {
	callbackKey := []*Need{NeedCallbackKey}
	return []Case{
		{601, Should, "http/other-method", "HTTP, H2", "A method other than POST is answered with status 405.", nil, otherMethods},
		{602, Must, "http/no-api-key", "HTTP, H2", "A request without X-API-KEY is answered with status 401.", callbackKey, apiKey(func(string) string { return "" })},
		{603, Must, "http/wrong-api-key", "HTTP, H2", "A request with another X-API-KEY is answered with status 401.", callbackKey,
			apiKey(func(k string) string { return strings.Repeat("x", len(k)) })},
		{604, Must, "http/longer-api-key", "HTTP, H2", "An X-API-KEY that only begins with the right one is wrong.", callbackKey,
			apiKey(func(k string) string { return k + "x" })},
		{605, Must, "http/shorter-api-key", "HTTP, H2", "The beginning of the right X-API-KEY is wrong.", callbackKey,
			apiKey(func(k string) string { return k[:len(k)-1] })},
		{606, Must, "http/other-case-api-key", "HTTP, H2", "An X-API-KEY in another case is wrong.", callbackKey,
			apiKey(func(k string) string {
				if up := strings.ToUpper(k); up != k {
					return up
				}
				return strings.ToLower(k)
			})},
		{607, Should, "http/any-content-type", "Body forms, F1", "The Content-Type has no effect on a bare body.", nil, anyContentType},
		{608, Should, "http/chunked", "HTTP, H2", "A body without a Content-Length is read.", nil, chunkedBody},
		{609, Should, "http/largest-body", "HTTP, H2", "A body of exactly 65,536 bytes is read.", nil, largestBody},
		{610, Should, "http/largest-message", "HTTP, H2", "A message that fills the largest body is accepted.", nil, largestMessage},
		{611, Should, "http/too-large", "HTTP, H2", "A body of 65,537 bytes is answered with status 413, whatever is in it.", nil, tooLarge},
		{612, Must, "http/endless", "HTTP, H2", "A body without end is cut off.", nil, endless},
		{613, Should, "http/slow-body", "HTTP, H2", "A body that stops half-way is given up, and delays no other request.", nil, slowBody},
		{614, Should, "http/empty-body", "HTTP, H2", "An empty body is answered with status 400.", nil, emptyBody},
		{615, Must, "http/deposit-at-withdraw-url", "Error codes, 1004", "Type 1 at the withdraw URL is answered with errCode 1004 and not processed.", nil,
			refuses(countersign.TypeDeposited, countersigntest.FaultWrongURL)},
		{616, Must, "http/notice-at-withdraw-url", "Error codes, 1004", "Type 3 at the withdraw URL is answered with errCode 1004.", nil,
			refuses(countersign.TypeWithdraw, countersigntest.FaultWrongURL)},
		{617, Must, "http/withdrawal-at-notify-url", "Error codes, 1004", "Type 2 at the notify URL is answered with errCode 1004 and never confirmed.", nil,
			refuses(countersign.TypeRequestWithdraw, countersigntest.FaultWrongURL)},
		{618, Should, "http/slow-headers", "HTTP, H2", "A request whose headers never end is given up, and delays no other request.", nil, slowHeaders},
		{619, Must, "http/public-part-alone", "Keys, K8", "With a pair that the merchant made, a request without X-API-KEY is answered with status 401.",
			[]*Need{NeedOwnPair}, refuses(countersign.TypeDeposited, countersigntest.FaultNoAPIKey)},
	}
}

func otherMethods(s *session) {
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		for _, to := range []destination{toNotify, toWithdraw} {
			q := request{what: method + " in place of POST"}
			if method == http.MethodPut {
				q = s.attempt(q.what, s.deposit())
			}
			q.method, q.to = method, to
			s.turnedAway(s.send(q), http.StatusMethodNotAllowed)
		}
	}
}

func apiKey(change func(string) string) func(*session) {
	return func(s *session) {
		wrong := countersign.APIKey(change(s.cfg.CallbackAPIKey.Reveal()))
		if wrong == s.cfg.CallbackAPIKey {
			skip("the callback API key has no letters")
		}
		s.advice = countersigntest.FaultNoAPIKey.Fix()
		d := s.attempt("a deposit with a wrong X-API-KEY, or none", s.deposit())
		w := s.attempt("a withdrawal with a wrong X-API-KEY, or none", s.unknown())
		for _, q := range []request{d, w} {
			q.apiKey = &wrong
			s.turnedAway(s.send(q), http.StatusUnauthorized)
		}
	}
}

func anyContentType(s *session) {
	s.advice = "Read the raw body before any parser does; the Content-Type must not choose a parser."
	for _, t := range []string{"-", "text/plain", "application/json", "application/octet-stream", "application/x-www-form-urlencoded; charset=UTF-8", "multipart/form-data; boundary=x"} {
		q := s.attempt("a deposit with the Content-Type "+t, s.deposit())
		if t == "-" {
			q.what = "a deposit without Content-Type"
		}
		q.contentType = t
		s.takesBody(q)
	}
}

func chunkedBody(s *session) {
	s.advice = "Read the body to its end; Content-Length may be missing."
	q := s.attempt("a deposit in a chunked body", s.deposit())
	q.stream = bytes.NewReader(q.body)
	s.takesBody(q)
}

// padded is body with white space behind it, n bytes in all.
func padded(body []byte, n int) []byte {
	return append(slices.Clip(body), bytes.Repeat([]byte("\n"), n-len(body))...)
}

func largestBody(s *session) {
	s.advice = "A body may have up to 65,536 bytes; ignore white space around the Base64."
	q := s.attempt("a deposit, the body filled up to 65,536 bytes with line ends", s.deposit())
	q.body = padded(q.body, envelope.MaxBody)
	s.takesBody(q)
}

func largestMessage(s *session) {
	m := s.deposit()
	room := s.cfg.Key.MaxPlaintext(s.cfg.Padding) - len(m.add("memo", `""`).bytes())
	s.takes("a deposit as long as the largest body carries", m.add("memo", text(strings.Repeat("m", room))))
}

func tooLarge(s *session) {
	q := s.attempt("a deposit, the body filled up to 65,537 bytes with line ends", s.deposit())
	q.body = padded(q.body, envelope.MaxBody+1)
	s.turnedAway(s.send(q), http.StatusRequestEntityTooLarge)
}

// endlessBytes is far more than a body may have, but bounded: the case must not
// flood a network.
const endlessBytes = 4 << 20

// endless also accepts a closed connection: the response of an endpoint that
// stops reading may not arrive.
func endless(s *session) {
	s.advice = "Stop reading after 65,536 bytes, whether or not the length was announced."
	q := s.attempt("a deposit, and "+strconv.Itoa(endlessBytes>>20)+" MiB of line ends behind it", s.deposit())
	q.stream = bytes.NewReader(padded(q.body, len(q.body)+endlessBytes))
	s.expect(q, 0)
	r := s.send(q)
	if r.err == nil || errors.Is(r.err, context.DeadlineExceeded) {
		s.turnedAway(r, http.StatusRequestEntityTooLarge)
	}
}

func emptyBody(s *session) {
	s.advice = "An empty body is no callback: answer it like any other that does not open."
	for _, to := range []destination{toNotify, toWithdraw} {
		s.notOpened(s.send(request{what: "an empty body", to: to}))
	}
}
