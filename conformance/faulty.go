package conformance

import (
	"cmp"

	"countersign"
	"countersign/countersigntest"
)

// faulty makes the exchanges of an attempt with the fault f. The last one is to be judged.
func (s *session) faulty(t countersign.Type, m message, f countersigntest.ServiceFault) *reply {
	attempt := func(what string, m message) request {
		q := s.attempt(t.Words()+what, m)
		q.to, q.uuid = destinationOf(t), cmp.Or(q.uuid, m.str("requestUUID")) // whatever type the message says
		return q
	}
	q := attempt("", m)
	switch {
	case f == countersigntest.FaultReplyLost:
		s.send(q)
		e := &s.exchanges[len(s.exchanges)-1]
		e.Status, e.Response, e.Answer, e.Error = 0, "", "", "the reply was lost on purpose"
		return s.send(attempt(", sent again because the reply was lost", m))
	case f == countersigntest.FaultTwice:
		return s.atOnce([]request{q, attempt(", a second attempt at the same time", m)})[1]
	case f == countersigntest.FaultRepeated:
		s.send(q)
		q.what += ", the same body again"
	case f.NeedsEarlier():
		q.earlier = s.send(attempt(", an earlier one", m.twin())).posted
		fallthrough
	case f != countersigntest.NoServiceFault:
		q.what, q.fault = q.what+"; fault: "+f.About(), f
	}
	r := s.send(q)
	if r.posted.Header == nil {
		skip("%v", r.err) // nothing was sent
	}
	return r
}
