package conformance

import (
	"countersign"
	"countersign/countersigntest"
)

// linkCases are about the signed link: an endpoint that demands signed requests takes no other, and signs what it
// answers. Each other case has signed requests too, and looks at the signatures of responses.
func linkCases() []Case {
	signs, answers := []*Need{NeedSigning}, []*Need{NeedSigning, NeedAnswerKey}
	return []Case{
		{1301, Must, ours, "link/signed", "The signed link, L4, L9",
			"The responses to signed requests, refusals too, have signatures of their own by the merchant's key.", answers,
			linkSigned},
		{1303, Should, ours, "link/unreadable", "The signed link, L9",
			"The response to a signed request that does not open is signed.", answers, posts(1, func(s *session, r *reply) {
				s.notOpened(r)
				s.signedBy(r)
			}, way{"that does not open", func(_ *session, q *request) { q.Sealed = []byte("AAAA") }})},
		{1305, Must, ours, "link/refused", "The signed link, L3, L5, L6, L7, L8, L11",
			"A request that is unsigned, signed by another key or for another request, or too old, is answered with 1002.",
			signs, refuses(countersign.TypeDeposited, countersigntest.FaultUnsigned, countersigntest.FaultStripped,
				countersigntest.FaultOtherSigner, countersigntest.FaultAltered, countersigntest.FaultOtherPlaintext,
				countersigntest.FaultOtherSignature, countersigntest.FaultSignedURL, countersigntest.FaultOldSignature)},
		{1313, Must, ours, "link/withdrawal", "The signed link, L11",
			"A withdrawal that is asked about without a signature is not confirmed.", []*Need{NeedSigning, NeedOrder},
			refuses(countersign.TypeRequestWithdraw, countersigntest.FaultUnsigned)},
	}
}

func linkSigned(s *session) {
	first, second := s.takes("a signed deposit", s.deposit()), s.takes("another signed deposit", s.deposit())
	if first.signature.Nonce == second.signature.Nonce {
		fail("Take a new nonce for each signature (PROTOCOL.md, L2).", "two responses have the same nonce")
	}
	s.notConfirmed(s.post("a signed question about an unknown order", s.unknown()))
}
