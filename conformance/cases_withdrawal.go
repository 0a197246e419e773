package conformance

import "countersign"

// withdrawalCases ask about withdrawals. The endpoint may confirm only the known
// order, for its own user.
func withdrawalCases() []Case {
	order, usual := []*Need{NeedOrder}, []*Need{NeedOrder, NeedUsual}
	return []Case{
		{401, Must, iface, "withdrawal/known", "Decision, D1, D4",
			"A known order is confirmed with its own details, and again when it is asked about with a new requestUUID.", order,
			asked((*session).confirmed, "")},
		{403, Must, ours, "withdrawal/known-at-once", "Decision, D4",
			"The same question asked eight times at once gets the same details, each time with its own requestUUID.", order,
			atOnce(countersign.TypeRequestWithdraw)},
		{404, Must, money, "withdrawal/unknown", "Error codes, E3",
			"An unknown callBackId is not confirmed, not the second time and not from details in the request.", nil,
			edits(2, func(s *session, r *reply) {
				s.notConfirmed(r)
				s.notConfirmed(s.post("the unknown order again", r.m))
			}, "", details)},
		{406, Must, money, "withdrawal/other-user", "Answers, R4",
			"A known callBackId with another tenantUserId is not confirmed.", usual,
			asked((*session).notConfirmed, `tenantUserId "{user}0"`)},
		{407, Must, money, "withdrawal/similar", "Decision, D2",
			"A callBackId that differs from a known one by the case of a letter or a space is unknown.", order,
			asked((*session).notConfirmed, `callBackId "{CASE}" & ~trackingId "{id}-2"`,
				`callBackId "{order} " & ~trackingId "{id}-3"`)},
		{409, Must, money, "withdrawal/smuggled", "Messages, M6",
			"Details in unknown members of the request have no effect on the answer.", order,
			asked((*session).notUsed, details)},
		{411, Must, ours, "withdrawal/details-bound", "Decision, D7",
			"Each detail lies whole in a block that also holds the whole callBackId or requestUUID.", []*Need{NeedOrder,
				NeedNoDetails, NeedUsual}, func(s *session) {
				bound(s.knownOrder())
				bound(s.knownOrder()) // an endpoint may change the order of members from answer to answer
			}},
		{412, Must, money, "withdrawal/second-tracking-id", "Deposit identity, I1",
			"A known callBackId under another trackingId is another withdrawal: errCode 2002.", usual,
			asked((*session).contradicts, `~trackingId "{id}-2"`)},
		{413, Must, iface, "withdrawal/long-amount", "Amounts, A2",
			"An order whose amount has more than 17 digits is confirmed with that very amount.", []*Need{NeedOrder,
				NeedLongOrder}, asked((*session).confirmed, "")},
	}
}

// details belong to no order.
const details = `+address "0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a" & +chainName "ETH" & +symbol "USDT" & +amount "999999"`

// notUsed checks that r confirms the known order, whatever else the request said. An endpoint may refuse a repetition
// with other content, but must not use it.
func (s *session) notUsed(r *reply) {
	if code := r.code(); code.Class() == countersign.ClassRefused {
		s.note("a repeat with other unknown members was refused (errCode %d)", code)
		s.wellFormed(r)
	} else {
		s.confirmed(r)
	}
}
