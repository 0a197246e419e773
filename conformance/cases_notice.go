package conformance

import (
	"fmt"

	"countersign"
)

// noticeCases are the notices, and callbacks of no type.
func noticeCases() []Case {
	return []Case{
		{301, Must, ours, "notice/accepted", "Messages, M3, M8, M9",
			"Types 3 to 7 are accepted, with and without optional members; in type 4 newAddress is returned as toAddress.",
			nil, notices},
		{309, Must, ours, "notice/repeat", "Deposit identity, I1, I4",
			"A notice told again is answered as before; types 6 and 7, told in turns of one withdrawal, are accepted.", nil,
			repeatedNotices},
		{310, Must, ours, "notice/unknown-type", "Messages, M5",
			"An unknown type is answered with errCode 1003 and not processed.", nil, unknownTypes},
		{314, Must, ours, "notice/other-content", "Deposit identity, I1",
			"A notice under a known trackingId with another amount is refused with errCode 2002.", nil, otherNotice},
	}
}

// notifies posts m, a notice of type t. If it is about a withdrawal, that is made up, so the endpoint may
// answer that it does not know it.
func (s *session) notifies(what string, m message, t countersign.Type) {
	r := s.post(what, m)
	if code := r.code(); t != countersign.TypeAddress &&
		(code == countersign.CodeUnknownOrder || code == countersign.CodeNotKnownYet) {
		s.note("errCode %d is right: the withdrawal of the notice is made up", code)
		s.wellFormed(r)
		return
	}
	s.accepted(r, t)
	if t == countersign.TypeAddress && r.parsed.(countersign.NoticeAnswer).ToAddress != m.str("newAddress") {
		fail("In type 4 newAddress replaces toAddress: store it, and return it as toAddress.",
			"%s: toAddress of the answer is not the newAddress of the request", what)
	}
}

func notices(s *session) {
	s.each([]string{"3", "3 without fromAddress", "4", "4 without toAddress & trackingId", "5", "5 without toAddress",
		"6", "7"}, func(way string) {
		var t countersign.Type
		var without string
		_, _ = fmt.Sscanf(way, "%d without %s", &t, &without)
		m := s.callback(t)
		if without != "" {
			m = m.edit(way[len("3 without "):])
		}
		s.notifies("a notice of type "+way, m, t)
	})
}

func repeatedNotices(s *session) {
	s.each([]string{"3, 3", "4, 4", "6, 7, 6"}, func(way string) {
		var m message
		for _, number := range way {
			if t := countersign.Type(number - '0'); t.Known() {
				if m == nil { // a change of address has a trackingId if it may have to be sent again
					m = s.callback(t).set("trackingId", text(s.id()))
				}
				s.notifies("notices of the types "+way+" under one trackingId", m.set("type", string(number)), t)
			}
		}
	})
}

func otherNotice(s *session) {
	m := s.callback(countersign.TypeWithdraw)
	s.notifies("a notice of type 3", m, countersign.TypeWithdraw)
	s.judged(s.post("the same trackingId with another amount", m.set("amount", `"0.000007"`)),
		countersign.CodeDetailsDiffer, countersign.CodeUnknownOrder, countersign.CodeNotKnownYet)
}

func unknownTypes(s *session) {
	s.each([]string{"99", "0"}, func(number string) {
		s.judged(s.post("a deposit with type "+number, s.deposit().set("type", number)), countersign.CodeUnknownType)
	})
}
