package conformance

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"countersign"
)

// restartCases kill the endpoint. What it answered with errCode 0 must outlive that, because a service tells nothing
// again that was accepted; and what it began must not be done twice. The last one looks at the ledger of the
// application, which no response shows; each other case does so for its own deposits.
func restartCases() []Case {
	return []Case{
		{1101, Must, money, "restart/accepted", "Deposit identity, I1, I2",
			"Deposits that were accepted before a kill, or were on their way, are known or taken after it, and credited once.",
			[]*Need{NeedRestart}, restartAccepted},
		{1104, Must, ours, "restart/withdrawal", "Decision, D4",
			"An order that was confirmed before a kill is confirmed after it, and under no other trackingId.",
			[]*Need{NeedRestart, NeedOrder}, restartWithdrawal},
		{1203, Must, ours, "credit/later", "Deposit identity, I1",
			"At the end of the run every deposit of it is credited as it was when its case ended.", []*Need{NeedEffects},
			creditLater},
	}
}

const (
	kills   = 3
	streams = 8   // of deposits at once while the endpoint is killed
	longest = 100 // deposits of a stream
)

// restartAccepted kills the endpoint while deposits come, so that a kill can meet it between two steps of its work.
// Afterwards it first sends a known deposit with another amount, which only an endpoint that forgot it takes.
func restartAccepted(s *session) {
	for range kills {
		m := s.deposit().set("txIndex", "-1")
		s.takes("a deposit before the kill", m)
		accepted, open := s.killAtWork()
		s.credited()
		s.suspected(s.post("the same transfer under another trackingId, after the kill", m.edit(`trackingId "{id}-2"`)))
		for _, m := range open {
			s.takes("a deposit that was on its way during the kill, sent again", m)
		}
		for _, m := range append(accepted[max(0, len(accepted)-streams):], m) {
			s.contradicts(s.post("the deposit with another amount, after the kill", m.set("amount", `"9.75"`)))
			s.takes("the deposit again, after the kill", m)
		}
		s.credited()
	}
}

// killAtWork kills the endpoint while it gets streams of deposits, each one after another. It returns those that were
// accepted, and those without an answer.
func (s *session) killAtWork() (accepted, open []message) {
	var mu sync.Mutex
	var work sync.WaitGroup
	ctx, stop := context.WithCancel(s.ctx)
	defer func() { stop(); work.Wait() }() // also where the restart fails
	for range streams {
		work.Go(func() {
			// The pauses grow, so that a kill that takes long to come meets deposits, too.
			for n := 0; n < longest && sleep(ctx, time.Duration(n)*2*time.Millisecond); n++ {
				q := s.attempt("a deposit during the kill", s.deposit())
				taken := s.send(q).code() == countersign.CodeAccepted
				mu.Lock()
				if taken {
					accepted = append(accepted, q.m)
				} else {
					open = append(open, q.m)
				}
				mu.Unlock()
				if !taken {
					return
				}
				s.expect(q, 1)
			}
		})
	}
	s.kill()
	stop()
	work.Wait()
	s.awaitStart()
	return accepted, open
}

// restartWithdrawal asks under the other trackingId first, since an endpoint that forgot
// takes whichever comes first.
func restartWithdrawal(s *session) {
	s.knownOrder()
	s.restart()
	if !s.cfg.Other {
		s.contradicts(s.post("the order under another trackingId, after the kill", s.known().edit(`trackingId "{id}-2"`)))
	}
	s.knownOrder()
}

// creditLater looks at all deposits of the cases that passed, and at two of its own.
func creditLater(s *session) {
	s.takes("a deposit", s.deposit())
	s.compare(s.effects)
	s.takes("another deposit", s.deposit())
	s.compare(s.settled)
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
	before, err := s.dial(s.ctx, s.urls[countersign.LaneNotify]) // a connection that ends with the endpoint's process
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
