package dispatch

import (
	"errors"

	"countersign"
	"countersign/client"
)

// judgeAnswer judges an opened answer under errCode 0 (PROTOCOL.md, Answers). It checks the requestUUID first, because
// the answer to another attempt says nothing about this one.
func judgeAnswer(q Question, plaintext []byte, blocks []int, v Verdict) Verdict {
	sent := q.Sent
	answer, err := countersign.ParseAnswer(sent.CallbackType(), plaintext)
	switch {
	case err != nil:
		return malformed(q, err, plaintext, v)
	case sent.UUID() == "" || answer.UUID() != sent.UUID():
		return contradicts(client.ReasonOtherAttempt, differs(q, "requestUUID", plaintext), v)
	}
	member := sent.Differs(answer)
	if a, ok := answer.(countersign.WithdrawalAnswer); ok {
		if member != "" {
			return contradicts(client.ReasonOtherCallback, differs(q, member, plaintext), v)
		}
		return judgeWithdrawal(q, a.Details, plaintext, blocks, v)
	}
	if member != "" {
		return contradicts(client.ReasonAnswerDiffers, differs(q, member, plaintext), v)
	}
	v.Result, v.Reason, v.Facts = client.AttemptAccepted, client.ReasonAccepted, client.Fact{}
	return v
}

// malformed judges a plaintext that is not an answer to this type of callback.
func malformed(q Question, err error, plaintext []byte, v Verdict) Verdict {
	var member *countersign.MemberError
	if !errors.As(err, &member) {
		return unopened(client.Fact{Cause: unopenedCause}, v)
	}
	if member.Member == "type" {
		return contradicts(client.ReasonOtherType, differs(q, "type", plaintext), v)
	}
	return unopened(unreadFacts(err, plaintext), v)
}

// unopened judges data that does not open, and plaintext that is no answer. They have one reason and one count: padding
// that is right by chance opens to garbage, and whoever tries blocks must not learn that it was right (PROTOCOL.md,
// Sealing, S7). Only the facts, which people see, name a member of plaintext that is an object.
func unopened(f client.Fact, v Verdict) Verdict {
	v.Reason, v.OpenFailure = client.ReasonDataUnreadable, true
	return v.with(f)
}

// with returns v with the facts f added to the merchant's message.
func (v Verdict) with(f client.Fact) Verdict {
	f.Message = v.Facts.Message
	v.Facts = f
	return v
}

// contradicts judges a well-formed answer about something else.
func contradicts(reason client.Reason, f client.Fact, v Verdict) Verdict {
	v.Result, v.Reason, v.Alarm = client.AttemptRetry, reason, client.AlarmAnswerDiffers
	return v.with(f)
}

// judgeWithdrawal is the only place that confirms a withdrawal. said has the details of an answer that names this
// attempt and this withdrawal. Its blocks may come from several answers, so said counts as the merchant's word only if
// it equals the order or is bound (PROTOCOL.md, Decision, D7).
func judgeWithdrawal(q Question, said countersign.Details, plaintext []byte, blocks []int, v Verdict) Verdict {
	if err := said.Validate(); err != nil {
		return unopened(unreadFacts(err, plaintext), v)
	}
	if q.Ordered != nil && said.Differs(*q.Ordered) != "" {
		// The merchant confirms details that differ from the order (PROTOCOL.md, D3). It is not asked again.
		v.Result, v.Reason, v.Alarm = client.AttemptRefused, client.ReasonDetailsDiffer, client.AlarmAnswerDiffers
		v.Decision = countersign.DecisionDeclined
		return v.with(differs(q, said.Differs(*q.Ordered), plaintext))
	}
	if q.Ordered == nil && !countersign.DetailsBound(plaintext, blocks) && q.Collect != client.CollectAny {
		v.Reason, v.Alarm = client.ReasonAnswerUnbound, client.AlarmAnswerUnusable
		return v
	}
	v.Result, v.Reason, v.Facts = client.AttemptAccepted, client.ReasonAccepted, client.Fact{}
	v.Decision, v.Details = countersign.DecisionConfirmed, said
	return v
}
