package countersign

import (
	"errors"
	"fmt"
)

// The errors of all parsers; each parser's error wraps one of them.
var (
	// ErrMalformed means that the bytes are not a message of the protocol:
	// errCode 1002.
	ErrMalformed = errors.New("malformed message")
	// ErrUnknownType means a well-formed request whose type is not known:
	// errCode 1003.
	ErrUnknownType = errors.New("unknown callback type")
)

// MemberError says which member of a message breaks its rule. It wraps
// ErrMalformed and never holds the member's value.
type MemberError struct {
	Member  string // exact name, such as "amount"
	Problem string // what is wrong, such as "is missing"
}

func (e *MemberError) Error() string { return fmt.Sprintf("member %q %s", e.Member, e.Problem) }

// Unwrap makes errors.Is(err, ErrMalformed) true.
func (e *MemberError) Unwrap() error { return ErrMalformed }

// ErrCode is the plain-text errCode of a Response (PROTOCOL.md, Error codes).
type ErrCode int64

// The codes of this project. The service acts by their ranges (PROTOCOL.md, E1);
// see Class.
const (
	CodeAccepted ErrCode = 0

	CodeCannotOpen  ErrCode = 1001 // the body does not open with the merchant's key
	CodeMalformed   ErrCode = 1002 // it opens, but is not a message of the protocol
	CodeUnknownType ErrCode = 1003 // its type is not known
	CodeWrongURL    ErrCode = 1004 // its type belongs to the other URL

	CodeUnknownOrder   ErrCode = 2001 // no such withdrawal order
	CodeDetailsDiffer  ErrCode = 2002 // the order has other details
	CodeRefusedPolicy  ErrCode = 2003 // the merchant's policy refuses it
	CodeRefusedPerson  ErrCode = 2004 // a person refused it
	CodeOrderCancelled ErrCode = 2005 // the order is cancelled or expired

	CodeAwaitingApproval ErrCode = 3001 // a person must still approve
	CodeNotKnownYet      ErrCode = 3002 // the order may still arrive

	CodeInternal ErrCode = 5000 // the merchant's own failure; try again
)

// Class says what the service does with an errCode.
type Class int

// The classes. The zero Class is ClassFailure, which settles nothing.
const (
	ClassFailure       Class = iota // try again until the schedule or the deadline ends
	ClassAccepted                   // 0: settle
	ClassNotUnderstood              // 1000–1999: try again and raise an alarm
	ClassRefused                    // 2000–2999: final
	ClassHold                       // 3000–3999: ask again; not counted as a failed attempt
)

// Class returns the class of c by the ranges of PROTOCOL.md, E1. Which codes are
// final is also a setting of each merchant at the service (E2).
func (c ErrCode) Class() Class {
	switch {
	case c == CodeAccepted:
		return ClassAccepted
	case c >= 1000 && c <= 1999:
		return ClassNotUnderstood
	case c >= 2000 && c <= 2999:
		return ClassRefused
	case c >= 3000 && c <= 3999:
		return ClassHold
	}
	return ClassFailure
}

var codeMessages = map[ErrCode]string{
	CodeAccepted:         "",
	CodeCannotOpen:       "the request cannot be opened",
	CodeMalformed:        "the request is malformed",
	CodeUnknownType:      "the callback type is unknown",
	CodeWrongURL:         "the callback type does not belong to this URL",
	CodeUnknownOrder:     "the order is unknown",
	CodeDetailsDiffer:    "the details differ from the order",
	CodeRefusedPolicy:    "refused by policy",
	CodeRefusedPerson:    "refused by a person",
	CodeOrderCancelled:   "the order is cancelled or expired",
	CodeAwaitingApproval: "awaiting approval",
	CodeNotKnownYet:      "the order is not known yet",
	CodeInternal:         "internal error",
}

// Message returns the fixed message for c in a Response: empty for 0, and not empty for
// any other code.
func (c ErrCode) Message() string {
	if m, ok := codeMessages[c]; ok {
		return m
	}
	return fmt.Sprintf("error %d", int64(c))
}

// CodeOf returns the errCode for an error of this package: 0 for nil, 1003 for an
// unknown type, 1002 for a malformed message, 5000 for anything else.
func CodeOf(err error) ErrCode {
	switch {
	case err == nil:
		return CodeAccepted
	case errors.Is(err, ErrUnknownType):
		return CodeUnknownType
	case errors.Is(err, ErrMalformed):
		return CodeMalformed
	}
	return CodeInternal
}
