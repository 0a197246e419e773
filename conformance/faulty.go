package conformance

import (
	"cmp"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
)

// faulty makes the exchanges of an attempt with the fault f, in the form of the config. The last one is to be judged.
func (s *session) faulty(t countersign.Type, m message, f countersigntest.ServiceFault) *reply {
	to := destinationOf(t) // whatever type the message says
	var earlier countersigntest.Request
	attempt := func(what string, m message, f countersigntest.ServiceFault) (request, countersigntest.Request) {
		q := s.attempt(t.Words()+what, m)
		r := countersigntest.Request{Plaintext: q.plaintext, UUID: cmp.Or(q.uuid, m.str("requestUUID")), Sealed: q.body,
			URL: s.urls[to].String(), APIKey: s.cfg.CallbackAPIKey}
		if s.cfg.Form == envelope.FormString || s.cfg.Form == envelope.FormObject {
			r.ContentType = "application/json"
		}
		r, err := s.fakes.Forge(f, r, s.urls[toNotify+toWithdraw-to].String(), earlier)
		if err != nil {
			skip("%v", err)
		}
		q.to, q.plaintext, q.uuid, q.body, q.header, q.apiKey = to, r.Plaintext, r.UUID, r.Body, r.Header, &r.APIKey
		if f == countersigntest.FaultWrongURL {
			q.to = toNotify + toWithdraw - to
		}
		return q, r
	}
	const none = countersigntest.NoServiceFault
	q, _ := attempt("", m, none)
	switch f {
	case none:
		return s.send(q)
	case countersigntest.FaultReplyLost:
		s.send(q)
		e := &s.exchanges[len(s.exchanges)-1]
		e.Status, e.Response, e.Answer, e.Error = 0, "", "", "the reply was lost on purpose"
		q, _ = attempt(", sent again because the reply was lost", m, none)
		return s.send(q)
	case countersigntest.FaultTwice:
		again, _ := attempt(", a second attempt at the same time", m, none)
		return s.atOnce([]request{q, again})[1]
	case countersigntest.FaultRepeated:
		s.send(q)
		q.what += ", the same body again"
		return s.send(q)
	}
	if f.NeedsEarlier() {
		q, earlier = attempt(", an earlier one", m.twin(), none)
		s.send(q)
	}
	q, _ = attempt("; fault: "+f.About(), m, f)
	return s.send(q)
}
