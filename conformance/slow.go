package conformance

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"countersign"
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
	q := s.padded(envelope.MaxBody)
	q.what = "half of a body"
	s.expect(q, 0)
	r := &reply{request: q}
	req, err := s.newRequest(s.ctx, r)
	if err != nil {
		skip("the request cannot be made: %v", err)
	}
	var start strings.Builder
	fmt.Fprintf(&start, "POST %s HTTP/1.1\r\nHost: %s\r\n", req.URL.RequestURI(), req.Host)
	fmt.Fprintf(&start, "Content-Length: %d\r\n", len(q.body))
	_ = req.Header.Write(&start)
	fmt.Fprintf(&start, "\r\n%s", q.body[:len(q.body)/2])
	if s.hangs(r, start.String(), ""); r.err == nil { // it may also close the connection
		if r.code() == countersign.CodeAccepted {
			fail("", "%s: it was accepted, with errCode 0", r.what)
		}
	}
}

// hangs sends start, then rest again and again, and no end of the request. The endpoint must serve others
// meanwhile, and end the exchange itself. No http.Client sends such a request.
func (s *session) hangs(r *reply, start, rest string) {
	defer s.record(r)
	conn, err := s.dial(s.ctx, s.urls[toNotify])
	r.err = err
	arrived(r)
	if s.urls[toNotify].Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: s.urls[toNotify].Hostname()})
	}
	_ = conn.SetDeadline(time.Now().Add(s.cfg.SlowBody))
	defer context.AfterFunc(s.ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	_, _ = conn.Write([]byte(start)) // a connection that the endpoint closed ends the reading too
	ended := make(chan struct{})     // by the endpoint
	go func() {
		defer close(ended)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if r.err = err; err == nil {
			s.receive(r, resp)
		}
	}()
	defer func() { _ = conn.Close(); <-ended }()
	s.takes("a deposit while another request hangs", s.deposit())
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
		fail("Bound the time in which all headers and a body must arrive, for example to 10 s, then close the connection.",
			"after %v the endpoint still waits for the rest of %s", s.cfg.SlowBody, r.what)
	}
}

const (
	// startWait is how long an endpoint may take to answer again after Config.Restart.
	startWait = 2 * time.Minute
	// deathWait is how long a connection may outlive a process that was killed, on a busy machine. One that is open
	// after it is not waited for, since something stands before the endpoint.
	deathWait = 3 * time.Second
)

// restart has the endpoint killed and started, and waits until it answers.
func (s *session) restart() {
	s.kill()
	s.awaitStart()
}

// kill has the endpoint killed and started.
func (s *session) kill() {
	before, err := s.dial(s.ctx, s.urls[toNotify]) // a connection that ends with the endpoint's process
	if restartErr := s.cfg.Restart(s.ctx); restartErr != nil {
		fail("Look at the command of --restart: it must kill the endpoint, start it again and end.",
			"restarting the endpoint: %v", restartErr)
	}
	s.client.CloseIdleConnections()
	if err == nil { // no later request meets the process that was killed
		defer before.Close()
		_ = before.SetReadDeadline(time.Now().Add(deathWait))
		if _, err := before.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			s.note("a connection to the endpoint stayed open over the restart: " +
				"something stands before it, or nothing was killed")
		}
	}
}

// awaitStart waits until the endpoint answers. Nothing else is sent meanwhile: the report leaves out
// the tries that failed.
func (s *session) awaitStart() {
	ctx, cancel := context.WithTimeout(s.ctx, startWait)
	defer cancel()
	probe := s.deposit()
	for {
		n := len(s.exchanges)
		r := s.post("a deposit after the restart", probe)
		if r.err == nil && r.status == http.StatusOK {
			return
		}
		if !sleep(ctx, 100*time.Millisecond) {
			fail("The command of --restart must start the endpoint again, with the settings and the data that it had.",
				"the endpoint does not answer a deposit %v after the restart", startWait)
		}
		s.exchanges = s.exchanges[:n]
	}
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
