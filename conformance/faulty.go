package conformance

import (
	"maps"
	"net/http"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
)

// refuses is a case in which a callback of type t with the fault f must be refused, as PROTOCOL.md
// has it.
func refuses(t countersign.Type, f countersigntest.ServiceFault) func(*session) {
	return func(s *session) {
		s.advice = f.Fix()
		r := s.faulty(t, s.callback(t), f)
		switch refusal := f.Refusal(); refusal {
		case "400":
			s.notOpened(r)
		case "401":
			s.turnedAway(r, http.StatusUnauthorized)
		case "1004":
			s.judged(r, countersign.CodeWrongURL)
		default:
			s.notSigned(r, refusal)
		}
	}
}

// faulty makes the exchanges of an attempt with the fault f, in the form of the config. The last one is to be judged.
func (s *session) faulty(t countersign.Type, m message, f countersigntest.ServiceFault) *reply {
	attempt := func(what string, m message) request {
		q := s.attempt(t.Words()+what, m)
		if q.uuid == "" {
			q.uuid = m.str("requestUUID")
		}
		q.to = destinationOf(t) // whatever type the message says
		return q
	}
	q := attempt("", m)
	switch f {
	case countersigntest.FaultReplyLost:
		s.sendWrapped(q).drop(s)
		return s.sendWrapped(attempt(", sent again because the reply was lost", m))
	case countersigntest.FaultTwice:
		again := attempt(", a second attempt at the same time", m)
		return s.atOnce((*session).sendWrapped, []request{q, again})[1]
	case countersigntest.FaultRepeated:
		s.sendWrapped(q)
		q.what += ", the same body again"
		return s.sendWrapped(q)
	}
	var earlier countersigntest.Earlier
	before := request{}
	if f.NeedsEarlier() {
		before = attempt(", an earlier one", m.twin())
		earlier = countersigntest.Earlier{Body: before.body, UUID: before.uuid, Header: s.sendWrapped(before).asked}
	}
	body, err := s.fakes.Spoil(f, q.plaintext, q.body, earlier)
	if err != nil {
		skip("%v", err)
	}
	switch f {
	case countersigntest.NoServiceFault:
		return s.sendWrapped(q)
	case countersigntest.FaultReplayed:
		q = before
	case countersigntest.FaultSpliced, countersigntest.FaultOldUUID:
		q.uuid = before.uuid
	case countersigntest.FaultNoAPIKey:
		q.apiKey = new(countersign.APIKey)
	case countersigntest.FaultWrongAPIKey:
		wrong := countersign.APIKey("wrong-" + randomHex(8))
		q.apiKey = &wrong
	case countersigntest.FaultWrongURL:
		q.to = toNotify + toWithdraw - q.to
	}
	honest := q
	q.body = body
	q.what += "; fault: " + f.About()
	if s.cfg.Sign != nil {
		q.resign = func(r envelope.LinkRequest, h http.Header) {
			signed, err := s.fakes.Link(f, r.URL, h.Get("Content-Type"), honest.plaintext, s.wrapped(honest).body, r.Body, earlier)
			if err != nil {
				return // it stays as it is, and f sends nothing wrong
			}
			envelope.Unsign(h)
			maps.Copy(h, signed)
		}
	}
	return s.sendWrapped(q)
}

// twin is m about something else, in as many bytes, so that blocks of the two fit together.
func (m message) twin() message {
	for _, name := range []string{"trackingId", "callBackId", "txId"} {
		if v := []byte(m.str(name)); len(v) > 0 {
			digit := byte('1') // a hash stays one
			if v[len(v)-1] == digit {
				digit = '2'
			}
			v[len(v)-1] = digit
			m = m.set(name, text(string(v)))
		}
	}
	return m
}

// drop forgets the reply, as a service does whose connection ended before.
func (r *reply) drop(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &s.exchanges[r.index]
	e.Status, e.Response, e.Answer, e.Error = 0, "", "", "the reply was lost on purpose"
}

func (s *session) sendWrapped(q request) *reply { return s.send(s.wrapped(q)) }

// wrapped is q in the form of the config.
func (k *Checker) wrapped(q request) request {
	if k.cfg.Form == envelope.FormString || k.cfg.Form == envelope.FormObject {
		q.contentType = "application/json"
	}
	q.body = k.fakes.Wrap(q.body)
	return q
}
