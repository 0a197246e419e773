package countersigntest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

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
	FaultHuge      MerchantFault = "huge"

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
	{is: FaultNotTaken, about: "errCode 5000, and it has no effect"},
	{is: FaultAnswerLost, about: "taken, and then the connection ends"},
	{is: FaultDoneTwice, about: "taken again although it was before", tolerated: true},
	{is: FaultAnswersLate, about: "taken, and answered late"},
	{is: FaultHang, about: "no answer ever"},
	{is: FaultTrickle, about: "the right response, a byte at a time"},
	{is: FaultCloseEarly, about: "half of the right response"},
	{is: FaultHold, about: "errCode 3001: ask again"},
	{is: FaultRefuse, about: "errCode 2004: refused for good"},
	{is: FaultRedirect, about: "307 to a URL with an honest answer"},
	{is: FaultStatus500, about: "status 500 with the right response"},
	{is: FaultStatus204, about: "status 204 without a body"},
	{is: FaultHTML, about: "200 with a page"},
	{is: FaultForever, about: "a response that never ends"},
	{is: FaultHuge, about: "64 MiB"},
	{is: FaultOtherAttempt, about: "another requestUUID in the answer"},
	{is: FaultOtherCallback, about: "another trackingId or callBackId"},
	{is: FaultOtherUser, about: "another tenantUserId"},
	{is: FaultOtherType, about: "the answer to another type"},
	{is: FaultDetailsDiffer, about: "another amount"},
	{is: FaultOtherSeal, about: "sealed with another pair"},
	{is: FaultPlainData, about: "the answer as an object in data"},
	{is: FaultPlainText, about: "the answer as text in data"},
	{is: FaultNoData, about: "errCode 0 and empty data"},
	{is: FaultTextErrCode, about: `errCode "0"`},
	{is: FaultOtherAPIKey, about: "another merchant's apiKey"},
	{is: FaultNoAPIKeyThere, about: "the member apiKey is missing"},
	{is: FaultNoMessage, about: "errCode 5000 without a message"},
	{is: FaultNoAmount, about: "the amount is missing in the answer"},
	{is: FaultTwiceErrCode, about: "first 5000, then 0"},
	{is: FaultCutData, about: "Base64 without its end"},
	{is: FaultNotJSON, about: "something before the response"},
	{is: FaultNumberAmount, about: "a number for a text", tolerated: true},
	{is: FaultTrailingZeros, about: "the amount written differently", tolerated: true},
	{is: FaultReordered, about: "members in another order", tolerated: true},
	{is: FaultNullMembers, about: "unknown members", tolerated: true},
	{is: FaultTextType, about: `type "2"`, tolerated: true},
	{is: FaultContentType, about: "text/plain", tolerated: true},
	{is: FaultAnswerUnsigned, about: "not signed", signing: true},
	{is: FaultAnswerStripped, about: "signed, and Signature-Input is missing", signing: true},
	{is: FaultAnswerOtherSigner, about: "signed with another key", signing: true},
	{is: FaultAnswerAltered, about: "another body under its signature", signing: true},
	{is: FaultAnswerOldSignature, about: "signed ten minutes ago", signing: true},
	{is: FaultAnswerOtherSignature, about: "signed as the response to another request", signing: true},
}

// MerchantFaults lists every MerchantFault but NoMerchantFault.
var MerchantFaults = listOf(merchantFaults)

func (f MerchantFault) row() fault[MerchantFault] { return rowOf(merchantFaults, f) }

// About returns what f does, for people, or "" for an unknown fault.
func (f MerchantFault) About() string { return f.row().about }

// Tolerated reports whether a service accepts the response: f is a known
// difference between peers, not a fault.
func (f MerchantFault) Tolerated() bool { return f == NoMerchantFault || f.row().tolerated }

// NeedsSigning reports whether f is a fault of the signature. A merchant without
// MerchantConfig.Sign answers as if there were none, and so it does to a request without a signature.
func (f MerchantFault) NeedsSigning() bool { return f.row().signing }

// huge is what FaultHuge sends, in bytes.
const huge = 64 << 20

