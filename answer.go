package countersign

// Answer is the plaintext of the data of a response (PROTOCOL.md, Answers): a
// DepositAnswer, WithdrawalAnswer or NoticeAnswer. Callback.Accept makes it.
type Answer interface {
	// UUID returns the requestUUID of the attempt that is answered.
	UUID() string
	// Shortest returns the answer with only the members that the service needs. Use it if the full answer does not fit
	// into a response.
	Shortest() Answer
	// Marshal returns the canonical bytes. The error is a *MemberError if a
	// member breaks its rule.
	Marshal() ([]byte, error)
}

// MaxAnswer returns the largest plaintext of an answer, in bytes, to a request whose plaintext has request bytes
// (PROTOCOL.md, R9). An answer repeats members of its request, and escapes may triple their length.
func MaxAnswer(request int) int { return max(4<<10, 3*request) }

// echo compares the members of an answer with those that were sent. A member that either side leaves out agrees.
type echo struct{ differs string } // the first member that does not agree

func (e *echo) note(name string, agrees bool) {
	if e.differs == "" && !agrees {
		e.differs = name
	}
}

func (e *echo) text(name, sent, got string) {
	e.note(name, sent == "" || got == "" || sent == got)
}

func (e *echo) amount(name string, sent, got Amount) {
	e.note(name, !sent.IsSet() || !got.IsSet() || sent.Equal(got))
}

func (e *echo) address(name, sent, got string) {
	e.note(name, sent == "" || got == "" || SameAddress(sent, got))
}
