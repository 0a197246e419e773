package countersigntest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"countersign"
)

// MerchantFault is one fault of a merchant's response. Its text is what people type.
type MerchantFault string

// The faults; About says what each does. The zero MerchantFault is an honest response.
const (
	NoMerchantFault MerchantFault = ""

	// A merchant that dies or is slow.
	FaultNotTaken    MerchantFault = "not-taken"
	FaultAnswerLost  MerchantFault = "drop"
	FaultDoneTwice   MerchantFault = "done-twice"
	FaultAnswersLate MerchantFault = "late" // until Merchant.Release
	FaultHang        MerchantFault = "hang"
	FaultTrickle     MerchantFault = "trickle"
	FaultCloseEarly  MerchantFault = "close-early"

	// A merchant that does not accept.
	FaultHold   MerchantFault = "hold"
	FaultRefuse MerchantFault = "refuse"

	// Something other than a merchant answers.
	FaultRedirect  MerchantFault = "redirect"
	FaultStatus500 MerchantFault = "500"
	FaultStatus204 MerchantFault = "204"
	FaultHTML      MerchantFault = "html"
	FaultForever   MerchantFault = "for-ever"

	// A faulty merchant, or an attacker in its place.
	FaultOtherAttempt  MerchantFault = "other-attempt"
	FaultOtherCallback MerchantFault = "other-callback"
	FaultOtherUser     MerchantFault = "other-user"
	FaultOtherType     MerchantFault = "other-type"
	FaultDetailsDiffer MerchantFault = "wrong-amount"
	FaultOtherSeal     MerchantFault = "bad-seal"
	FaultPlainData     MerchantFault = "plain-data"
	FaultPlainText     MerchantFault = "plain-text"
	FaultNoData        MerchantFault = "no-data"
	FaultTextErrCode   MerchantFault = "text-errcode"
	FaultOtherAPIKey   MerchantFault = "other-api-key"
	FaultNoAPIKeyThere MerchantFault = "no-api-key"
	FaultNoMessage     MerchantFault = "no-message"
	FaultNoAmount      MerchantFault = "no-amount"
	FaultTwiceErrCode  MerchantFault = "errcode-twice"
	FaultCutData       MerchantFault = "cut-data"
	FaultNotJSON       MerchantFault = "not-json"
	FaultNumberAmount  MerchantFault = "number-amount"
	FaultTrailingZeros MerchantFault = "trailing-zeros"
	FaultReordered     MerchantFault = "reordered"
	FaultNullMembers   MerchantFault = "null-members"
	FaultTextType      MerchantFault = "text-type"
	FaultContentType   MerchantFault = "content-type"

	// Somebody who has all secrets but the merchant's own key of the signed link.
	FaultAnswerUnsigned       MerchantFault = "unsigned"
	FaultAnswerStripped       MerchantFault = "stripped"
	FaultAnswerOtherSigner    MerchantFault = "other-signer"
	FaultAnswerAltered        MerchantFault = "altered"
	FaultAnswerOldSignature   MerchantFault = "old-signature"
	FaultAnswerOtherSignature MerchantFault = "other-signature"
)