func (m *Merchant) answer(w *answering, r *http.Request, cb countersign.Callback, code countersign.ErrCode, f MerchantFault, previous string, gate <-chan struct{}) {
	if code != countersign.CodeAccepted {
		m.send(w, http.StatusOK, m.refusal(code))
		return
	}
	switch f {
	case FaultNotTaken:
		m.send(w, http.StatusOK, m.refusal(countersign.CodeInternal))
		return
	case FaultHold:
		m.send(w, http.StatusOK, m.refusal(countersign.CodeAwaitingApproval))
		return
	case FaultRefuse:
		m.send(w, http.StatusOK, m.refusal(countersign.CodeRefusedPerson))
		return
	case FaultHang:
		m.hang(r.Context())
		return
	case FaultForever, FaultHuge:
		m.flood(w, r, f)
		return
	}
	m.take(cb, f == FaultDoneTwice)
	resp, plaintext := m.honest(cb)
	if plaintext == nil { // an order that is not known; the faults below need an answer
		m.send(w, http.StatusOK, resp)
		return
	}
	w.plaintext = plaintext
	if m.faultyHTTP(w, r, f, resp, gate) {
		return
	}
	body, plaintext := m.faultyResponse(f, cb, previous, resp, plaintext)
	w.plaintext = plaintext
	switch f {
	case FaultContentType:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		m.sign(w, http.StatusOK, body)
		_, _ = w.Write(body)
		return
	case FaultAnswerAltered: // sealed again, which gives other bytes
		w.Header().Set("Content-Type", "application/json")
		m.sign(w, http.StatusOK, body)
		_, _ = w.Write(raw(m.sealed(plaintext, m.c.Key)))
		return
	}
	m.sendRaw(w, http.StatusOK, body)
}

// flood writes spaces, which JSON allows before an object, so that a reader without
// a bound does not stop.
func (m *Merchant) flood(w http.ResponseWriter, r *http.Request, f MerchantFault) {
	page := bytes.Repeat([]byte(" "), 32<<10)
	w.Header().Set("Content-Type", "application/json")
	for sent := 0; f == FaultForever || sent < huge; sent += len(page) {
		select {
		case <-r.Context().Done():
			return
		case <-m.closing:
			return
		default:
		}
		if _, err := w.Write(page); err != nil {
			return
		}
	}
}

// faultyHTTP sends resp with a fault of the transport. It gives false if f is no
// such fault.
func (m *Merchant) faultyHTTP(w *answering, r *http.Request, f MerchantFault, resp countersign.Response, gate <-chan struct{}) bool {
	body, err := resp.Marshal()
	if err != nil {
		return false
	}
	switch f {
	case FaultAnswerLost:
		panic(http.ErrAbortHandler)
	case FaultAnswersLate:
		select {
		case <-gate:
		case <-r.Context().Done():
		case <-m.closing:
		}
		m.sendRaw(w, http.StatusOK, body)
	case FaultCloseEarly:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		m.sendRaw(w, http.StatusOK, body[:len(body)/2])
		panic(http.ErrAbortHandler)
	case FaultTrickle:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		m.sign(w, http.StatusOK, body)
		m.trickle(w, r, body)
	case FaultRedirect:
		w.Header().Set("Location", r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	case FaultStatus500:
		m.sendRaw(w, http.StatusInternalServerError, body)
	case FaultStatus204:
		w.WriteHeader(http.StatusNoContent)
	case FaultHTML:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>Welcome</title>"))
	default:
		return false
	}
	return true
}

func (m *Merchant) trickle(w http.ResponseWriter, r *http.Request, body []byte) {
	connection := http.NewResponseController(w)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := range body {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-m.closing:
			return
		}
		if _, err := w.Write(body[i : i+1]); err != nil {
			return
		}
		_ = connection.Flush()
	}
}

// faultyResponse returns the bytes of a response with a fault in its content, and what is sealed in it.
func (m *Merchant) faultyResponse(f MerchantFault, cb countersign.Callback, previous string, resp countersign.Response, plaintext []byte) (body, sealed []byte) {
	if answer, is := faultyAnswer(f, cb, previous, plaintext); is {
		return raw(m.sealed(answer, m.c.Key)), answer
	}
	return m.faultyBody(f, resp, plaintext), plaintext
}

