package dispatch

import (
	"errors"

	"countersign"
	"countersign/client"
)

// judgeAnswer judges an opened answer under errCode 0 (PROTOCOL.md, Answers).
// The requestUUID is checked first, because the answer to another attempt says nothing
// about this one.
func judgeAnswer(q Question, plaintext []byte, blocks []int, v Verdict) Verdict {
	sent := q.Sent
	answer, err := countersign.ParseAnswer(sent.CallbackType(), plaintext)
	switch {
	case err != nil:
		return malformed(err, v)
	case sent.UUID() == "" || answer.UUID() != sent.UUID():
		return contradicts(client.ReasonOtherAttempt, v)
	}
	differs := sent.Differs(answer)
	if a, ok := answer.(countersign.WithdrawalAnswer); ok {
		if differs != "" {
			return contradicts(client.ReasonOtherCallback, v)
		}
		return judgeWithdrawal(q, a.Details, countersign.DetailsBound(plaintext, blocks), v)
	}
	if differs != "" {
		return contradicts(client.ReasonAnswerDiffers, v)
	}
	v.Result, v.Reason = client.AttemptAccepted, client.ReasonAccepted
	return v
}

// malformed judges a plaintext that is not an answer to this type of callback.
func malformed(err error, v Verdict) Verdict {
	var member *countersign.MemberError
	if errors.As(err, &member) && member.Member == "type" {
		return contradicts(client.ReasonOtherType, v)
	}
	return unopened(v)
}

// unopened judges data that does not open, and plaintext that is no answer. They are
// one reason and one count: padding that happens to be right opens to garbage, and
// whoever tries blocks must not learn that it was (PROTOCOL.md, Sealing, S7).
func unopened(v Verdict) Verdict {
	v.Reason, v.OpenFailure = client.ReasonDataUnopened, true
	return v
}

// contradicts judges a well-formed answer about something else.
func contradicts(reason client.Reason, v Verdict) Verdict {
	v.Result, v.Reason, v.Alarm = client.AttemptRetry, reason, client.AlarmAnswerDiffers
	return v
}

// judgeWithdrawal is the only place that confirms a withdrawal. said has the details
// of an answer that names this attempt and this withdrawal. Its blocks may come from
// several answers, so said is the merchant's word only if it equals the order or is
// bound (PROTOCOL.md, Decision, D7).
func judgeWithdrawal(q Question, said countersign.Details, bound bool, v Verdict) Verdict {
	if said.Validate() != nil {
		return unopened(v)
	}
	if q.Ordered != nil && said.Differs(*q.Ordered) != "" {
		// The merchant confirms details that differ from the order (PROTOCOL.md, D3).
		// It is not asked again.
		v.Result, v.Reason, v.Alarm = client.AttemptRefused, client.ReasonDetailsDiffer, client.AlarmDetailsDiffer
		v.Decision = countersign.DecisionDeclined
		return v
	}
	if q.Ordered == nil && !bound && q.Collect != client.CollectAny {
		v.Reason, v.Alarm = client.ReasonAnswerUnbound, client.AlarmAnswerUnbound
		return v
	}
	v.Result, v.Reason = client.AttemptAccepted, client.ReasonAccepted
	v.Decision, v.Details = countersign.DecisionConfirmed, said
	return v
}
