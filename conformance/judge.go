package conformance

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"countersign"
	"countersign/envelope"
)

// check judges the response to what a case sent.
type check = func(*session, *reply)

// arrived fails if there was no response.
func arrived(r *reply) {
	if r.err != nil {
		fail("Answer every request, a refused one too, and read its body to the end before closing the connection.",
			"%s: there was no response: %v", r.what, r.err)
	}
}

// statusIs fails if the HTTP status is none of want.
func statusIs(r *reply, want ...int) {
	arrived(r)
	if slices.Contains(want, r.status) {
		return
	}
	names := make([]string, len(want))
	for i, w := range want {
		names[i] = strconv.Itoa(w)
	}
	fail(statusFix(r.status, want), "%s: the status is %d, not %s", r.what, r.status, strings.Join(names, " or "))
}

func statusFix(got int, want []int) string {
	switch {
	case want[0] == http.StatusBadRequest && got == http.StatusOK:
		return "Answer what cannot be opened or parsed with status 400, errCode 1001 or 1002 and empty data."
	case got >= http.StatusInternalServerError:
		return "The endpoint failed: see its log. No request may make it fail."
	case want[0] != http.StatusOK:
		return fmt.Sprintf("Answer with status %d.", want[0])
	}
	return cmp.Or(map[int]string{
		http.StatusUnauthorized: "Compare X-API-KEY with the key that the service sends: both ends must have the same.",
		http.StatusNotFound:     "Check the URLs: type 2 goes to the withdraw URL, every other type to the notify URL.",
		http.StatusBadRequest: "The endpoint could not open or parse a correct request. Check that it holds the public " +
			"part of the pair that seals, reads the raw body, and takes what the rule allows.",
	}[got], "Answer every request that could be read and judged with status 200, refusals too, at the URL that is configured.")
}

// wellFormed checks the response against PROTOCOL.md, R1, and L10 where answers are signed.
func (s *session) wellFormed(r *reply) {
	if r.status == http.StatusOK && envelope.Signed(r.asked) {
		s.signedBy(r)
	}
	if e := r.header.Get("Content-Encoding"); e != "" && e != "identity" {
		fail("The request asks for no compression: send the response as it is.",
			"%s: the response is compressed (%s)", r.what, s.show([]byte(e)))
	}
	if r.parseErr != nil {
		fail("Return one JSON object with the texts apiKey, data (sealed; not empty where errCode is 0) and message (not "+
			"empty where errCode is not 0), and errCode, a whole number.",
			"%s: the response is not valid: %v", r.what, r.parseErr)
	}
	if !s.expectedKey(r) {
		fail("Put the merchant's own API key into the member apiKey of every response.",
			"%s: the apiKey of the response is not the merchant's", r.what)
	}
}

// signedBy fails if r, the response to a signed request, is not signed by the key that must sign answers.
func (s *session) signedBy(r *reply) {
	if r.signErr != nil {
		fail("Sign every response with a JSON body to a request that has a signature (PROTOCOL.md, L9), with the key whose "+
			"public part the service has.", "%s: the response is not signed by the merchant's key: %v", r.what, r.signErr)
	}
	if s.cfg.AnswerKey != nil && r.answer != nil && !r.signature.Covers(r.answer) {
		fail("Put the SHA-256 of the answer's plaintext into Content-Digest, as opened (PROTOCOL.md, L6).",
			"%s: the signature is not over what data opens to", r.what)
	}
}

// accepted checks that a service would settle the callback: status 200, a valid response, the apiKey, errCode 0, data
// that opens to the expected answer. An accepted deposit must be credited once, unless the case expects otherwise
// afterwards.
func (s *session) accepted(r *reply, t countersign.Type) {
	statusIs(r, http.StatusOK)
	s.wellFormed(r)
	if code := r.response.ErrCode; code != countersign.CodeAccepted {
		fail("The endpoint did not understand a correct request (1000 to 1999), refuses or holds it (2000 to 3999), or failed. "+
			"Does it know the user, the address and the order? See its log, and countersign open --explain.",
			"%s: errCode is %d (%s), not 0", r.what, code, s.show([]byte(r.response.Message)))
	}
	s.opensTo(r, t)
	s.sameMembers(r)
	if t == countersign.TypeDeposited {
		s.expect(r.request, 1)
	}
}