// faultyAnswer returns an answer with a fault in its content. It gives false if f is no such fault.
func faultyAnswer(f MerchantFault, cb countersign.Callback, previous string, plaintext []byte) ([]byte, bool) {
	switch f {
	case FaultOtherAttempt:
		if previous == "" || previous == cb.UUID() {
			previous = randomUUID()
		}
		plaintext = replace(plaintext, cb.UUID(), previous)
	case FaultOtherCallback:
		plaintext = replace(plaintext, `"`+cb.EventID()+`"`, `"another"`)
	case FaultOtherUser:
		plaintext = replace(plaintext, `"`+cb.User()+`"`, `"another"`)
	case FaultOtherType:
		plaintext = replace(plaintext, `"type":`+strconv.Itoa(int(cb.CallbackType())), `"type":3`)
		if cb.CallbackType() == countersign.TypeWithdraw {
			plaintext = replace(plaintext, `"type":3`, `"type":5`)
		}
	case FaultTextType:
		n := strconv.Itoa(int(cb.CallbackType()))
		plaintext = replace(plaintext, `"type":`+n, `"type":"`+n+`"`)
	case FaultDetailsDiffer:
		plaintext = replaceAmount(plaintext, func(a string) string { return `"1` + a + `"` })
	case FaultNumberAmount:
		plaintext = replaceAmount(plaintext, func(a string) string { return a })
	case FaultTrailingZeros:
		plaintext = replaceAmount(plaintext, func(a string) string {
			if !bytes.ContainsRune([]byte(a), '.') {
				a += "."
			}
			return `"` + a + `000"`
		})
	case FaultNoAmount:
		plaintext = replaceAmount(plaintext, func(string) string { return "null" })
	case FaultReordered:
		plaintext = UUIDFirst(plaintext)
	case FaultNullMembers:
		plaintext = append([]byte(`{"state2":null,"memo":{"a":[1,2]},`), plaintext[1:]...)
	default:
		return plaintext, false
	}
	return plaintext, true
}

// faultyBody returns a response with a fault beside its answer.
func (m *Merchant) faultyBody(f MerchantFault, resp countersign.Response, plaintext []byte) []byte {
	switch f {
	case FaultOtherSeal:
		pair, err := newPair()
		if err != nil {
			return nil
		}
		return raw(m.sealed(plaintext, pair.Public()))
	case FaultPlainData:
		return fmt.Appendf(nil, `{"apiKey":%q,"data":%s,"errCode":0,"message":""}`, m.c.APIKey.Reveal(), plaintext)
	case FaultPlainText:
		resp.Data = string(plaintext)
		return raw(resp)
	case FaultNoData:
		return replace(raw(resp), `"data":"`+resp.Data+`"`, `"data":""`)
	case FaultTextErrCode:
		return replace(raw(resp), `"errCode":0`, `"errCode":"0"`)
	case FaultTwiceErrCode:
		return replace(raw(resp), `"errCode":0`, `"errCode":5000,"errCode":0`)
	case FaultOtherAPIKey:
		resp.APIKey = newAPIKey()
		return raw(resp)
	case FaultNoAPIKeyThere:
		return replace(raw(resp), `"apiKey":"`+m.c.APIKey.Reveal()+`",`, "")
	case FaultNoMessage:
		return replace(raw(resp), `"errCode":0`, `"errCode":5000`)
	case FaultCutData:
		resp.Data = resp.Data[:len(resp.Data)-3]
		return raw(resp)
	case FaultNotJSON:
		return append([]byte("OK "), raw(resp)...)
	}
	return raw(resp)
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

// replaceAmount changes the value of the member amount, quotes included. An
// answer without one stays as it is.
func replaceAmount(plaintext []byte, change func(string) string) []byte {
	name := []byte(`"amount":"`)
	i := bytes.Index(plaintext, name)
	if i < 0 {
		return plaintext
	}
	start := i + len(name)
	end := start + bytes.IndexByte(plaintext[start:], '"')
	out := append([]byte(nil), plaintext[:start-1]...)
	out = append(out, change(string(plaintext[start:end]))...)
	return append(out, plaintext[end+1:]...)
}
