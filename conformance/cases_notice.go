package conformance

import (
	"fmt"
	"net/http"
	"strconv"

	"countersign"
)

// noticeCases are the notices, and callbacks of no type.
func noticeCases() []Case {
	return []Case{
		{301, Must, "notice/withdrawal-done", "Messages, M3", "Type 3 is accepted.", nil, notices(countersign.TypeWithdraw)},
		{302, Must, "notice/withdrawal-done-short", "Messages, M3", "Type 3 without its optional members is accepted.", nil, notices(countersign.TypeWithdraw, "fromAddress")},
		{303, Must, "notice/address", "Messages, M8", "Type 4, whose trackingId is null, is accepted, and newAddress is returned as toAddress.", nil, notices(countersign.TypeAddress)},
		{304, Must, "notice/address-alone", "Messages, M3", "Type 4 without toAddress and trackingId is accepted.", nil, notices(countersign.TypeAddress, "toAddress", "trackingId")},
		{305, Must, "notice/withdrawal-ended", "Messages, M9", "Type 5 is accepted.", nil, notices(countersign.TypeInvalidAddress)},
		{306, Must, "notice/withdrawal-ended-short", "Messages, M3", "Type 5 without toAddress is accepted.", nil, notices(countersign.TypeInvalidAddress, "toAddress")},
		{307, Must, "notice/not-enough-money", "Messages, M9", "Type 6 is accepted.", nil, notices(countersign.TypeNotEnoughMoney)},
		{308, Must, "notice/not-enough-hot-money", "Messages, M9", "Type 7 is accepted.", nil, notices(countersign.TypeNotEnoughHotMoney)},
		{309, Must, "notice/repeat", "Deposit identity, I1", "A notice told again with a new requestUUID is answered as before.", nil, noticeAgain(countersign.TypeWithdraw)},
		{310, Must, "notice/unknown-type", "Messages, M5", "An unknown type is answered with errCode 1003 and not processed.", nil, unknownType("99")},
		{311, Must, "notice/type-0", "Messages, M5", "Type 0 is answered with errCode 1003 and not processed.", nil, unknownType("0")},
		{312, Must, "notice/tracked-address", "Deposit identity, I1", "Type 4 with a trackingId, told again with a new requestUUID, is answered as before.", nil, noticeAgain(countersign.TypeAddress)},
		{313, Must, "notice/waiting-again", "Messages, M9", "Types 6 and 7, told in turns of one withdrawal, are accepted each time.", nil, waitingAgain},
		{314, Must, "notice/other-content", "Deposit identity, I1", "A notice under a known trackingId with another amount is refused with errCode 2002.", nil, otherNotice},
	}
}

// notifies posts m, a notice of type t. If it is about a withdrawal, that is made up, so the endpoint may
// answer that it does not know it.
func (s *session) notifies(what string, m message, t countersign.Type) {
	r := s.post(what, m)
	if t != countersign.TypeAddress && r.err == nil && r.status == http.StatusOK && r.parseErr == nil {
		switch code := r.response.ErrCode; code {
		case countersign.CodeUnknownOrder, countersign.CodeNotKnownYet:
			s.note("errCode %d is right: the withdrawal of the notice is made up", code)
			s.wellFormed(r)
			return
		}
	}
	s.accepted(r, t)
	if t == countersign.TypeAddress && r.parsed.(countersign.NoticeAnswer).ToAddress != m.str("newAddress") {
		fail("In type 4 newAddress replaces toAddress: store it, and return it as toAddress.",
			"%s: toAddress of the answer is not the newAddress of the request", what)
	}
}

func notices(t countersign.Type, without ...string) func(*session) {
	return func(s *session) {
		m := s.callback(t)
		for _, name := range without {
			m = m.drop(name)
		}
		s.notifies(fmt.Sprintf("a notice of type %d", t), m, t)
	}
}

func noticeAgain(t countersign.Type) func(*session) {
	return func(s *session) {
		m := s.callback(t).set("trackingId", text(s.id())) // a change of address has one if it may have to be sent again
		s.notifies("a notice", m, t)
		s.notifies("the same notice with a new requestUUID", m, t)
	}
}

func waitingAgain(s *session) {
	m := s.callback(countersign.TypeNotEnoughMoney)
	for _, t := range []countersign.Type{countersign.TypeNotEnoughMoney, countersign.TypeNotEnoughHotMoney, countersign.TypeNotEnoughMoney} {
		number := strconv.Itoa(int(t))
		s.notifies("a notice of type "+number, m.set("type", number), t)
	}
}

func otherNotice(s *session) {
	m := s.callback(countersign.TypeWithdraw)
	s.notifies("a notice of type 3", m, countersign.TypeWithdraw)
	s.advice = keepContent
	s.judged(s.post("the same trackingId with another amount", m.set("amount", `"0.000007"`)),
		countersign.CodeDetailsDiffer, countersign.CodeUnknownOrder, countersign.CodeNotKnownYet)
}

func unknownType(number string) func(*session) {
	return func(s *session) {
		s.advice = "Check type first: a callback of an unknown type must not be acknowledged."
		s.judged(s.post("a deposit with type "+number, s.deposit().set("type", number)), countersign.CodeUnknownType)
	}
}
