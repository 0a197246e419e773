package conformance

import (
	"net/http"
	"strings"
	"unicode"

	"countersign"
)

// withdrawalCases ask about withdrawals. The endpoint may confirm only the known
// order, for its own user.
func withdrawalCases() []Case {
	order := []*Need{NeedOrder}
	return []Case{
		{401, Must, "withdrawal/known", "Decision, D1", "A known order is confirmed with its own details.", order, knownOrder},
		{402, Must, "withdrawal/known-repeat", "Decision, D4", "The same question with a new requestUUID gets the same details.", order, knownAgain},
		{403, Must, "withdrawal/known-at-once", "Decision, D4", "The same question asked eight times at once gets the same details, each time with its own requestUUID.", order, atOnce(countersign.TypeRequestWithdraw)},
		{404, Must, "withdrawal/unknown", "Error codes, E3", "An unknown callBackId is not confirmed.", nil, unknownOrder},
		{405, Must, "withdrawal/unknown-repeat", "Error codes, E3", "An unknown callBackId asked twice is not confirmed the second time either.", nil, unknownAgain},
		{406, Must, "withdrawal/other-user", "Answers, R4", "A known callBackId with another tenantUserId is not confirmed.", []*Need{NeedOrder, NeedUsual}, otherUser},
		{407, Must, "withdrawal/other-case", "Decision, D2", "A callBackId that differs from a known one by the case of a letter is unknown.", order,
			similar(func(id string) string {
				return strings.Map(func(r rune) rune {
					if unicode.IsUpper(r) {
						return unicode.ToLower(r)
					}
					return unicode.ToUpper(r)
				}, id)
			})},
		{408, Must, "withdrawal/trailing-space", "Decision, D2", "A callBackId with a space after it is unknown.", order,
			similar(func(id string) string { return id + " " })},
		{409, Must, "withdrawal/smuggled-details", "Messages, M6", "Details in unknown members of the request have no effect on the answer.", order, smuggled},
		{410, Must, "withdrawal/smuggled-unknown", "Messages, M6", "An unknown callBackId is not confirmed from details in the request.", nil, smuggledUnknown},
		{411, Must, "withdrawal/details-bound", "Decision, D7", "Each detail lies whole in a block that also holds the whole callBackId or requestUUID.",
			[]*Need{NeedOrder, NeedNoDetails, NeedUsual}, detailsBound},
		{412, Must, "withdrawal/second-tracking-id", "Deposit identity, I1", "A known callBackId under another trackingId is another withdrawal: errCode 2002.", []*Need{NeedOrder, NeedUsual}, secondTrackingID},
		{413, Must, "withdrawal/long-amount", "Amounts, A2", "An order whose amount has more than 17 digits is confirmed with that very amount.", []*Need{NeedOrder, NeedLongOrder}, knownAgain},
	}
}

// secondTrackingID asks correctly first, so that the endpoint has something to
// compare with, and once more afterwards.
func secondTrackingID(s *session) {
	knownOrder(s)
	s.advice = "Keep trackingId and tenantUserId with what was confirmed: one order pays one withdrawal."
	s.judged(s.post("the known order under another trackingId", s.known().set("trackingId", text(s.id()))), countersign.CodeDetailsDiffer)
	knownOrder(s)
}

// confirmed checks that r confirms the known order.
func (s *session) confirmed(r *reply) {
	s.accepted(r, countersign.TypeRequestWithdraw)
	a := r.parsed.(countersign.WithdrawalAnswer)
	switch differs := a.Differs(s.order); {
	case a.CallBackID != s.cfg.Order.CallBackID:
		fail("Return callBackId unchanged.", "%s: callBackId of the answer is not that of the request", r.what)
	case a.TenantUserID != s.cfg.Order.TenantUserID:
		fail("Return the user in the merchant's own system, as it came.", "%s: tenantUserId of the answer is not that of the request", r.what)
	case differs != "":
		fail("Return the details of the order: amounts exact, addresses as they are.", "%s: %s of the answer is not the order's", r.what, differs)
	}
}

