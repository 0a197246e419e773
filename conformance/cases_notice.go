package conformance

import (
	"strconv"

	"countersign"
)

// noticeCases are the notices, and callbacks of no type.
func noticeCases() []Case {
	return []Case{
		{301, "notice/withdrawal-done", "Messages, M3", "Type 3 is accepted.", nil, notices(countersign.TypeWithdraw, nil)},
		{302, "notice/withdrawal-done-short", "Messages, M3", "Type 3 without its optional members is accepted.", nil,
			notices(countersign.TypeWithdraw, func(m message) message { return m.drop("fromAddress") })},
		{303, "notice/address", "Messages, M8", "Type 4, whose trackingId is null, is accepted, and newAddress is returned as toAddress.", nil, addressChange},
		{304, "notice/address-alone", "Messages, M3", "Type 4 without toAddress and trackingId is accepted.", nil,
			notices(countersign.TypeAddress, func(m message) message { return m.drop("toAddress").drop("trackingId") })},
		{305, "notice/withdrawal-ended", "Messages, M9", "Type 5 is accepted.", nil, notices(countersign.TypeInvalidAddress, nil)},
		{306, "notice/withdrawal-ended-short", "Messages, M3", "Type 5 without toAddress is accepted.", nil,
			notices(countersign.TypeInvalidAddress, func(m message) message { return m.drop("toAddress") })},
		{307, "notice/not-enough-money", "Messages, M9", "Type 6 is accepted.", nil, notices(countersign.TypeNotEnoughMoney, nil)},
		{308, "notice/not-enough-hot-money", "Messages, M9", "Type 7 is accepted.", nil, notices(countersign.TypeNotEnoughHotMoney, nil)},
		{309, "notice/repeat", "Deposit identity, I1", "A notice told again with a new requestUUID is answered as before.", nil, noticeAgain},
		{310, "notice/unknown-type", "Messages, M5", "An unknown type is answered with errCode 1003 and not processed.", nil, unknownType("99")},
		{311, "notice/type-0", "Messages, M5", "Type 0 is answered with errCode 1003 and not processed.", nil, unknownType("0")},
		{312, "notice/tracked-address", "Deposit identity, I1", "Type 4 with a trackingId, told again with a new requestUUID, is answered as before.", nil, addressAgain},
		{313, "notice/waiting-again", "Messages, M9", "Types 6 and 7, told in turns of one withdrawal, are accepted each time.", nil, waitingAgain},
		{314, "notice/other-content", "Deposit identity, I1", "A notice under a known trackingId with another amount is refused with errCode 2002.", nil, otherNotice},
	}
}

// noticed checks the response to a notice. Its withdrawal is made up, so the
// endpoint may answer that it does not know it.
func (s *session) noticed(r *reply, t countersign.Type) error {
	if r.err == nil && r.status == 200 && r.parseErr == nil {
		switch code := r.response.ErrCode; code {
		case countersign.CodeUnknownOrder, countersign.CodeNotKnownYet:
			s.note("errCode %d is right: the withdrawal of the notice is made up", code)
			return s.wellFormed(r)
		}
	}
	return s.accepted(r, t)
}

func notices(t countersign.Type, change func(message) message) func(*session) error {
	return func(s *session) error {
		m := s.notice(t)
		if change != nil {
			m = change(m)
		}
		return s.noticed(s.post("a notice of type "+strconv.Itoa(int(t)), m), t)
	}
}

func addressChange(s *session) error {
	return s.addressChanged("a notice of type 4", s.notice(countersign.TypeAddress))
}

// addressAgain gives the change a trackingId, as a service does that may have to
// tell it again.
func addressAgain(s *session) error {
	m := s.notice(countersign.TypeAddress).set("trackingId", text(s.id()))
	if err := s.addressChanged("a notice of type 4 with a trackingId", m); err != nil {
		return err
	}
	return s.addressChanged("the same notice with a new requestUUID", m)
}

// addressChanged posts a notice of type 4, which must be accepted with the new
// address.
func (s *session) addressChanged(what string, m message) error {
	r := s.post(what, m)
	if err := s.accepted(r, countersign.TypeAddress); err != nil {
		return err
	}
	a, err := countersign.ParseNoticeAnswer(r.answer)
	if err != nil {
		return err
	}
	if a.ToAddress != m.str("newAddress") {
		return fail("In type 4 newAddress replaces toAddress: store it, and return it as toAddress.",
			"toAddress of the answer is not the newAddress of the request")
	}
	return nil
}

func noticeAgain(s *session) error {
	m := s.notice(countersign.TypeWithdraw)
	if err := s.noticed(s.post("a notice of type 3", m), countersign.TypeWithdraw); err != nil {
		return err
	}
	return s.noticed(s.post("the same notice with a new requestUUID", m), countersign.TypeWithdraw)
}

func waitingAgain(s *session) error {
	m := s.notice(countersign.TypeNotEnoughMoney)
	for _, t := range []countersign.Type{countersign.TypeNotEnoughMoney, countersign.TypeNotEnoughHotMoney, countersign.TypeNotEnoughMoney} {
		number := strconv.Itoa(int(t))
		if err := s.noticed(s.post("a notice of type "+number, m.set("type", number)), t); err != nil {
			return err
		}
	}
	return nil
}

func otherNotice(s *session) error {
	m := s.notice(countersign.TypeWithdraw)
	if err := s.noticed(s.post("a notice of type 3", m), countersign.TypeWithdraw); err != nil {
		return err
	}
	r := s.post("the same trackingId with another amount", m.set("amount", `"0.000007"`))
	return because(s.judged(r, countersign.CodeDetailsDiffer, countersign.CodeUnknownOrder, countersign.CodeNotKnownYet),
		"Keep what an accepted trackingId stood for. A repeat that says something else is refused with errCode 2002, and a person looks at it.")
}

func unknownType(number string) func(*session) error {
	return func(s *session) error {
		m := s.deposit().set("type", number)
		r := s.post("a deposit with type "+number, m)
		s.expect(m.str("trackingId"), 0)
		return because(s.judged(r, countersign.CodeUnknownType),
			"Check type first: a callback of an unknown type must not be acknowledged.")
	}
}
