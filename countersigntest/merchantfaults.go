package countersigntest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"countersign"
)

// MerchantFault is one fault of a merchant's response.
type MerchantFault string

// The faults. The zero MerchantFault is an honest response.
const (
	NoMerchantFault MerchantFault = ""

	// A merchant that dies or is slow.
	FaultNotTaken    MerchantFault = "not taken"    // errCode 5000 and no effect
	FaultAnswerLost  MerchantFault = "answer lost"  // taken, then the connection ends
	FaultDoneTwice   MerchantFault = "done twice"   // taken again although it was before
	FaultAnswersLate MerchantFault = "answers late" // taken, answered after Merchant.Release
	FaultHang        MerchantFault = "hang"         // no answer ever
	FaultTrickle     MerchantFault = "trickle"      // the right response, a byte at a time
	FaultCloseEarly  MerchantFault = "close early"  // half of the right response

	// A merchant that does not accept.
	FaultHold   MerchantFault = "hold"   // errCode 3001
	FaultRefuse MerchantFault = "refuse" // errCode 2004

	// Something other than a merchant answers.
	FaultRedirect  MerchantFault = "redirect"   // 307 to a URL with an honest answer
	FaultStatus500 MerchantFault = "status 500" // with the right response
	FaultStatus204 MerchantFault = "status 204" // without a body
	FaultHTML      MerchantFault = "html"       // 200 with a page
	FaultForever   MerchantFault = "for ever"   // a response that never ends
	FaultHuge      MerchantFault = "huge"       // 64 MiB

	// A faulty merchant, or an attacker in its place.
	FaultOtherAttempt  MerchantFault = "other attempt"  // another requestUUID in the answer
	FaultOtherCallback MerchantFault = "other callback" // another trackingId or callBackId
	FaultOtherUser     MerchantFault = "other user"     // another tenantUserId
	FaultOtherType     MerchantFault = "other type"     // the answer to another type
	FaultDetailsDiffer MerchantFault = "details differ" // another amount
	FaultOtherSeal     MerchantFault = "other seal"     // sealed with another pair
	FaultPlainData     MerchantFault = "plain data"     // the answer as an object in data
	FaultPlainText     MerchantFault = "plain text"     // the answer as text in data
	FaultNoData        MerchantFault = "no data"        // errCode 0 and empty data
	FaultTextErrCode   MerchantFault = "text errCode"   // errCode "0"
	FaultOtherAPIKey   MerchantFault = "other apiKey"   // another merchant's
	FaultNoAPIKeyThere MerchantFault = "no apiKey"      // the member is missing
	FaultNoMessage     MerchantFault = "no message"     // errCode 5000 without one
	FaultNoAmount      MerchantFault = "no amount"      // missing in the answer
	FaultTwiceErrCode  MerchantFault = "errCode twice"  // first 5000, then 0
	FaultCutData       MerchantFault = "cut data"       // Base64 without its end
	FaultNotJSON       MerchantFault = "not json"       // something before the response
	FaultNumberAmount  MerchantFault = "number amount"  // tolerated: a number for a string
	FaultTrailingZeros MerchantFault = "trailing zeros" // tolerated: the amount written differently
	FaultReordered     MerchantFault = "reordered"      // tolerated: members in another order
	FaultNullMembers   MerchantFault = "null members"   // tolerated: unknown members
	FaultTextType      MerchantFault = "text type"      // tolerated: type "2"
	FaultContentType   MerchantFault = "content type"   // tolerated: text/plain
)

// MerchantFaults lists every MerchantFault but NoMerchantFault.
var MerchantFaults = []MerchantFault{
	FaultNotTaken, FaultAnswerLost, FaultDoneTwice, FaultAnswersLate, FaultHang, FaultTrickle, FaultCloseEarly,
	FaultHold, FaultRefuse,
	FaultRedirect, FaultStatus500, FaultStatus204, FaultHTML, FaultForever, FaultHuge,
	FaultOtherAttempt, FaultOtherCallback, FaultOtherUser, FaultOtherType, FaultDetailsDiffer, FaultOtherSeal,
	FaultPlainData, FaultPlainText, FaultNoData, FaultTextErrCode, FaultOtherAPIKey, FaultNoAPIKeyThere,
	FaultNoMessage, FaultNoAmount, FaultTwiceErrCode, FaultCutData, FaultNotJSON,
	FaultNumberAmount, FaultTrailingZeros, FaultReordered, FaultNullMembers, FaultTextType, FaultContentType,
}

// Tolerated reports whether a service accepts the response: f is a known
// difference between peers, not a fault.
func (f MerchantFault) Tolerated() bool {
	switch f {
	case NoMerchantFault, FaultDoneTwice, FaultNumberAmount, FaultTrailingZeros, FaultReordered, FaultNullMembers,
		FaultTextType, FaultContentType:
		return true
	}
	return false
}

// huge is what FaultHuge sends, in bytes.
const huge = 64 << 20

func (m *Merchant) answer(w http.ResponseWriter, r *http.Request, cb countersign.Callback, f MerchantFault, previous string, gate <-chan struct{}) {
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
	if m.faultyHTTP(w, r, f, resp, gate) {
		return
	}
	body := m.faultyResponse(f, cb, previous, resp, plaintext)
	if f == FaultContentType {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(body)
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
func (m *Merchant) faultyHTTP(w http.ResponseWriter, r *http.Request, f MerchantFault, resp countersign.Response, gate <-chan struct{}) bool {
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
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
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

// faultyResponse gives the bytes of a response with a fault in its content.
func (m *Merchant) faultyResponse(f MerchantFault, cb countersign.Callback, previous string, resp countersign.Response, plaintext []byte) []byte {
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
	default:
		return raw(resp)
	}
	return raw(m.sealed(plaintext, m.c.Key))
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
