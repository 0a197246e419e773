package conformance

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	// startWait is how long an endpoint may take to answer again after Config.Restart.
	startWait = 2 * time.Minute
	// A connection to a process that was killed ends at once, which a busy machine may notice
	// late. One that is open after soon makes a note; one that is open after late is not
	// waited for, since something stands before the endpoint.
	soon = 500 * time.Millisecond
	late = 3 * time.Second
)

// restart has the endpoint killed and started, and waits until it answers.
func (s *session) restart() {
	before := s.watch()
	if err := s.cfg.Restart(s.ctx); err != nil {
		fail("Look at the command of --restart: it must kill the endpoint, start it again and end.", "restarting the endpoint: %v", err)
	}
	s.client.CloseIdleConnections()
	s.died(before)
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

// watch opens a connection that ends with the endpoint's process; nil if none can be had.
func (s *session) watch() net.Conn {
	conn, err := s.dial(s.ctx, s.urls[toNotify])
	if err != nil {
		return nil
	}
	return conn
}

// died waits until the connection of before ends, so that no later request meets the process
// that was killed.
func (s *session) died(before net.Conn) {
	if before == nil {
		return
	}
	defer before.Close()
	for _, wait := range []time.Duration{soon, late} {
		_ = before.SetReadDeadline(time.Now().Add(wait))
		if _, err := io.Copy(io.Discard, before); !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		s.note("a connection to the endpoint stayed open over the restart: something stands before it, or nothing was killed")
	}
}