// settles checks that r accepts a callback of type t, or confirms the known order.
func (s *session) settles(r *reply, t countersign.Type) {
	if t == countersign.TypeRequestWithdraw {
		s.confirmed(r)
	} else {
		s.accepted(r, t)
	}
}

func knownOrder(s *session) {
	s.confirmed(s.post("the known order", s.known()))
}

func knownAgain(s *session) {
	knownOrder(s)
	s.confirmed(s.post("the known order with a new requestUUID", s.known()))
}

// notConfirmed checks that r refuses or holds a question that could be read.
func (s *session) notConfirmed(r *reply) {
	s.advice = "Confirm a withdrawal only from your own order book, by callBackId and tenantUserId, byte for byte."
	s.judged(r)
	switch code := r.response.ErrCode; code.Class() {
	case countersign.ClassNotUnderstood:
		fail("The request is correct but the order is unknown: use errCode 2001, or 3002 while the order may still arrive.",
			"%s: errCode is %d, which says that the request was not understood", r.what, code)
	case countersign.ClassFailure:
		s.note("errCode %d is the endpoint's own: tell the service whether it is final", code)
	}
}

func unknownOrder(s *session) {
	s.notConfirmed(s.post("an unknown order", s.unknown()))
}

func unknownAgain(s *session) {
	m := s.unknown()
	s.notConfirmed(s.post("an unknown order", m))
	s.notConfirmed(s.post("the unknown order again", m))
}

// otherUser asks the correct question first, so that an endpoint that keeps its
// first answer for a callBackId does not keep the refusal of this case.
func otherUser(s *session) {
	knownOrder(s)
	s.notConfirmed(s.post("the known order for another user", s.known().set("tenantUserId", text(s.cfg.Order.TenantUserID+"0"))))
}

func similar(change func(string) string) func(*session) {
	return func(s *session) {
		id := change(s.cfg.Order.CallBackID)
		if id == s.cfg.Order.CallBackID {
			skip("the callBackId of the order has no letters")
		}
		s.notConfirmed(s.post("an order whose callBackId is almost the known one", s.withdrawal(s.id(), id, s.cfg.Order.TenantUserID)))
	}
}

func (s *session) smuggle(m message) message {
	return m.add("address", text(randomAddress())).add("chainName", `"ETH"`).add("symbol", `"USDT"`).add("amount", `"999999"`)
}

// smuggled asks the correct question first, for the reason that otherUser gives.
// An endpoint may refuse a repeat with other content, but must not use it.
func smuggled(s *session) {
	knownOrder(s)
	r := s.post("the known order, with other details in unknown members", s.smuggle(s.known()))
	if r.err == nil && r.status == http.StatusOK && r.parseErr == nil && r.response.ErrCode.Class() == countersign.ClassRefused {
		s.note("a repeat with other unknown members was refused (errCode %d)", r.response.ErrCode)
		s.wellFormed(r)
		return
	}
	s.advice = "Answer from the order book: the request says which withdrawal, never where the money goes."
	s.confirmed(r)
}

func smuggledUnknown(s *session) {
	s.notConfirmed(s.post("an unknown order that brings its details along", s.smuggle(s.unknown())))
}

// detailsBound asks twice, since an endpoint may change the order of members from
// answer to answer.
func detailsBound(s *session) {
	for _, what := range []string{"the known order", "the known order with a new requestUUID"} {
		r := s.post(what, s.known())
		s.confirmed(r)
		boundDetails(r)
	}
}

func boundDetails(r *reply) {
	if !countersign.DetailsBound(r.answer, r.blocks) {
		fail("A service that is not given the details of a withdrawal does not confirm this answer, because its blocks could come from "+
			"others. Write callBackId and address next to each other in one block and chainName, symbol, amount and requestUUID in another, with spaces "+
			"before a member that would begin in the one and end in the other (PROTOCOL.md, Answers, R7); or have the service make a pair of 2048 bits for answers. "+
			"Where the service is given the details of every withdrawal, say so to this check.",
			"%s: the details of the answer are not bound to callBackId or requestUUID by the %d blocks that they came in", r.what, len(r.blocks))
	}
}
