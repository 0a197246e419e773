package dispatch

import (
	"errors"
	"strings"

	"countersign"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Question is what one attempt asked, as far as its response is judged by it.
type Question struct {
	// APIKey must come back in the response. Required.
	APIKey countersign.APIKey
	// Sent is the callback with the requestUUID of this very attempt.
	// Required.
	Sent countersign.Callback
	// Ordered is what the withdrawal of a type 2 callback is to move; nil where
	// the merchant's answer is to say it.
	Ordered *countersign.Details
	// Deadline is when a withdrawal can no longer be confirmed. Type 2 only.
	Deadline db.Millis
	// FinalCodes are the errCodes that refuse for good. Nil means those of the
	// registry, 2000 to 2999.
	FinalCodes []outbox.CodeRange
}

// Response is what came back of one exchange.
type Response struct {
	// Failure is why there is no complete response; empty where there is one.
	Failure Reason
	// Status is the HTTP status; 0 where none was read.
	Status int
	// Body is the whole body. Nil where Failure is set or Status is not 200.
	Body []byte
	// Done is when the last byte had been read.
	Done db.Millis
}

// Judge says what r means for the callback of q (PROTOCOL.md, Decision). open
// gives the plaintext of a response's data and is called at most once, and not
// at all where the rest already rules the response out; its errors are those of
// envelope.Open.
//
// Judge is a function of its arguments alone. A withdrawal is confirmed only
// by a response that is complete before the deadline, comes from the
// merchant by apiKey, says errCode 0, opens, and names this attempt, this
// withdrawal, this user and the ordered details. Nothing else confirms.
func Judge(q Question, r Response, open func(data string) ([]byte, error)) Verdict {
	v := judgeResponse(q, r, open)
	if q.Sent.CallbackType() != countersign.TypeRequestWithdraw {
		v.Decision, v.Details = countersign.DecisionNone, countersign.Details{}
	} else if r.Done >= q.Deadline {
		// Too late to decide anything, whatever it says. The expiry is a
		// decision too, and final.
		v.Outcome, v.Reason = Retry, ReasonLate
		v.Decision, v.Details = countersign.DecisionExpired, countersign.Details{}
	}
	return v
}

func judgeResponse(q Question, r Response, open func(string) ([]byte, error)) Verdict {
	if r.Failure != "" {
		// A body over the limit comes from a server that is up; so does
		// nothing of the rest, and what this node did itself is not the
		// merchant's fault.
		reached := r.Failure == ReasonTooLarge && r.Status == 200 ||
			r.Failure == ReasonStopped || r.Failure == ReasonInternal
		return Verdict{Outcome: Retry, Reason: r.Failure, Reached: reached}
	}
	if r.Status != 200 {
		return Verdict{Outcome: Retry, Reason: ReasonStatus}
	}
	v := Verdict{Outcome: Retry, Reached: true}
	resp, err := countersign.ParseResponse(r.Body)
	if err != nil {
		v.Reason = ReasonResponseMalformed
		var member *countersign.MemberError
		if errors.As(err, &member) && member.Member == "data" {
			// By far the most common mistake: the object itself, or
			// nothing, in place of the sealed text.
			v.Reason = ReasonDataNotSealed
		}
		return v
	}
	// The key comes before the code: what another merchant's server says
	// refuses and holds nothing of this one's.
	if !q.APIKey.Equal(resp.APIKey) {
		v.Reason, v.Alarm = ReasonWrongAPIKey, AlarmWrongAPIKey
		return v
	}
	code := int64(resp.ErrCode)
	v.ErrCode = &code
	if resp.ErrCode != countersign.CodeAccepted {
		return judgeCode(q, resp.ErrCode, v)
	}
	plaintext, err := open(resp.Data)
	if err != nil {
		v.OpenFailure = errors.Is(err, envelope.ErrOpen)
		v.Reason = openReason(resp.Data, err)
		return v
	}
	return judgeAnswer(q, plaintext, v)
}

// judgeCode judges an errCode that is not 0. It comes in plain text and
// proves nothing, which is enough here: no code moves money.
func judgeCode(q Question, code countersign.ErrCode, v Verdict) Verdict {
	class := code.Class()
	if isFinal(q.FinalCodes, code) {
		v.Outcome, v.Reason = Refused, ReasonMerchantRefused
		v.Decision = countersign.DecisionDeclined
		return v
	}
	switch class {
	case countersign.ClassHold:
		v.Outcome, v.Reason = Hold, ReasonMerchantHold
	case countersign.ClassNotUnderstood:
		v.Reason, v.Alarm = ReasonNotUnderstood, AlarmNotUnderstood
	default: // also what the registry calls refused and this merchant does not
		v.Reason = ReasonMerchantFailure
	}
	return v
}

// isFinal reports whether code refuses for good. A merchant's own ranges take
// the place of the registry's.
func isFinal(ranges []outbox.CodeRange, code countersign.ErrCode) bool {
	if ranges == nil {
		return code.Class() == countersign.ClassRefused
	}
	for _, r := range ranges {
		if r.From <= code && code <= r.To {
			return true
		}
	}
	return false
}

// openReason says why data did not open. All failures inside the blocks are one
// reason (PROTOCOL.md, Sealing).
func openReason(data string, err error) Reason {
	switch {
	case strings.HasPrefix(strings.TrimLeft(data, " \t\r\n"), "{"):
		return ReasonDataNotSealed
	case errors.Is(err, envelope.ErrOpen), errors.Is(err, envelope.ErrBlock):
		return ReasonDataUnopened
	case errors.Is(err, envelope.ErrBase64), errors.Is(err, envelope.ErrLength),
		errors.Is(err, envelope.ErrEmpty), errors.Is(err, envelope.ErrTooLarge):
		return ReasonDataEncoding
	}
	return ReasonInternal // the key cannot open at all
}
