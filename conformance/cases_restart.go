package conformance

import (
	"context"
	"slices"
	"sync"
	"time"

	"countersign"
)

// restartCases kill the endpoint. What it answered with errCode 0 must outlive that, because a service tells nothing
// again that was accepted; and what it began must not be done twice. The last one looks at the ledger of the
// application, which no response shows; each other case does so for its own deposits.
func restartCases() []Case {
	restart := []*Need{NeedRestart}
	return []Case{
		{1101, Must, money, "restart/accepted", "Deposit identity, I1",
			"Deposits that were accepted just before a kill are known and credited after it, and credited once.", restart,
			restartAccepted},
		{1102, Must, money, "restart/at-work", "Deposit identity, I1",
			"Of deposits on their way during a kill, those accepted stay, and all are credited once when they are told again.",
			restart, restartAtWork},
		{1103, Must, ours, "restart/possible-duplicate", "Deposit identity, I2",
			"A transfer that was accepted before a kill and comes under another trackingId is recorded, not credited.",
			[]*Need{NeedRestart, NeedEffects}, restartDuplicate},
		{1104, Must, ours, "restart/withdrawal", "Decision, D4",
			"An order that was confirmed before a kill is confirmed after it, and under no other trackingId.",
			[]*Need{NeedRestart, NeedOrder}, restartWithdrawal},
		{1105, Must, ours, "restart/seen-block", "Binding, B5",
			"A first block that was seen before a kill, with another rest, is refused.", []*Need{NeedRestart, NeedUnbound},
			func(s *session) { s.firstBlock(s.restart) }},
		{1203, Must, ours, "credit/later", "Deposit identity, I1",
			"At the end of the run every deposit of it is credited as it was when its case ended.", []*Need{NeedEffects},
			creditLater},
	}
}

// knows checks that the endpoint knows m, which it accepted: it is a repetition, and another
// amount is a contradiction. That comes first, since an endpoint that forgot m takes it.
func (s *session) knows(m message) {
	r := s.post("the deposit with another amount, after the restart", m.set("amount", `"9.75"`))
	s.judged(r, countersign.CodeDetailsDiffer)
	s.takes("the deposit again, after the restart", m)
}

// restartAccepted asks for what a service alone sees of half the deposits, and of the
// others for what became of the credit when they are sent again.
func restartAccepted(s *session) {
	var told []message
	for range 6 {
		told = append(told, s.deposit())
		s.takes("a deposit before the restart", told[len(told)-1])
	}
	s.restart()
	s.credited()
	for _, m := range told[:3] {
		s.takes("the deposit again, after the restart", m)
	}
	s.credited()
	for _, m := range told[3:] {
		s.knows(m)
	}
}

// credited compares the credits so far, if they can be seen.
func (s *session) credited() {
	if s.cfg.Effects != nil {
		s.compare(s.effects)
	}
}

const (
	kills   = 3
	streams = 8   // of deposits at once while the endpoint is killed
	longest = 100 // deposits of a stream
)

// restartAtWork kills the endpoint while deposits come, so that a kill can meet it between
// two steps of its work.
func restartAtWork(s *session) {
	for n := range kills {
		last, open := s.killAtWork()
		if len(last) == 0 {
			fail("Accept deposits that come at the same time.", "none of the deposits before kill %d was accepted", n+1)
		}
		s.credited()
		for _, m := range open {
			s.takes("a deposit that was on its way during the kill, told again", m)
		}
		for _, m := range last {
			s.knows(m)
		}
		s.credited()
	}
}

// killAtWork kills the endpoint while it gets streams of deposits, each one after another. It returns the last that was
// accepted of each stream, and those without an answer.
func (s *session) killAtWork() (last, open []message) {
	var begun, work sync.WaitGroup
	ctx, stop := context.WithCancel(s.ctx)
	defer func() { stop(); work.Wait() }() // also where the restart fails
	accepted, unanswered := make([]message, streams), make([]message, streams)
	begun.Add(streams)
	for i := range streams {
		work.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			// The pauses grow, so that a kill that takes long to come meets deposits, too.
			for n := 0; n < longest && (n == 0 || sleep(ctx, time.Duration(n-1)*2*time.Millisecond)); n++ {
				m := s.deposit()
				q := s.attempt("a deposit during the kill", m)
				if s.send(q).code() != countersign.CodeAccepted {
					unanswered[i] = m
					return
				}
				s.expect(q, 1)
				accepted[i] = m
				first()
			}
		})
	}
	begun.Wait()
	s.kill()
	stop()
	work.Wait()
	s.awaitStart()
	missing := func(m message) bool { return m == nil }
	return slices.DeleteFunc(accepted, missing), slices.DeleteFunc(unanswered, missing)
}

func restartDuplicate(s *session) {
	m := s.deposit().set("txIndex", "-1")
	s.takes("a deposit before the restart", m)
	s.restart()
	r := s.takes("the same transfer under another trackingId, after the restart", m.set("trackingId", text(s.id())))
	s.expect(r.request, 0)
}

// restartWithdrawal asks under the other trackingId first, since an endpoint that forgot
// takes whichever comes first.
func restartWithdrawal(s *session) {
	s.knownOrder()
	s.restart()
	if !s.cfg.Other {
		s.contradicts(s.post("the order under another trackingId, after the restart", s.known().edit(`trackingId "{id}-2"`)))
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
