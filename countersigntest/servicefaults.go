package countersigntest

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"

	"countersign"
	"countersign/envelope"
)

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

// fault describes a fault of a service or of a merchant.
type fault[F ~string] struct {
	is        F
	about     string
	signing   bool   // it is one of the signature
	refusal   string // of a service: see ServiceFault.Refusal
	fix       string // of a service: what to change at a merchant that takes it
	tolerated bool   // of a merchant: a known difference between peers

	// Of a merchant: an errCode, or what it makes of the plaintext of an answer, or of a response.
	code   countersign.ErrCode
	answer func(plaintext []byte, cb countersign.Callback, previous string) []byte
	body   func(m *Merchant, r countersign.Response, plaintext []byte) []byte
}

func listOf[F ~string](faults []fault[F]) (list []F) {
	for _, f := range faults {
		list = append(list, f.is)
	}
	return list
}

func rowOf[F ~string](faults []fault[F], f F) fault[F] {
	for _, row := range faults {
		if row.is == f {
			return row
		}
	}
	return fault[F]{}
}

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

// Deliver makes one attempt of cb, with a new requestUUID, and judges the response. It does not change cb.
func (s *Service) Deliver(ctx context.Context, to Endpoint, cb countersign.Callback) Result {
	s.mu.Lock()
	f, previous := NoServiceFault, s.previous
	if s.c.Fault != nil {
		f = s.c.Fault(s.n, cb)
	}
	s.n++
	s.mu.Unlock()
	plaintext, sent, err := s.Plaintext(cb)
	if err != nil {
		return Result{Err: err}
	}
	body, err := s.Seal(plaintext)
	if err != nil {
		return Result{Err: err}
	}
	target, elsewhere := to.notify, to.withdraw
	if cb.CallbackType().Lane() == countersign.LaneWithdraw {
		target, elsewhere = elsewhere, target
	}
	honest := Request{Plaintext: plaintext, UUID: sent.UUID(), Sealed: body, URL: to.url(target),
		APIKey: s.c.CallbackAPIKey}
	posted, err := s.Forge(f, honest, to.url(elsewhere), previous)
	if err != nil {
		return Result{Err: err}
	}
	if posted.URL != honest.URL {
		target = elsewhere
	}
	if f == NoServiceFault {
		s.mu.Lock()
		s.previous = posted
		s.mu.Unlock()
	}
	return s.judge(send(ctx, to, target, posted.APIKey, posted.Header, posted.Body), sent, posted.Sealed)
}

// Request is one POST of a callback.
type Request struct {
	Plaintext   []byte
	UUID        string // the requestUUID that the answer must have
	Sealed      []byte // Plaintext, sealed
	Body        []byte // what is posted: Sealed in the form of the config
	URL         string // absolute
	ContentType string // empty: that of services
	APIKey      countersign.APIKey
	Header      http.Header // Content-Type, and the signature if the service signs
}

// Forge returns r as f posts it: with Body, Header and the fault. r has none of these yet. elsewhere is the URL of the
// other types, earlier a request that was sent before. It fails if f needs an earlier request and there is none, or is
// a fault of the signature and the service does not sign.
func (s *Service) Forge(f ServiceFault, r Request, elsewhere string, earlier Request) (Request, error) {
	honest := r
	switch {
	case f.NeedsEarlier() && earlier.Sealed == nil:
		return r, errors.New("countersigntest: " + string(f) + " needs an earlier delivery")
	case f.NeedsSigning() && s.c.Sign == nil:
		return r, errors.New("countersigntest: " + string(f) + " needs a service that signs")
	}
	var err error
	if r.Sealed, err = s.spoil(f, r.Plaintext, r.Sealed, earlier); err != nil {
		return r, err
	}
	r.Body = s.Wrap(r.Sealed)
	switch f {
	case FaultReplayed:
		r.Plaintext, r.UUID = earlier.Plaintext, earlier.UUID
	case FaultSpliced, FaultOldUUID:
		r.UUID = earlier.UUID
	case FaultNoAPIKey:
		r.APIKey = ""
	case FaultWrongAPIKey:
		r.APIKey = newAPIKey()
	case FaultWrongURL:
		r.URL = elsewhere
	}
	r.Header, err = s.link(f, r, s.Wrap(honest.Sealed), elsewhere, earlier)
	return r, err
}

// spoil returns the bytes that f seals or sends in place of body, which is plaintext sealed. For faults outside the
// body it returns body.
func (s *Service) spoil(f ServiceFault, plaintext, body []byte, earlier Request) ([]byte, error) {
	size := s.c.RequestKey.Size()
	switch f {
	case FaultReplayed:
		return earlier.Sealed, nil
	case FaultSpliced:
		return Splice(body, earlier.Sealed, 1, size)
	case FaultOldUUID:
		start, end, ok := countersign.UUIDSpan(plaintext)
		if !ok || end-start != len(earlier.UUID) {
			return nil, errors.New("countersigntest: " + string(f) + " needs a requestUUID of the same length")
		}
		return s.Seal(slices.Concat(plaintext[:start], []byte(earlier.UUID), plaintext[end:]))
	case FaultSwapped, FaultCut:
		b, err := blocksOf(body, 2, size)
		if err != nil {
			return nil, err
		}
		rest, last := b[:len(b)-size], b[len(b)-size:]
		if f == FaultSwapped {
			rest = slices.Concat(rest[:len(rest)-size], last, rest[len(rest)-size:])
		}
		return base64.StdEncoding.AppendEncode(nil, rest), nil
	case FaultOtherKey:
		pair, err := envelope.GenerateKey(s.c.RequestKey.Bits() / 8 * 8)
		if err != nil {
			return nil, err
		}
		if !s.c.RequestKey.HasPrivate() {
			pair = pair.Public()
		}
		return envelope.Seal(pair, s.c.Padding, plaintext)
	case FaultPlain:
		return plaintext, nil
	case FaultAltered:
		other, err := s.anew(plaintext)
		if err != nil {
			return nil, err
		}
		return s.Seal(other)
	case FaultSpaces:
		// Not every body has a +. A space anywhere is the same fault.
		spaced := append([]byte(nil), body...)
		spaced[len(spaced)/2] = ' '
		return spaced, nil
	}
	return body, nil
}
