package dispatch

import (
	"errors"
	"slices"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/web"
)

// Judge returns what r means for the callback of q (PROTOCOL.md, Decision). open returns the plaintext of a response's
// data and how many bytes of it each block held; its errors are those of envelope.OpenBlocks. Judge calls it at most
// once, and only if nothing else already decides against the response.
//
// Judge depends on its arguments alone. It confirms a withdrawal only if the response was complete before the deadline,
// has the merchant's apiKey and errCode 0, opens, and names this attempt, this withdrawal, this user and the ordered
// details. Without an order, the details must be bound to this withdrawal or attempt by their blocks.
func Judge(q Question, r Response, open func(data string) (plaintext []byte, blocks []int, err error)) Verdict {
	v := judgeResponse(q, r, open)
	if q.Sent.CallbackType() != countersign.TypeRequestWithdraw {
		v.Decision, v.Details = countersign.DecisionNone, countersign.Details{}
	} else if r.Done >= q.Deadline {
		// A late response decides nothing, whatever it says. The expiry is a decision too, and final.
		v.Result, v.Reason = client.AttemptRetry, client.ReasonLate
		v.Decision, v.Details = countersign.DecisionExpired, countersign.Details{}
	}
	return v
}

func judgeResponse(q Question, r Response, open func(string) ([]byte, []int, error)) Verdict {
	if r.Failure != "" {
		// Only a body over the limit shows that the server works. Of the other failures, this node's own must not count
		// against the merchant.
		reached := r.Failure == client.ReasonTooLarge && r.Status == 200 ||
			r.Failure == client.ReasonStopped || r.Failure == client.ReasonInternal || r.Failure == client.ReasonOpenFiles
		return Verdict{Result: client.AttemptRetry, Reason: r.Failure, Facts: client.Fact{Cause: r.Cause}, Reached: reached}
	}
	if r.Status != 200 {
		return Verdict{Result: client.AttemptRetry, Reason: client.ReasonStatus, Facts: statusFacts(r)}
	}
	v := Verdict{Result: client.AttemptRetry, Reached: true}
	var signature *envelope.LinkSignature
	if q.AnswerKeys != nil {
		s, reason, err := q.verify(r)
		if err != nil {
			return notSigned(v, reason, err)
		}
		signature, v.SignedBy = &s, s.Key.Fingerprint()
	}
	resp, err := countersign.ParseResponse(r.Body)
	if err != nil {
		v.Reason, v.Facts = client.ReasonResponseMalformed, unreadFacts(err, r.Body)
		if r.Encoding != "" {
			v.Facts = client.Fact{Cause: "the header Content-Encoding says " + r.Encoding + ": " + web.NotCompressed}
			return v
		}
		var member *countersign.MemberError
		if errors.As(err, &member) && member.Member == "data" {
			// The most common mistake: data is the answer's object, or nothing, and not the sealed text.
			v.Reason = client.ReasonDataNotSealed
		}
		return v
	}
	// The key is checked before the code: the errCode of another merchant's server must neither refuse nor hold.
	if !slices.ContainsFunc(q.APIKeys, resp.APIKey.Equal) {
		v.Reason, v.Alarm = client.ReasonWrongAPIKey, client.AlarmAnswerUnusable
		v.Facts = client.Fact{Member: "apiKey", Cause: "is not the merchant's"}
		if resp.APIKey == "" {
			v.Facts.Cause = "is empty"
		}
		return v
	}
	code := int64(resp.ErrCode)
	v.ErrCode, v.Facts.Message = &code, resp.Message
	if resp.ErrCode != countersign.CodeAccepted {
		return judgeCode(q, resp.ErrCode, v)
	}
	plaintext, blocks, err := open(resp.Data)
	if err != nil {
		v.OpenFailure = openFailure(err)
		v.Reason, v.Facts.Cause = openFault(resp.Data, err)
		return v
	}
	if signature != nil && !signature.Covers(plaintext) {
		v.SignedBy = ""
		return notSigned(v, client.ReasonSignatureInvalid, errOtherPlaintext)
	}
	return judgeAnswer(q, plaintext, blocks, v)
}

// judgeCode judges an errCode that is not 0. It is plain text and proves nothing, but no such code moves money
// (PROTOCOL.md, E3).
func judgeCode(q Question, code countersign.ErrCode, v Verdict) Verdict {
	final := func(r client.CodeRange) bool { return r.From <= int64(code) && int64(code) <= r.To }
	if slices.ContainsFunc(q.FinalCodes, final) { // PROTOCOL.md, E2
		v.Result, v.Reason = client.AttemptRefused, client.ReasonMerchantRefused
		v.Decision = countersign.DecisionDeclined
		return v
	}
	switch code.Class() {
	case countersign.ClassHold:
		v.Result, v.Reason = client.AttemptHold, client.ReasonMerchantHold
	case countersign.ClassNotUnderstood:
		v.Reason, v.Alarm = client.ReasonNotUnderstood, client.AlarmAnswerUnusable
	default: // includes 2000 to 2999 if the merchant has not said that they are final
		v.Reason = client.ReasonMerchantFailure
	}
	return v
}

// openFault returns why data did not open, and a text of it for people. All failures inside the blocks have one reason
// and one text (PROTOCOL.md, S7).
func openFault(data string, err error) (client.Reason, string) {
	switch {
	case strings.HasPrefix(strings.TrimLeft(data, " \t\r\n"), "{"):
		return client.ReasonDataNotSealed, "data is an object as a text and not the sealed answer"
	case errors.Is(err, errNotOpened):
		return client.ReasonNotOpened, ""
	case errors.Is(err, envelope.ErrOpen), errors.Is(err, envelope.ErrBlock):
		return client.ReasonDataUnreadable, unopenedCause
	case errors.Is(err, envelope.ErrTooLarge):
		return client.ReasonTooLarge, "data has more blocks than an answer needs"
	case errors.Is(err, envelope.ErrEmpty):
		return client.ReasonDataEncoding, "data is empty"
	case errors.Is(err, envelope.ErrLength):
		return client.ReasonDataEncoding, "data is not a whole number of blocks of the response key"
	case errors.Is(err, envelope.ErrBase64):
		return client.ReasonDataEncoding, "data is not standard Base64 with padding"
	}
	return client.ReasonInternal, "" // the key cannot open at all
}
