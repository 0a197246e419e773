package countersigntest

// ServiceFault is one fault of a delivery. Its text is what people type.
type ServiceFault string

// The faults; About says what each does. The zero ServiceFault is none.
const (
	NoServiceFault ServiceFault = ""
	// An attacker with stolen sealed requests.
	FaultSpliced  ServiceFault = "splice"
	FaultReplayed ServiceFault = "replay"
	FaultSwapped  ServiceFault = "swap"

	// A faulty service.
	FaultOldUUID     ServiceFault = "old-uuid"
	FaultCut         ServiceFault = "cut"
	FaultOtherKey    ServiceFault = "bad-seal"
	FaultPlain       ServiceFault = "plain"
	FaultSpaces      ServiceFault = "spaces"
	FaultNoAPIKey    ServiceFault = "no-api-key"
	FaultWrongAPIKey ServiceFault = "wrong-api-key"
	FaultWrongURL    ServiceFault = "wrong-url"

	// Somebody who has all secrets but the service's own key of the signed link.
	FaultUnsigned       ServiceFault = "unsigned"
	FaultStripped       ServiceFault = "stripped"
	FaultOtherSigner    ServiceFault = "other-signer"
	FaultAltered        ServiceFault = "altered"
	FaultOldSignature   ServiceFault = "old-signature"
	FaultOtherSignature ServiceFault = "other-signature"
	FaultOtherPlaintext ServiceFault = "other-plaintext"
	FaultSignedURL      ServiceFault = "signed-url"
)

// What to change at a merchant that takes a fault.
const (
	fixBinding = "Compare the requestUUID with the rest of the message (PROTOCOL.md, Binding), byte for byte. Against a " +
		"service that does not bind, keep the digest of every block that holds the requestUUID and refuse it in another body."
	fixSeal   = "Refuse every body that does not open: check the padding of every block byte by byte."
	fixAPIKey = "Compare the whole X-API-KEY with the key that the service sends, in constant time, before the body is " +
		"read, and answer 401 without it."
	fixURL = "Take type 2 at the withdraw URL alone, and every other type at the notify URL alone."
	fixOld = "Refuse a request whose created is more than five minutes from the clock, unless its requestUUID was taken " +
		"before (PROTOCOL.md, L8)."
	fixDemand = "Demand the service's signature of every request (PROTOCOL.md, L7 and L11), over the headers and the " +
		"body as they came, before anything is opened. For a gateway: --service-signing-key, and --public-url behind a " +
		"proxy."
)

// The words of PROTOCOL.md, L7.
const (
	wordUnsigned = "unsigned"
	wordInvalid  = "signature_invalid"
	wordOld      = "signature_old"
)

var serviceFaults = []fault[ServiceFault]{
	{is: FaultSpliced, about: "its first block, and the rest of an earlier body", refusal: "400", fix: fixBinding},
	{is: FaultReplayed, about: "an earlier body in its place"},
	{is: FaultSwapped, about: "its last two blocks swapped", refusal: "400", fix: fixBinding},
	{is: FaultOldUUID, about: "the requestUUID of an earlier attempt", refusal: "400", fix: fixBinding},
	{is: FaultCut, about: "the last block is missing", refusal: "400", fix: fixBinding},
	{is: FaultOtherKey, about: "sealed with another pair", refusal: "400", fix: fixSeal},
	{is: FaultPlain, about: "not sealed", refusal: "400", fix: fixSeal},
	{is: FaultSpaces, about: "a + of the Base64 has become a space, as form parsers do", refusal: "400", fix: fixSeal},
	{is: FaultNoAPIKey, about: "without the API key in the header", refusal: "401", fix: fixAPIKey},
	{is: FaultWrongAPIKey, about: "with another API key in the header", refusal: "401", fix: fixAPIKey},
	{is: FaultWrongURL, about: "sent to the URL of the other types", refusal: "1004", fix: fixURL},
	{is: FaultUnsigned, about: "not signed", refusal: wordUnsigned, signing: true, fix: fixDemand},
	{is: FaultStripped, about: "signed, and Signature-Input is missing", refusal: wordUnsigned, signing: true,
		fix: fixDemand},
	{is: FaultOtherSigner, about: "signed with another key", refusal: wordInvalid, signing: true, fix: fixDemand},
	{is: FaultAltered, about: "another body under its signature", refusal: wordInvalid, signing: true, fix: fixDemand},
	{is: FaultOldSignature, about: "signed ten minutes ago", refusal: wordOld, signing: true, fix: fixOld},
	{is: FaultOtherSignature, about: "with the signature of an earlier request", refusal: wordInvalid, signing: true,
		fix: fixDemand},
	{is: FaultOtherPlaintext, about: "signed over another plaintext", refusal: wordInvalid, signing: true, fix: fixDemand},
	{is: FaultSignedURL, about: "signed for the URL of the other types", refusal: wordInvalid, signing: true,
		fix: fixDemand},
}

// ServiceFaults lists every ServiceFault but NoServiceFault.
var ServiceFaults = listOf(serviceFaults)

func (f ServiceFault) row() fault[ServiceFault] { return rowOf(serviceFaults, f) }

// About returns what f does, for people, or "" for an unknown fault.
func (f ServiceFault) About() string { return f.row().about }

// Refused reports whether a merchant must refuse what f sends. A merchant that requires no API key cannot refuse
// FaultNoAPIKey and FaultWrongAPIKey. With a service that does not bind it cannot always refuse FaultOldUUID. One that
// demands no signatures cannot refuse faults of NeedsSigning.
func (f ServiceFault) Refused() bool { return f.Refusal() != "" }

// Refusal returns how a merchant must refuse what f sends: the HTTP status 400 or 401, the errCode 1004, or a word of
// PROTOCOL.md, L7, with errCode 1002. Empty: it need not.
func (f ServiceFault) Refusal() string { return f.row().refusal }

// Fix returns what to change at a merchant that takes what f sends.
func (f ServiceFault) Fix() string { return f.row().fix }

// NeedsEarlier reports whether f is made of a request that was sent before.
func (f ServiceFault) NeedsEarlier() bool {
	return f == FaultSpliced || f == FaultReplayed || f == FaultOldUUID || f == FaultOtherSignature
}

// NeedsSigning reports whether f is a fault of the signature, which only a service with
// ServiceConfig.Sign makes.
func (f ServiceFault) NeedsSigning() bool { return f.row().signing }
