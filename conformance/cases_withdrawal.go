package conformance

import (
	"strings"
	"unicode"

	"countersign"
)

// withdrawalCases ask about withdrawals. The endpoint may confirm only the known
// order, for its own user.
func withdrawalCases() []Case {
	order, usual := []*Need{NeedOrder}, []*Need{NeedOrder, NeedUsual}
	return []Case{
		{401, Must, ByInterface, "withdrawal/known", "Decision, D1, D4",
			"A known order is confirmed with its own details, and again when it is asked about with a new requestUUID.", order,
			known},
		{403, Must, ByProtocol, "withdrawal/known-at-once", "Decision, D4",
			"The same question asked eight times at once gets the same details, each time with its own requestUUID.", order,
			atOnce(countersign.TypeRequestWithdraw)},
		{404, Must, ForMoney, "withdrawal/unknown", "Error codes, E3",
			"An unknown callBackId is not confirmed, not the second time and not from details in the request either.", nil, unknown},
		{406, Must, ForMoney, "withdrawal/other-user", "Answers, R4",
			"A known callBackId with another tenantUserId is not confirmed.", usual, otherUser},
		{407, Must, ForMoney, "withdrawal/similar", "Decision, D2",
			"A callBackId that differs from a known one by the case of a letter or a space is unknown.", order, similar},
		{409, Must, ForMoney, "withdrawal/smuggled", "Messages, M6",
			"Details in unknown members of the request have no effect on the answer.", order, smuggled},
		{411, Must, ByProtocol, "withdrawal/details-bound", "Decision, D7",
			"Each detail lies whole in a block that also holds the whole callBackId or requestUUID.",
			[]*Need{NeedOrder, NeedNoDetails, NeedUsual}, detailsBound},
		{412, Must, ForMoney, "withdrawal/second-tracking-id", "Deposit identity, I1",
			"A known callBackId under another trackingId is another withdrawal: errCode 2002.", usual, secondTrackingID},
		{413, Must, ByInterface, "withdrawal/long-amount", "Amounts, A2",
			"An order whose amount has more than 17 digits is confirmed with that very amount.",
			[]*Need{NeedOrder, NeedLongOrder}, known},
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
const details = `+address "0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a" & +chainName "ETH" & +symbol "USDT" & +amount "999999"`

func unknown(s *session) {
	m := s.unknown()
	s.notConfirmed(s.post("an unknown order", m))
	s.notConfirmed(s.post("the unknown order again", m))
	s.notConfirmed(s.post("an unknown order that brings its details along", s.unknown().edit(details)))
}

// otherUser asks the correct question first, so that an endpoint that keeps its
// first answer for a callBackId does not keep the refusal of this case.
func otherUser(s *session) {
	s.knownOrder()
	m := s.known().set("tenantUserId", text(s.cfg.Order.TenantUserID+"0"))
	s.notConfirmed(s.post("the known order for another user", m))
}

func similar(s *session) {
	id := s.cfg.Order.CallBackID
	other := strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, id)
	s.each([]string{other, id + " "}, func(similar string) {
		if similar == id {
			skip("the callBackId of the order has no letters")
		}
		m := s.known().set("callBackId", text(similar))
		if !s.cfg.Other {
			m = m.set("trackingId", text(s.id()))
		}
		s.notConfirmed(s.post("an order whose callBackId is almost the known one", m))
	})
}

// smuggled asks the correct question first, for the reason that otherUser gives.
// An endpoint may refuse a repeat with other content, but must not use it.
func smuggled(s *session) {
	s.knownOrder()
	r := s.post("the known order, with other details in unknown members", s.known().edit(details))
	if code := r.code(); code.Class() == countersign.ClassRefused {
		s.note("a repeat with other unknown members was refused (errCode %d)", code)
		s.wellFormed(r)
		return
	}
	s.advice = "Answer from the order book: the request says which withdrawal, never where the money goes."
	s.confirmed(r)
}

// detailsBound asks twice, since an endpoint may change the order of members from
// answer to answer.
func detailsBound(s *session) {
	bound(s.knownOrder())
	bound(s.knownOrder())
}

// secondTrackingID asks correctly first, so that the endpoint has something to
// compare with, and once more afterwards.
func secondTrackingID(s *session) {
	s.knownOrder()
	s.advice = "Keep trackingId and tenantUserId with what was confirmed: one order pays one withdrawal."
	m := s.known().set("trackingId", text(s.id()))
	s.judged(s.post("the known order under another trackingId", m), countersign.CodeDetailsDiffer)
	s.knownOrder()
}