var merchantFaults = []fault[MerchantFault]{
	{is: FaultNotTaken, about: "errCode 5000, and it has no effect", code: countersign.CodeInternal},
	{is: FaultAnswerLost, about: "taken, and then the connection ends"},
	{is: FaultDoneTwice, about: "taken again although it was before", tolerated: true},
	{is: FaultAnswersLate, about: "taken, and answered late"},
	{is: FaultHang, about: "no answer ever"},
	{is: FaultTrickle, about: "the right response, a byte at a time"},
	{is: FaultCloseEarly, about: "half of the right response"},
	{is: FaultHold, about: "errCode 3001: ask again", code: countersign.CodeAwaitingApproval},
	{is: FaultRefuse, about: "errCode 2004: refused for good", code: countersign.CodeRefusedPerson},
	{is: FaultRedirect, about: "307 to a URL with an honest answer"},
	{is: FaultStatus500, about: "status 500 with the right response"},
	{is: FaultStatus204, about: "status 204 without a body"},
	{is: FaultHTML, about: "200 with a page"},
	{is: FaultForever, about: "a response that never ends"},
	{is: FaultOtherAttempt, about: "another requestUUID in the answer",
		answer: func(plain []byte, cb countersign.Callback, previous string) []byte {
			if previous == "" || previous == cb.UUID() {
				previous = countersign.UnboundUUID
			}
			return replace(plain, cb.UUID(), previous)
		}},
	{is: FaultOtherCallback, about: "another trackingId or callBackId",
		answer: func(plain []byte, cb countersign.Callback, _ string) []byte {
			return replace(plain, `"`+cb.EventID()+`"`, `"another"`)
		}},
	{is: FaultOtherUser, about: "another tenantUserId",
		answer: func(plain []byte, cb countersign.Callback, _ string) []byte {
			return replace(plain, `"`+cb.User()+`"`, `"another"`)
		}},
	{is: FaultOtherType, about: "the answer to another type",
		answer: func(plain []byte, cb countersign.Callback, _ string) []byte {
			other := countersign.TypeWithdraw
			if cb.CallbackType() == other {
				other = countersign.TypeInvalidAddress
			}
			return replace(plain, typeOf(cb, ""), fmt.Sprintf(`"type":%d`, int(other)))
		}},
	{is: FaultDetailsDiffer, about: "another amount", answer: amount(func(a string) string { return `"1` + a + `"` })},
	{is: FaultOtherSeal, about: "sealed with another pair",
		body: func(m *Merchant, _ countersign.Response, plain []byte) []byte {
			pair, err := newPair()
			if err != nil {
				return nil
			}
			return raw(m.sealed(plain, pair.Public()))
		}},
	{is: FaultPlainData, about: "the answer as an object in data",
		body: func(m *Merchant, _ countersign.Response, plain []byte) []byte {
			return fmt.Appendf(nil, `{"apiKey":%q,"data":%s,"errCode":0,"message":""}`, m.c.APIKey.Reveal(), plain)
		}},
	{is: FaultPlainText, about: "the answer as text in data",
		body: func(_ *Merchant, r countersign.Response, plain []byte) []byte {
			r.Data = string(plain)
			return raw(r)
		}},
	{is: FaultNoData, about: "errCode 0 and empty data",
		body: func(_ *Merchant, r countersign.Response, _ []byte) []byte { return replace(raw(r), r.Data, "") }},
	{is: FaultTextErrCode, about: `errCode "0"`, body: errCode(`"errCode":"0"`)},
	{is: FaultOtherAPIKey, about: "another merchant's apiKey",
		body: func(_ *Merchant, r countersign.Response, _ []byte) []byte {
			r.APIKey = newAPIKey()
			return raw(r)
		}},
	{is: FaultNoAPIKeyThere, about: "the member apiKey is missing",
		body: func(_ *Merchant, r countersign.Response, _ []byte) []byte {
			return replace(raw(r), `"apiKey":"`+r.APIKey.Reveal()+`",`, "")
		}},
	{is: FaultNoMessage, about: "errCode 5000 without a message", body: errCode(`"errCode":5000`)},
	{is: FaultNoAmount, about: "the amount is missing in the answer",
		answer: amount(func(string) string { return "null" })},
	{is: FaultTwiceErrCode, about: "first 5000, then 0", body: errCode(`"errCode":5000,"errCode":0`)},
	{is: FaultCutData, about: "Base64 without its end",
		body: func(_ *Merchant, r countersign.Response, _ []byte) []byte {
			return replace(raw(r), r.Data, r.Data[:len(r.Data)-3])
		}},
	{is: FaultNotJSON, about: "something before the response",
		body: func(_ *Merchant, r countersign.Response, _ []byte) []byte { return append([]byte("OK "), raw(r)...) }},
	{is: FaultNumberAmount, about: "a number for a text", tolerated: true,
		answer: amount(func(a string) string { return a })},
	{is: FaultTrailingZeros, about: "the amount written differently", tolerated: true,
		answer: amount(func(a string) string {
			if !strings.Contains(a, ".") {
				a += "."
			}
			return `"` + a + `000"`
		})},
	{is: FaultReordered, about: "members in another order", tolerated: true,
		answer: func(plain []byte, _ countersign.Callback, _ string) []byte { return uuidFirst(plain) }},
	{is: FaultNullMembers, about: "unknown members", tolerated: true,
		answer: func(plain []byte, _ countersign.Callback, _ string) []byte {
			return append([]byte(`{"state2":null,"memo":{"a":[1,2]},`), plain[1:]...)
		}},
	{is: FaultTextType, about: `type "2"`, tolerated: true,
		answer: func(plain []byte, cb countersign.Callback, _ string) []byte {
			return replace(plain, typeOf(cb, ""), typeOf(cb, `"`))
		}},
	{is: FaultContentType, about: "text/plain", tolerated: true},
	{is: FaultAnswerUnsigned, about: "not signed", signing: true},
	{is: FaultAnswerStripped, about: "signed, and Signature-Input is missing", signing: true},
	{is: FaultAnswerOtherSigner, about: "signed with another key", signing: true},
	{is: FaultAnswerAltered, about: "another body under its signature", signing: true},
	{is: FaultAnswerOldSignature, about: "signed ten minutes ago", signing: true},
	{is: FaultAnswerOtherSignature, about: "signed as the response to another request", signing: true},
}

// typeOf is the member type of the answer to cb, its number in quotes or not.
func typeOf(cb countersign.Callback, quote string) string {
	return fmt.Sprintf(`"type":%s%d%s`, quote, int(cb.CallbackType()), quote)
}

// errCode puts something in place of errCode 0.
func errCode(with string) func(*Merchant, countersign.Response, []byte) []byte {
	return func(_ *Merchant, r countersign.Response, _ []byte) []byte {
		return replace(raw(r), `"errCode":0`, with)
	}
}

// amount changes the value of the member amount, quotes included. An answer without one stays as it is.
func amount(change func(string) string) func([]byte, countersign.Callback, string) []byte {
	return func(plain []byte, _ countersign.Callback, _ string) []byte {
		before, rest, found := bytes.Cut(plain, []byte(`"amount":"`))
		value, after, _ := bytes.Cut(rest, []byte(`"`))
		if !found {
			return plain
		}
		return slices.Concat(before, []byte(`"amount":`), []byte(change(string(value))), after)
	}
}

func raw(r countersign.Response) []byte {
	b, err := r.Marshal()
	if err != nil {
		return nil
	}
	return b
}

func replace(b []byte, old, with string) []byte {
	return bytes.Replace(b, []byte(old), []byte(with), 1)
}

// MerchantFaults lists every MerchantFault but NoMerchantFault.
var MerchantFaults = listOf(merchantFaults)

func (f MerchantFault) row() fault[MerchantFault] { return rowOf(merchantFaults, f) }

// About returns what f does, for people, or "" for an unknown fault.
func (f MerchantFault) About() string { return f.row().about }

// Tolerated reports whether a service accepts the response: f is a known
// difference between peers, not a fault.
func (f MerchantFault) Tolerated() bool { return f == NoMerchantFault || f.row().tolerated }

// NeedsSigning reports whether f is a fault of the signature. Without MerchantConfig.Sign, or to a request without a
// signature, a merchant answers as if there were no fault.
func (f MerchantFault) NeedsSigning() bool { return f.row().signing }
