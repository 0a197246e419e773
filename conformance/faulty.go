package conformance

import (
	"maps"
	"net/http"
	"net/url"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
)

// refuses is a case in which a callback of type t with the fault f must be refused, as PROTOCOL.md
// has it.
func refuses(t countersign.Type, f countersigntest.ServiceFault) func(*session) {
	return func(s *session) {
		s.advice = faultFixes[f]
		r := s.faulty(t, s.callback(t), f)
		switch f {
		case countersigntest.FaultNoAPIKey, countersigntest.FaultWrongAPIKey:
			s.turnedAway(r, http.StatusUnauthorized)
		case countersigntest.FaultWrongURL:
			s.judged(r, countersign.CodeWrongURL)
		case countersigntest.FaultUnsigned, countersigntest.FaultStripped:
			s.notSigned(r, "unsigned")
		case countersigntest.FaultOldSignature:
			s.notSigned(r, "signature_old")
		case countersigntest.FaultOtherSigner, countersigntest.FaultAltered, countersigntest.FaultOtherSignature:
			s.notSigned(r, "signature_invalid")
		default:
			s.notOpened(r)
		}
	}
}

// faulty makes the exchanges of an attempt with the fault f, in the form of the Checker. The last one is to be judged.
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
			switch last := &v[len(v)-1]; { // a hash stays one
			case *last >= '0' && *last <= '8':
				*last++
			case *last == '9':
				*last = '0'
			case *last == 'a':
				*last = 'b'
			default:
				*last = 'a'
			}
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

// contentTypes are what senders say of the forms of a body; empty: that of a form.
var contentTypes = map[envelope.BodyForm]string{envelope.FormString: "application/json", envelope.FormObject: "application/json"}

func (s *session) sendWrapped(q request) *reply { return s.send(s.wrapped(q)) }

// wrapped is q in the form of the Checker.
func (k *Checker) wrapped(q request) request {
	switch q.contentType = contentTypes[k.form]; k.form {
	case envelope.FormField:
		q.body = []byte(k.field + "=" + url.QueryEscape(string(q.body)))
	case envelope.FormString:
		q.body = []byte(text(string(q.body)))
	case envelope.FormObject:
		q.body = message{{k.field, text(string(q.body))}}.bytes()
	}
	return q
}

const (
	bindingFix = "Compare the requestUUID with the rest of the message (PROTOCOL.md, Binding), byte for byte. Against a service that does not bind, keep " +
		"the digest of every block that holds the requestUUID and refuse it in another body."
	sealFix   = "Refuse every body that does not open: check the padding of every block byte by byte."
	apiKeyFix = "Compare the whole X-API-KEY with the key that the service sends, in constant time, before the body is read, and answer 401 without it."
)

// faultFixes say what to change at an endpoint that takes a fault.
var faultFixes = map[countersigntest.ServiceFault]string{
	countersigntest.FaultSpliced: bindingFix, countersigntest.FaultSwapped: bindingFix, countersigntest.FaultOldUUID: bindingFix, countersigntest.FaultCut: bindingFix,
	countersigntest.FaultOtherKey: sealFix, countersigntest.FaultPlain: sealFix, countersigntest.FaultSpaces: sealFix,
	countersigntest.FaultNoAPIKey: apiKeyFix, countersigntest.FaultWrongAPIKey: apiKeyFix,
	countersigntest.FaultWrongURL: "Take type 2 at the withdraw URL alone, and every other type at the notify URL alone.",
	countersigntest.FaultUnsigned: demandFix, countersigntest.FaultStripped: demandFix, countersigntest.FaultOtherSigner: demandFix, countersigntest.FaultAltered: demandFix,
	countersigntest.FaultOtherSignature: demandFix,
	countersigntest.FaultOldSignature:   "Refuse a request whose created is more than five minutes from the clock, unless its requestUUID was taken before (PROTOCOL.md, L8).",
}
