package countersign

import "fmt"

// ParseCallback reads an opened request (PROTOCOL.md, Messages). An error is a
// *MemberError or wraps ErrMalformed or ErrUnknownType. ParseCallback neither
// changes nor keeps plaintext.
func ParseCallback(plaintext []byte, o ParseOptions) (Callback, error) {
	m, c, err := readCallback(plaintext, o)
	if err == nil {
		err = c.finish()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Faults returns every error of ParseCallback, which itself returns the first: one *MemberError for
// each member that breaks its rule, in the order of PROTOCOL.md, M3. It is empty if ParseCallback
// takes the request.
func Faults(plaintext []byte, o ParseOptions) []error {
	_, c, err := readCallback(plaintext, o)
	if err != nil {
		return []error{err}
	}
	var faults []error
	for _, f := range c.faults {
		faults = append(faults, f)
	}
	return faults
}

// readCallback reads as much of a request as can be read. The codec has its
// faults.
func readCallback(plaintext []byte, o ParseOptions) (message, *codec, error) {
	obj, err := scan(plaintext)
	if err != nil {
		return nil, nil, err
	}
	t, err := requestType(obj, o)
	if err != nil {
		return nil, nil, err
	}
	if !t.Known() {
		return nil, nil, fmt.Errorf("%w: %d", ErrUnknownType, int(t))
	}
	m := types[t].empty(t)
	c := codec{obj: obj, lenient: o.Lenient}
	m.members(&c)
	return m, &c, nil
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
