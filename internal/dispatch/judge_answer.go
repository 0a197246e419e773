package dispatch

import (
	"errors"

	"countersign"
)

// judgeAnswer judges an opened answer under errCode 0 (PROTOCOL.md, Answers).
// The requestUUID is looked at before anything else that the answer says,
// because another attempt's answer says nothing about this one.
func judgeAnswer(q Question, plaintext []byte, v Verdict) Verdict {
	switch sent := q.Sent.(type) {
	case *countersign.WithdrawalRequest:
		a, err := countersign.ParseWithdrawalAnswer(plaintext)
		if err != nil {
			return malformed(err, v)
		}
		return judgeWithdrawal(q, sent, a, v)
	case *countersign.Deposit:
		a, err := countersign.ParseDepositAnswer(plaintext)
		if err != nil {
			return malformed(err, v)
		}
		return judgeEcho(sent.RequestUUID, a.RequestUUID, depositDiffers(sent, a), v)
	default:
		a, err := countersign.ParseNoticeAnswer(plaintext)
		if err != nil {
			return malformed(err, v)
		}
		if a.Type != sent.CallbackType() {
			return contradicts(ReasonOtherType, v)
		}
		return judgeEcho(sent.UUID(), a.RequestUUID, noticeDiffers(sent, a), v)
	}
}

// malformed judges a plaintext that is no answer to this type of callback.
func malformed(err error, v Verdict) Verdict {
	var member *countersign.MemberError
	if errors.As(err, &member) && member.Member == "type" {
		return contradicts(ReasonOtherType, v)
	}
	v.Reason = ReasonAnswerMalformed
	return v
}

// contradicts judges an answer that is well-formed and about something else.
func contradicts(reason Reason, v Verdict) Verdict {
	v.Outcome, v.Reason, v.Alarm = Retry, reason, AlarmAnswerDiffers
	return v
}

// judgeWithdrawal is where a withdrawal is confirmed, and the only place.
func judgeWithdrawal(q Question, sent *countersign.WithdrawalRequest, a countersign.WithdrawalAnswer, v Verdict) Verdict {
	switch {
	case sent.RequestUUID == "" || a.RequestUUID != sent.RequestUUID:
		return contradicts(ReasonOtherAttempt, v)
	case a.CallBackID != sent.CallBackID || a.TenantUserID != sent.TenantUserID:
		return contradicts(ReasonOtherCallback, v)
	}
	if a.Details.Validate() != nil {
		v.Reason = ReasonAnswerMalformed
		return v
	}
	if q.Ordered != nil && a.Details.Differs(*q.Ordered) != "" {
		// The merchant countersigns something that nobody ordered. Asking
		// again could only find it of two minds.
		v.Outcome, v.Reason, v.Alarm = Refused, ReasonDetailsDiffer, AlarmDetailsDiffer
		v.Decision = countersign.DecisionDeclined
		return v
	}
	v.Outcome, v.Reason = Accepted, ReasonAccepted
	v.Decision, v.Details = countersign.DecisionConfirmed, a.Details
	return v
}

// judgeEcho judges an answer that only has to say back what was said.
func judgeEcho(sentUUID, uuid string, differs bool, v Verdict) Verdict {
	switch {
	case sentUUID == "" || uuid != sentUUID:
		return contradicts(ReasonOtherAttempt, v)
	case differs:
		return contradicts(ReasonAnswerDiffers, v)
	}
	v.Outcome, v.Reason = Accepted, ReasonAccepted
	return v
}

// depositDiffers reports whether a describes another deposit than sent. What a
// leaves out agrees. txIndex is not compared: the interface calls it an index in
// the block here and something else in the request.
func depositDiffers(sent *countersign.Deposit, a countersign.DepositAnswer) bool {
	return otherText(sent.TrackingID, a.TrackingID) ||
		otherText(sent.TxID, a.TxID) ||
		otherText(sent.ChainName, a.ChainName) ||
		otherText(sent.Symbol, a.Symbol) ||
		otherText(sent.TenantUserID, a.TenantUserID) ||
		otherAmount(sent.Amount, a.Amount) ||
		otherAddress(sent.FromAddress, a.FromAddress) ||
		otherAddress(sent.ToAddress, a.ToAddress)
}

// noticeDiffers is depositDiffers for types 3 to 7.
func noticeDiffers(sent countersign.Callback, a countersign.NoticeAnswer) bool {
	if otherText(sent.EventID(), a.TrackingID) || otherText(sent.User(), a.TenantUserID) {
		return true
	}
	switch s := sent.(type) {
	case *countersign.WithdrawalDone:
		return otherText(s.CallBackID, a.CallBackID) || otherText(s.TxID, a.TxID) ||
			otherText(s.ChainName, a.ChainName) || otherText(s.Symbol, a.Symbol) ||
			otherAmount(s.Amount, a.Amount) ||
			otherAddress(s.FromAddress, a.FromAddress) || otherAddress(s.ToAddress, a.ToAddress)
	case *countersign.AddressChange:
		// Merchants say back either address: the old one as it came, or the
		// one that counts from now on.
		return otherAddress(s.NewAddress, a.ToAddress) &&
			(s.ToAddress == "" || otherAddress(s.ToAddress, a.ToAddress))
	case *countersign.WithdrawalEnded:
		return otherText(s.CallBackID, a.CallBackID) || otherAddress(s.ToAddress, a.ToAddress)
	case *countersign.FundsShort:
		return otherText(s.CallBackID, a.CallBackID)
	}
	return true // a type that this function does not know proves nothing
}

func otherText(sent, got string) bool {
	return sent != "" && got != "" && sent != got
}

func otherAddress(sent, got string) bool {
	return sent != "" && got != "" && !countersign.SameAddress(sent, got)
}

func otherAmount(sent, got countersign.Amount) bool {
	return sent.IsSet() && got.IsSet() && !sent.Equal(got)
}
