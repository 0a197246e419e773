package conformance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"countersign/envelope"
)

// slowPause lies between two bytes of headers that never end. It is short, so that only a bound on all
// headers together ends them.
const slowPause = 50 * time.Millisecond

// slowHeaders sends a request whose headers come byte by byte and never end.
func slowHeaders(s *session) {
	target := s.urls[toNotify]
	start := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nX-Endless: ", target.RequestURI(), target.Host)
	s.hangs(&reply{request: request{what: "headers that never end"}}, start, "x")
}

// slowBody sends half of the announced bytes and then nothing. The half holds the whole deposit, which shows
// whether the endpoint ignores the length.
func slowBody(s *session) {
	q := s.attempt("half of a body", s.deposit())
	s.expect(q, 0)
	q.body = padded(q.body, envelope.MaxBody)
	r := &reply{request: q}
	req, err := s.newRequest(s.ctx, r)
	if err != nil {
		skip("the request cannot be made: %v", err)
	}
	var start bytes.Buffer
	fmt.Fprintf(&start, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", req.URL.RequestURI(), req.Host, len(q.body))
	_ = req.Header.Write(&start)
	fmt.Fprintf(&start, "\r\n%s", q.body[:len(q.body)/2])
	if s.hangs(r, start.String(), ""); r.err == nil { // it may also close the connection
		s.advice = "Never process half a body."
		s.notAccepted(r)
	}
}

// hangs sends start, then rest again and again, and no end of the request. The endpoint must serve others
// meanwhile, and end the exchange itself. No http.Client sends such a request.
func (s *session) hangs(r *reply, start, rest string) {
	r.index = s.begin(r.request)
	defer s.end(r)
	conn, err := s.dialNotify(s.ctx)
	r.err = err
	arrived(r)
	_ = conn.SetDeadline(time.Now().Add(s.cfg.SlowBody))
	defer context.AfterFunc(s.ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	ended := make(chan struct{}) // by the endpoint
	go func() {
		defer close(ended)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if r.err = err; err == nil {
			s.receive(r, resp)
		}
	}()
	defer func() { _ = conn.Close(); <-ended }()
	_, _ = conn.Write([]byte(start)) // a connection that the endpoint closed ends the reading too
	s.advice = "Serve every connection separately: one that hangs must not delay others."
	s.takes("a deposit while another request hangs", s.deposit())
	s.advice = ""
	pause := time.NewTicker(slowPause)
	defer pause.Stop()
	for waits := true; waits; {
		select {
		case <-ended:
			waits = false
		case <-pause.C:
			_, _ = conn.Write([]byte(rest))
		}
	}
	if errors.Is(r.err, os.ErrDeadlineExceeded) {
		fail("Bound the time in which all headers and a body must arrive, for example to 10 seconds, then close the connection.",
			"after %v the endpoint still waits for the rest of %s", s.cfg.SlowBody, r.what)
	}
}

// dialNotify connects to the notify URL as the client does.
func (s *session) dialNotify(ctx context.Context) (net.Conn, error) {
	target := s.urls[toNotify]
	conn, err := s.dial(ctx, target)
	if err != nil || target.Scheme != "https" {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{ServerName: target.Hostname()})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}
