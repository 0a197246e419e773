package conformance

import (
	"bytes"

	"countersign"
)

// withdrawalCases ask about withdrawals. The endpoint may confirm only the known
// order, for its own user.
func withdrawalCases() []Case {
	order, usual := []*Need{NeedOrder}, []*Need{NeedOrder, NeedUsual}
	return []Case{
		{401, Must, iface, "withdrawal/known", "Decision, D1, D4",
			"A known order is confirmed with its own details, and again when it is asked about with a new requestUUID.", order,
			known},
		{403, Must, ours, "withdrawal/known-at-once", "Decision, D4",
			"The same question asked eight times at once gets the same details, each time with its own requestUUID.", order,
			atOnce(countersign.TypeRequestWithdraw)},
		{404, Must, money, "withdrawal/unknown", "Error codes, E3",
			"An unknown callBackId is not confirmed, not the second time and not from details in the request.", nil, unknown},
		{406, Must, money, "withdrawal/other-user", "Answers, R4",
			"A known callBackId with another tenantUserId is not confirmed.", usual,
			askedWith((*session).notConfirmed, `tenantUserId "{user}0"`)},
		{407, Must, money, "withdrawal/similar", "Decision, D2",
			"A callBackId that differs from a known one by the case of a letter or a space is unknown.", order,
			askedWith((*session).notConfirmed, `callBackId "{CASE}" & ~trackingId "{id}-2"`,
				`callBackId "{order} " & ~trackingId "{id}-3"`)},
		{409, Must, money, "withdrawal/smuggled", "Messages, M6",
			"Details in unknown members of the request have no effect on the answer.", order,
			askedWith((*session).notUsed, details)},
		{411, Must, ours, "withdrawal/details-bound", "Decision, D7",
			"Each detail lies whole in a block that also holds the whole callBackId or requestUUID.", []*Need{NeedOrder,
				NeedNoDetails, NeedUsual}, detailsBound},
		{412, Must, money, "withdrawal/second-tracking-id", "Deposit identity, I1",
			"A known callBackId under another trackingId is another withdrawal: errCode 2002.", usual,
			askedWith((*session).contradicts, `~trackingId "{id}-2"`)},
		{413, Must, iface, "withdrawal/long-amount", "Amounts, A2",
			"An order whose amount has more than 17 digits is confirmed with that very amount.", []*Need{NeedOrder,
				NeedLongOrder}, known},
	}
}

func (s *session) knownOrder() *reply {
	r := s.post("the known order", s.known())
	s.confirmed(r)
	return r
}

func known(s *session) {
	s.knownOrder()
	s.confirmed(s.post("the known order with a new requestUUID", s.known()))
}

// details are of no order.
const details = `+address "0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a" & +chainName "ETH" & +symbol "USDT" & +amount "999999"`

func unknown(s *session) {
	m := s.unknown()
	s.notConfirmed(s.post("an unknown order", m))
	s.notConfirmed(s.post("the unknown order again", m))
	s.notConfirmed(s.post("an unknown order that brings its details along", s.unknown().edit(details)))
}

// askedWith is a case of questions like that about the known order, with one of the changes. The correct question comes
// first, so that an endpoint that keeps its first answer for a callBackId does not keep the refusal of this case, and
// once more afterwards.
func askedWith(check func(*session, *reply), changes ...string) func(*session) {
	return func(s *session) {
		s.each(changes, func(change string) {
			m := s.known().edit(change)
			if bytes.Equal(m.bytes(), s.known().bytes()) {
				skip("the callBackId of the order has no letters")
			}
			s.knownOrder()
			check(s, s.post("the known order with "+change, m))
			s.knownOrder()
		})
	}
}

func (s *session) contradicts(r *reply) { s.judged(r, countersign.CodeDetailsDiffer) }

// notUsed checks that r confirms the known order, whatever the request brought along. An endpoint may refuse a repeat
// with other content, but must not use it.
func (s *session) notUsed(r *reply) {
	if code := r.code(); code.Class() == countersign.ClassRefused {
		s.note("a repeat with other unknown members was refused (errCode %d)", code)
		s.wellFormed(r)
	} else {
		s.confirmed(r)
	}
}

// detailsBound asks twice, since an endpoint may change the order of members from
// answer to answer.
func detailsBound(s *session) {
	bound(s.knownOrder())
	bound(s.knownOrder())
}
