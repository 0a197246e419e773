package conformance

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"countersign"
	"countersign/countersigntest"
)

// way is one way of sending a callback. make changes a correct attempt.
type way struct {
	name string
	make func(s *session, q *request)
}

func (w way) String() string { return w.name }

// each sends something in several ways, and afterwards fails with the first problem if one of them failed. It gives up
// when no response comes, because each of the others could take as long.
func each[W any](s *session, ways []W, send func(W)) {
	var first *verdict
	var also []string
	var shown []Exchange
	for _, way := range ways {
		v := catch(func() { send(way) })
		switch {
		case v == nil:
			continue
		case v.skip:
			s.note("%s", v.problem)
			continue
		case first == nil:
			first, shown = v, slices.Clone(s.exchanges)
		default:
			also = append(also, fmt.Sprintf("%.40q", fmt.Sprint(way)))
		}
		if n := len(s.exchanges); n > 0 && s.exchanges[n-1].Error != "" {
			break
		}
	}
	if first == nil {
		return
	}
	if len(also) > 0 {
		first.problem += fmt.Sprintf("; and of %d ways also %s", len(ways), strings.Join(also, ", "))
	}
	s.exchanges = shown
	panic(first)
}

// inTurn is a case that runs several, one after another.
func inTurn(runs ...func(*session)) func(*session) {
	return func(s *session) {
		for _, run := range runs {
			run(s)
		}
	}
}

// posts is a case of callbacks of type t, sent in each of the ways.
func posts(t countersign.Type, judge check, ways ...way) func(*session) {
	return func(s *session) {
		each(s, ways, func(w way) {
			q := s.attempt(t.Words()+" "+w.name, s.callback(t))
			w.make(s, &q)
			judge(s, s.send(q))
		})
	}
}

// edits is a case of callbacks of type t, each with one of the changes. A change is an edit of the message or, after
// "whole", what is sent in its place: %s is the message, %m its members.
func edits(t countersign.Type, judge check, changes ...string) func(*session) {
	return func(s *session) {
		each(s, changes, func(change string) {
			m := s.callback(t)
			whole, isWhole := strings.CutPrefix(change, "whole ")
			if !isWhole {
				m, whole = m.edit(change), "%s"
			}
			object := string(m.bytes())
			plain := []byte(strings.NewReplacer("%s", object, "%m", object[1:len(object)-1]).Replace(whole))
			q := s.attemptOf(strings.TrimSpace(fmt.Sprintf("%s %.60s", t.Words(), change)), m, plain)
			q.to = t.Lane() // whatever its type became
			judge(s, s.send(q))
		})
	}
}

// takes is a case of deposits that must be accepted, each with one of the changes.
func takes(changes ...string) func(*session) {
	return edits(countersign.TypeDeposited, (*session).taken, changes...)
}

// malformed is a case of deposits that must be refused as malformed, each with one of the changes.
func malformed(changes ...string) func(*session) {
	return edits(countersign.TypeDeposited, (*session).notOpened, changes...)
}

// then is a case of a deposit that is accepted, and of another one made of it, which is judged. A way says how both
// differ from others, " => ", and how the second differs from the first.
func then(judge check, ways ...string) func(*session) {
	return func(s *session) {
		each(s, ways, func(way string) {
			both, second, _ := strings.Cut(way, " => ")
			m := s.deposit().edit(both)
			s.takes("a deposit", m)
			judge(s, s.post("then one with "+second, m.edit(second)))
			s.takes("the first deposit once more", m)
		})
	}
}

// asked is a case of questions like that about the known order, with one of the changes. The correct question comes
// first, so that an endpoint that keeps its first answer for a callBackId does not keep the refusal of this case, and
// once more afterwards.
func asked(judge check, changes ...string) func(*session) {
	return func(s *session) {
		each(s, changes, func(change string) {
			m := s.known().edit(change)
			if change != "" && bytes.Equal(m.bytes(), s.known().bytes()) {
				skip("the callBackId of the order has no letters")
			}
			s.knownOrder()
			judge(s, s.post("the known order with "+change, m))
			s.knownOrder()
		})
	}
}

// notified is a case of notices that must be accepted. A way is the type of one and what is edited in it, or several
// that are sent under one trackingId, with " => " between them.
func notified(ways ...string) func(*session) {
	return func(s *session) {
		each(s, ways, func(way string) {
			var m message
			for step := range strings.SplitSeq(way, " => ") {
				number, edit, _ := strings.Cut(step, " ")
				t := countersign.Type(number[0] - '0')
				if m == nil { // a change of address has a trackingId if it may have to be sent again
					m = s.callback(t).set("trackingId", text(s.id()))
				}
				m = m.edit("type " + number + " & " + edit)
				s.noticed(s.post("notices "+way, m), t)
			}
		})
	}
}

// faulty makes an attempt with the fault f, and the earlier one that it may need.
func (s *session) faulty(t countersign.Type, m message, f countersigntest.ServiceFault) *reply {
	attempt := func(what string, m message) request {
		q := s.attempt(t.Words()+what, m)
		q.to, q.UUID = t.Lane(), cmp.Or(q.UUID, m.str("requestUUID")) // whatever type the message says
		return q
	}
	q := attempt("", m)
	if f != countersigntest.NoServiceFault {
		q.what, q.fault = q.what+"; fault: "+f.About(), f
	}
	if f.NeedsEarlier() {
		q.earlier = s.send(attempt(", an earlier one", m.twin())).Request
	}
	r := s.send(q)
	if r.Header == nil {
		skip("%v", r.err) // nothing was sent
	}
	return r
}

// refuses is a case in which a callback of type t with each of the faults must be refused, as PROTOCOL.md has it.
func refuses(t countersign.Type, faults ...countersigntest.ServiceFault) func(*session) {
	return func(s *session) {
		each(s, faults, func(f countersigntest.ServiceFault) {
			r := s.faulty(t, s.subject(t), f)
			switch refusal := f.Refusal(); refusal {
			case "400":
				s.notOpened(r)
			case "401":
				status(http.StatusUnauthorized)(s, r)
			case "1004":
				s.judged(r, countersign.CodeWrongURL)
			default:
				s.notSigned(r, refusal)
			}
		})
	}
}

const instant = 8 // attempts at the same time

// atOnce is a case of one callback in several attempts at the same time. The endpoint may answer "try again" (a
// hold or a failure of its own) to all but one. It must not refuse any, and must accept the callback afterwards.
func atOnce(t countersign.Type) func(*session) {
	return func(s *session) {
		m := s.subject(t)
		requests := make([]request, instant)
		for i := range requests {
			requests[i] = s.attempt(fmt.Sprintf("attempt %d of %d at once", i+1, instant), m)
		}
		taken := 0
		for _, r := range s.atOnce(requests) {
			statusIs(r, http.StatusOK)
			s.wellFormed(r)
			switch r.response.ErrCode.Class() {
			case countersign.ClassHold, countersign.ClassFailure:
				s.note("some attempts at the same time were asked to try again (errCode %d)", r.response.ErrCode)
			default:
				s.settles(r, t)
				taken++
			}
		}
		if taken == 0 {
			fail("Answer one of several attempts that come at once.", "none of %d attempts at once was accepted", instant)
		}
		s.settles(s.post("the same callback afterwards", m), t)
	}
}
