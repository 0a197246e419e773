package conformance

import (
	"net/http"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
)

// linkCases are about the signed link: an endpoint that demands signed requests takes no other, and
// signs what it answers. Each other case has signed requests too, and looks at the signatures of responses.
func linkCases() []Case {
	signs, answers := []*Need{NeedSigning}, []*Need{NeedSigning, NeedAnswerKey}
	return []Case{
		{1301, Must, "link/accepted", "The signed link, L9", "A signed deposit is accepted, and its response is signed by the merchant's key for this request.", answers, setting()},
		{1302, Must, "link/refusal", "The signed link, L9", "A refusal of a signed request is signed too.", answers, linkRefusal},
		{1303, Should, "link/unreadable", "The signed link, L9", "The response to a signed request that does not open is signed.", answers, linkUnreadable},
		{1304, Must, "link/own-answer", "The signed link, L4", "Each response has a signature of its own, for its own request.", answers, linkOwnAnswer},
		{1305, Must, "link/unsigned", "The signed link, L11", "A request without a signature is answered with 1002 and unsigned, and has no effect.", signs,
			refuses(countersign.TypeDeposited, countersigntest.FaultUnsigned)},
		{1306, Must, "link/stripped", "The signed link, L7", "A request whose Signature-Input is missing is unsigned.", signs,
			refuses(countersign.TypeDeposited, countersigntest.FaultStripped)},
		{1307, Must, "link/other-key", "The signed link, L7", "A request that another key signed is answered with 1002 and signature_invalid.", signs,
			refuses(countersign.TypeDeposited, countersigntest.FaultOtherSigner)},
		{1308, Must, "link/altered", "The signed link, L5", "A request with another body under its signature is answered with 1002 and signature_invalid.", signs,
			refuses(countersign.TypeDeposited, countersigntest.FaultAltered)},
		{1309, Must, "link/other-plaintext", "The signed link, L6", "A request whose signature is over another plaintext is answered with 1002 and signature_invalid.", signs,
			signedWrong("a deposit whose signature is over another plaintext", func(_ *session, _ *envelope.LinkRequest, plaintext []byte) []byte {
				return append([]byte(" "), plaintext...)
			})},
		{1310, Must, "link/other-request", "The signed link, L7", "A request with the signature of another request is answered with 1002 and signature_invalid.", signs,
			refuses(countersign.TypeDeposited, countersigntest.FaultOtherSignature)},
		{1311, Must, "link/other-url", "The signed link, L3", "A request that was signed for the other URL is answered with 1002 and signature_invalid.", signs,
			signedWrong("a deposit that was signed for the withdraw URL", func(s *session, r *envelope.LinkRequest, plaintext []byte) []byte {
				r.URL = s.urls[toWithdraw].String()
				return plaintext
			})},
		{1312, Must, "link/replayed", "The signed link, L8", "A request that was signed ten minutes ago and was not taken before is answered with 1002 and signature_old.", signs,
			refuses(countersign.TypeDeposited, countersigntest.FaultOldSignature)},
		{1313, Must, "link/withdrawal", "The signed link, L11", "A withdrawal that is asked about without a signature is not confirmed.", []*Need{NeedSigning, NeedOrder},
			refuses(countersign.TypeRequestWithdraw, countersigntest.FaultUnsigned)},
	}
}

const answerFix = "Sign every response with a JSON body to a request that has a signature (PROTOCOL.md, L9), with the key whose public part the service has."

// signedBy fails if the service demands signed answers and r, the response to a signed request, is not one.
func (s *session) signedBy(r *reply) {
	if s.cfg.AnswerKey == nil || r.status != http.StatusOK || !envelope.Signed(r.asked) {
		return
	}
	if r.signErr != nil {
		fail(answerFix, "%s: the response is not signed by the merchant's key: %v", r.what, r.signErr)
	}
	if r.answer != nil && !r.signature.Covers(r.answer) {
		fail("Put the SHA-256 of the answer's plaintext into Content-Digest, as opened (PROTOCOL.md, L6).", "%s: the signature is not over what data opens to", r.what)
	}
}

// notSigned checks that r is the refusal of PROTOCOL.md, L11.
func (s *session) notSigned(r *reply, word string) {
	s.judged(r, countersign.CodeMalformed)
	if r.response.Message != word {
		fail("Name the result of L7 as the message: unsigned, signature_invalid or signature_old.", "%s: the message is %q, not %s", r.what, s.show([]byte(r.response.Message)), word)
	}
}

func linkRefusal(s *session) {
	s.notConfirmed(s.post("a signed question about an unknown order", s.unknown()))
}

func linkUnreadable(s *session) {
	q := s.attempt("a signed body that does not open", s.deposit())
	q.body = []byte("AAAA")
	r := s.send(q)
	s.notOpened(r)
	if r.signErr != nil {
		fail(answerFix, "%s: the response is not signed by the merchant's key: %v", r.what, r.signErr)
	}
}

func linkOwnAnswer(s *session) {
	first, second := s.takes("a signed deposit", s.deposit()), s.takes("another signed deposit", s.deposit())
	if first.signature.Nonce == second.signature.Nonce {
		fail("Take a new nonce for each signature (PROTOCOL.md, L2).", "two responses have the same nonce")
	}
}

// signedWrong posts a deposit signed as change has it: for what it makes of the request and the plaintext.
func signedWrong(what string, change func(s *session, r *envelope.LinkRequest, plaintext []byte) []byte) func(*session) {
	return func(s *session) {
		s.advice = countersigntest.FaultUnsigned.Fix()
		q := s.attempt(what, s.deposit())
		q.resign = func(r envelope.LinkRequest, _ http.Header) {
			plaintext := change(s, &r, q.plaintext)
			if err := s.cfg.Sign.SignRequest(r, plaintext, time.Now()); err != nil {
				skip("the request cannot be signed: %v", err)
			}
		}
		s.notSigned(s.send(q), "signature_invalid")
	}
}