// taken checks that r accepts a deposit.
func (s *session) taken(r *reply) { s.accepted(r, countersign.TypeDeposited) }

// takes posts a deposit that must be accepted.
func (s *session) takes(what string, m message) *reply {
	r := s.post(what, m)
	s.taken(r)
	return r
}

// takenTwice is taken, and again for the same body.
func (s *session) takenTwice(r *reply) {
	s.taken(r)
	r.request.what = "the same body again"
	s.taken(s.send(r.request))
}

// suspected checks that r accepts a deposit that is a possible duplicate, which is not credited.
func (s *session) suspected(r *reply) {
	s.taken(r)
	s.expect(r.request, 0)
}

// noticed checks that r accepts a notice of type t. If it is about a withdrawal, that is made up, so the endpoint may
// answer that it does not know it.
func (s *session) noticed(r *reply, t countersign.Type) {
	if code := r.code(); t != countersign.TypeAddress &&
		(code == countersign.CodeUnknownOrder || code == countersign.CodeNotKnownYet) {
		s.note("errCode %d is right: the withdrawal of the notice is made up", code)
		s.wellFormed(r)
		return
	}
	s.accepted(r, t)
	if t == countersign.TypeAddress && r.parsed.(countersign.NoticeAnswer).ToAddress != r.m.str("newAddress") {
		fail("In type 4 newAddress replaces toAddress: store it, and return it as toAddress.",
			"%s: toAddress of the answer is not the newAddress of the request", r.what)
	}
}

// contradicts checks that r refuses other content under an identifier that was accepted.
func (s *session) contradicts(r *reply) { s.judged(r, countersign.CodeDetailsDiffer) }

// sent returns the callback of r, or nil if it is malformed.
func (s *session) sent(r *reply) (countersign.Callback, error) {
	return countersign.ParseCallback(r.Plaintext, countersign.ParseOptions{Lenient: s.cfg.Other})
}

// sameMembers checks that the answer says what the request said (PROTOCOL.md, R3 to R5), except for missing members.
func (s *session) sameMembers(r *reply) {
	sent, _ := s.sent(r)
	if sent == nil {
		return
	}
	if q, is := sent.(*countersign.WithdrawalRequest); is && q.TenantUserID == "" { // the answer tells the user
		q.TenantUserID = r.parsed.(countersign.WithdrawalAnswer).TenantUserID
	}
	member := sent.Differs(r.parsed)
	if d, is := sent.(*countersign.Deposit); is && r.member("txIndex") != "" {
		if d.TxIndex != r.parsed.(countersign.DepositAnswer).TxIndex {
			member = "txIndex"
		}
	}
	if member != "" {
		fail("Return the members of the request as they came: amounts as text or exact decimals from end to end, txIndex "+
			"−1 and 0 as they are, toAddress whatever newAddress is.",
			"%s: %s of the answer is not that of the request", r.what, member)
	}
}

// opensTo checks the data of a response against PROTOCOL.md, R2, and sets r.parsed.
func (s *session) opensTo(r *reply, t countersign.Type) {
	if r.openErr != nil {
		fail("Seal the answer with the service's public part, block type 2 for every chunk, blocks joined, Base64 once "+
			"at the end: the members of the request and nothing else, in full blocks, and no plain JSON.",
			"%s: data does not open: %v", r.what, r.openErr)
	}
	parse := countersign.ParseAnswer
	if s.cfg.Other {
		parse = countersign.ParseLenientAnswer
	}
	var err error
	if r.parsed, err = parse(t, r.answer); err != nil {
		fail("Return the type of the request, and the members of its answer (PROTOCOL.md, Answers).",
			"%s: the answer is not valid: %v", r.what, err)
	}
	if r.parsed.UUID() != r.UUID {
		fail("Return the requestUUID of this very request. An answer kept from an earlier attempt needs the new one.",
			"%s: the requestUUID of the answer is not that of the request", r.what)
	}
}

// status checks that r has that HTTP status, which says that the body was not read.
func status(code int) check {
	return func(s *session, r *reply) {
		s.expectNothing(r.request)
		statusIs(r, code)
	}
}

