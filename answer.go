package countersign

import "fmt"

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

// ParseAnswer reads the opened data of a response to a callback of type t. The error is a *MemberError, whose Member is
// "type" if the answer is to a callback of another type, or wraps ErrMalformed, or ErrUnknownType if t is not known.
func ParseAnswer(t Type, data []byte) (Answer, error) {
	return parseAnswerOf(t, data, ParseOptions{})
}

// ParseLenientAnswer is ParseAnswer for an answer that repeats members in the other forms of PROTOCOL.md, M12. A
// lenient merchant repeats them as they came.
func ParseLenientAnswer(t Type, data []byte) (Answer, error) {
	return parseAnswerOf(t, data, ParseOptions{Lenient: true})
}

func parseAnswerOf(t Type, data []byte, o ParseOptions) (Answer, error) {
	switch {
	case !t.Known():
		return nil, fmt.Errorf("%w: %d", ErrUnknownType, int(t))
	case t == TypeDeposited:
		return answerOrError(parseAnswer[DepositAnswer](data, o))
	case t == TypeRequestWithdraw:
		return answerOrError(parseAnswer[WithdrawalAnswer](data, o))
	}
	a, err := parseAnswer[NoticeAnswer](data, o)
	if err == nil && a.Type != t {
		err = &MemberError{"type", fmt.Sprintf("is not %d", int(t))}
	}
	return answerOrError(a, err)
}

// answerOrError returns a nil Answer if err is not nil.
func answerOrError(a Answer, err error) (Answer, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}

// parseAnswer reads an answer of type A, whose pointer describes its members.
func parseAnswer[A any, P interface {
	*A
	members(c *codec)
}](data []byte, o ParseOptions) (A, error) {
	var a, none A
	obj, err := scan(data)
	if err != nil {
		return none, err
	}
	c := codec{obj: obj, answer: true, lenient: o.Lenient}
	P(&a).members(&c)
	if err := c.finish(); err != nil {
		return none, err
	}
	return a, nil
}

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

// notice compares what all notices have in common.
func (e *echo) notice(sent Callback, answer Answer) NoticeAnswer {
	a, ok := answer.(NoticeAnswer)
	e.note("type", ok && a.Type == sent.CallbackType())
	e.text("trackingId", sent.Common().TrackingID, a.TrackingID)
	e.text("tenantUserId", sent.User(), a.TenantUserID)
	e.text("callBackId", sent.OrderID(), a.CallBackID)
	return a
}
