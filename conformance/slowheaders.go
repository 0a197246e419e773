package conformance

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"time"
)

// slowHeaderPause lies between two bytes of headers that never end. It is short, so
// that only a bound on all headers together ends them.
const slowHeaderPause = 50 * time.Millisecond

// slowHeaders sends a request whose headers come byte by byte and never end. No
// http.Client does that, so it writes to a connection itself.
func slowHeaders(s *session) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.SlowBody)
	defer cancel()
	q := request{what: "headers that never end"}
	r := &reply{request: q, index: s.begin(q)}
	defer s.end(r)
	conn, err := s.dialNotify(ctx)
	r.err = err
	arrived(r)
	defer conn.Close()
	ended := make(chan struct{}) // by the endpoint
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, conn) // a response, if any, ends with the connection
	}()
	target := s.urls[toNotify]
	_, r.err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nX-Endless: ", target.RequestURI(), target.Host)
	arrived(r)
	s.advice = "Serve every connection separately: one that hangs must not delay others."
	s.takes("a deposit while the headers of another request hang", s.deposit())
	s.advice = ""
	pause := time.NewTicker(slowHeaderPause)
	defer pause.Stop()
	for {
		select {
		case <-ended:
			r.err = io.EOF
			return
		case <-ctx.Done():
			r.err = ctx.Err()
			fail("Bound the time in which all headers must arrive, for example to 10 seconds, then close the connection.",
				"after %v the endpoint still waits for the rest of the headers", s.cfg.SlowBody)
		case <-pause.C:
			if _, r.err = conn.Write([]byte("x")); r.err != nil {
				return // it closed the connection
			}
		}
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