// rejects checks that r refuses a request, with one of the HTTP statuses.
func (s *session) rejects(r *reply, statuses ...int) {
	s.expectNothing(r.request)
	arrived(r)
	if r.code() == countersign.CodeAccepted {
		fail("", "%s: it was accepted, with errCode 0", r.what) // which would lose or create money
	}
	statusIs(r, statuses...)
	s.wellFormed(r)
}

// notOpened checks that r says that the body cannot be opened or parsed: status 400, errCode 1001 or 1002, empty data
// (PROTOCOL.md, H2).
func (s *session) notOpened(r *reply) {
	s.rejects(r, http.StatusBadRequest)
	if c := r.response.ErrCode; c != countersign.CodeCannotOpen && c != countersign.CodeMalformed {
		fail("Use errCode 1001 for what does not open and 1002 for what is malformed.",
			"%s: errCode is %d, not 1001 or 1002", r.what, c)
	}
	if r.response.Data != "" {
		fail("Leave data empty: a request that could not be read has no answer.", "%s: data is not empty", r.what)
	}
}

// judged checks that r refuses something that could be read: status 200, and a response with one of the codes, any if
// none is given.
func (s *session) judged(r *reply, codes ...countersign.ErrCode) {
	s.rejects(r, http.StatusOK)
	if len(codes) > 0 && !slices.Contains(codes, r.response.ErrCode) {
		fail(fmt.Sprintf("Answer with errCode %d.", codes[0]),
			"%s: errCode is %d, not %d", r.what, r.response.ErrCode, codes[0])
	}
}

// notSigned checks that r is the refusal of PROTOCOL.md, L11.
func (s *session) notSigned(r *reply, word string) {
	s.judged(r, countersign.CodeMalformed)
	if r.response.Message != word {
		fail("Name the result of L7 as the message: unsigned, signature_invalid or signature_old.",
			"%s: the message is %q, not %s", r.what, s.show([]byte(r.response.Message)), word)
	}
}

// confirmed checks that r confirms the known order.
func (s *session) confirmed(r *reply) {
	s.accepted(r, countersign.TypeRequestWithdraw)
	a := r.parsed.(countersign.WithdrawalAnswer)
	if differs := a.Differs(s.order); differs != "" || a.TenantUserID != s.cfg.Order.TenantUserID {
		fail("Return the details and the user of the order: amounts exact, addresses as they are.",
			"%s: %s of the answer is not the order's", r.what, cmp.Or(differs, "tenantUserId"))
	}
}

func (s *session) knownOrder() *reply {
	r := s.post("the known order", s.known())
	s.confirmed(r)
	return r
}

// settles checks that r accepts a callback of type t, or confirms the known order.
func (s *session) settles(r *reply, t countersign.Type) {
	if t == countersign.TypeRequestWithdraw {
		s.confirmed(r)
	} else {
		s.accepted(r, t)
	}
}

// notConfirmed checks that r refuses or holds a question that could be read.
func (s *session) notConfirmed(r *reply) {
	s.judged(r)
	switch code := r.response.ErrCode; code.Class() {
	case countersign.ClassNotUnderstood:
		fail("The request is correct but the order is unknown: use errCode 2001, or 3002 while the order may still arrive.",
			"%s: errCode is %d, which says that the request was not understood", r.what, code)
	case countersign.ClassFailure:
		s.note("errCode %d is the endpoint's own: tell the service whether it is final", code)
	}
}

// bound checks PROTOCOL.md, D7.
func bound(r *reply) {
	if !countersign.DetailsBound(r.answer, r.blocks) {
		fail("A service that is not given the details of a withdrawal does not confirm this answer, because its blocks "+
			"could come from others. Write callBackId and address next to each other in one block and chainName, symbol, "+
			"amount and requestUUID in another, with spaces before a member that would begin in the one and end in the "+
			"other (PROTOCOL.md, Answers, R7); or have the service make a pair of 2048 bits for answers. Where the service "+
			"is given the details of every withdrawal, say so to this check.",
			"%s: the details of the answer are not bound to callBackId or requestUUID by the %d blocks that they came in",
			r.what, len(r.blocks))
	}
}
