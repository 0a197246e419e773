package merchant

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"countersign"
)

// Deposit is what OnDeposit and OnPossibleDuplicate get.
type Deposit struct {
	countersign.Deposit

	// Seq is the number under which the Inbox recorded the deposit: above 0,
	// and rising from record to record.
	Seq int64
	// PossibleDuplicate says that the same transfer was recorded before under
	// another trackingId (PROTOCOL.md, I2). Do not credit such a deposit until
	// a person has decided.
	PossibleDuplicate bool
	// Suspect says that the request shared blocks with another one, as no honest request does (PROTOCOL.md, B7): it may
	// be spliced. OnPossibleDuplicate gets it, and a person decides on it too.
	Suspect bool
}

// NewDeposit makes the Deposit that a function of a Transactor gets.
func NewDeposit(d *countersign.Deposit, c Claimed) Deposit {
	return Deposit{Deposit: *d, Seq: c.Seq, PossibleDuplicate: c.PossibleDuplicate, Suspect: c.Suspect}
}

// KeepForReview is an OnPossibleDuplicate that does nothing: the deposit stays in the Inbox as a possible duplicate,
// nobody is credited, and the handler's log has a warning about it. It is for merchants whose people look at both.
func KeepForReview(context.Context, Deposit) error { return nil }

// Verdict is what the merchant's own check says of a deposit.
type Verdict int

// The verdicts. The zero Verdict credits nothing and refuses nothing.
const (
	VerdictNotYet Verdict = iota // it may still turn out true: ask again later
	VerdictYes                   // it is as the service says
	VerdictNo                    // it is not, and never will be
)

// String returns the name of v as answers over HTTP have it: not_yet, yes or no.
func (v Verdict) String() string { return verdictNames.of("Verdict", int(v)) }

var verdictNames = names{"not_yet", "yes", "no"}

// ParseVerdict inverts Verdict.String.
func ParseVerdict(s string) (Verdict, error) {
	v, err := verdictNames.parse("verdict", s)
	return Verdict(v), err
}

// Answer is the merchant's answer to a withdrawal. Confirm, Refuse and Hold make
// it; the zero Answer confirms nothing, and the service gets errCode 5000.
type Answer struct {
	kind    answerKind
	user    string // tenantUserId of the confirmed order
	details countersign.Details
	code    countersign.ErrCode
	message string
}

type answerKind int

const (
	answerNone answerKind = iota
	answerConfirm
	answerRefuse
	answerHold
)

// Confirm countersigns the withdrawal with the merchant's order: the user who ordered it and what it moves. A request
// that names another user is refused for ever with errCode 2002; if it names none, which only a lenient Profile takes,
// the answer names the order's. If tenantUserID is empty or d is not valid, nothing is confirmed and the service gets
// errCode 5000.
func Confirm(tenantUserID string, d countersign.Details) Answer {
	return Answer{kind: answerConfirm, user: tenantUserID, details: d}
}

// Refuse refuses the withdrawal for ever. code is one of 2000 to 2999, or a code
// of the merchant's own that the service treats as final. 0 and codes of 1000 to
// 1999 and 3000 to 3999 refuse nothing and become 5000. An empty message stands
// for ErrCode.Message.
func Refuse(code countersign.ErrCode, message string) Answer {
	return Answer{kind: answerRefuse, code: code, message: message}
}

// Hold makes the service ask again. code is one of 3000 to 3999; any other
// becomes 5000. An empty message stands for ErrCode.Message.
func Hold(code countersign.ErrCode, message string) Answer {
	return Answer{kind: answerHold, code: code, message: message}
}

// CodeError is an error with the errCode and the message of the response. For any
// other error the service gets errCode 5000 with a fixed message.
type CodeError struct {
	Code    countersign.ErrCode // not 0 and not 1000 to 1999, which become 5000
	Message string              // goes to the service; empty: ErrCode.Message
}

func (e *CodeError) Error() string {
	return fmt.Sprintf("errCode %d: %s", int64(e.Code), messageFor(e.Code, e.Message))
}

// maxMessage bounds the message of a response, in bytes.
const maxMessage = 256

// messageFor makes text a message of a response: not empty, bounded, valid UTF-8
// without U+0000.
func messageFor(code countersign.ErrCode, text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if len(text) > maxMessage {
		end := maxMessage
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	if text == "" {
		return code.Message()
	}
	return text
}

// verdict is what a merchant's function decided. The zero verdict must not be
// used: its zero Reply would accept.
type verdict struct {
	Reply
	final  bool // to be kept for ever
	reason Reason
	cause  error // for the log
}

func failed(reason Reason, cause error) verdict {
	return verdict{Reply: failure, reason: reason, cause: cause}
}

var failure = refusal(countersign.CodeInternal)

// refusal returns the reply with code and its fixed message.
func refusal(code countersign.ErrCode) Reply {
	return Reply{Code: code, Message: code.Message()}
}

// What the log says of a deposit that was accepted and awaits a decision.
var (
	errDuplicate = errors.New("the same transfer was taken before under another trackingId; kept and not credited before a decision")
	errSuspect   = errors.New("its blocks belong to another request, so it may be joined from several; kept and not credited before a decision")
)

// errEndedAgain is what the log says of a question that comes after the end.
var errEndedAgain = errors.New("this withdrawal was confirmed and has ended; the service asks about it again: find out whether it was executed")

// doubt notes in v that a person must decide, and reports whether one must.
func (v *verdict) doubt(c Claimed) bool {
	switch {
	case c.Suspect:
		v.reason, v.cause = ReasonSuspect, errSuspect
	case c.PossibleDuplicate:
		v.reason, v.cause = ReasonPossibleDuplicate, errDuplicate
	}
	return c.Suspect || c.PossibleDuplicate
}

// revoked notes in v, if so is true, that it replaces a confirmation.
func (v *verdict) revoked(so bool) {
	if so {
		v.reason, v.cause = ReasonEndedAgain, errors.Join(errEndedAgain, v.cause)
	}
}

// accepted returns the verdict that accepts a deposit or notice.
func accepted() verdict { return verdict{final: true, reason: ReasonAccepted} }

// fromError returns the verdict of a function that returned err, which is not nil. keep says whether a final refusal is
// recorded. Refusals of deposits and notices are not: nothing happened, so an operator may have them sent again later.
func fromError(err error, keep bool) verdict {
	var ce *CodeError
	switch {
	case errors.As(err, &ce):
		v := verdict{Reply: Reply{Code: ce.Code, Message: messageFor(ce.Code, ce.Message)}, cause: err}
		switch ce.Code.Class() {
		case countersign.ClassRefused:
			v.reason, v.final = ReasonRefused, keep
		case countersign.ClassHold:
			v.reason = ReasonHold
		case countersign.ClassFailure:
			v.reason = ReasonFailed
		default:
			return failed(ReasonFailed, fmt.Errorf("the function returned a *CodeError with errCode %d, which it may not choose",
				int64(ce.Code)))
		}
		return v
	case errors.Is(err, context.DeadlineExceeded):
		return failed(ReasonTimeout, err)
	}
	return failed(ReasonFailed, err)
}

// fromAnswer returns the verdict of an OnWithdrawal that returned a when it was asked about a withdrawal of user, empty
// if the request named none.
func fromAnswer(a Answer, user string) verdict {
	class := a.code.Class()
	v := verdict{Reply: Reply{Code: a.code, Message: messageFor(a.code, a.message)}}
	switch a.kind {
	case answerConfirm:
		if a.user == "" {
			return failed(ReasonFailed, errors.New("the function confirmed an order without a tenantUserId"))
		}
		if user != "" && a.user != user {
			v := verdict{Reply: refusal(countersign.CodeDetailsDiffer), final: true, reason: ReasonOtherUser}
			v.cause = errors.New("the order that the function confirmed is another user's")
			return v
		}
		if err := a.details.Validate(); err != nil {
			return failed(ReasonFailed, fmt.Errorf("the details confirmed by the function: %w", err))
		}
		v := verdict{Reply: Reply{Details: a.details}, final: true, reason: ReasonConfirmed}
		if user == "" {
			v.TenantUserID = a.user
		}
		return v
	case answerRefuse:
		if class == countersign.ClassRefused || class == countersign.ClassFailure {
			v.final, v.reason = true, ReasonRefused
			return v
		}
	case answerHold:
		if class == countersign.ClassHold {
			v.reason = ReasonHold
			return v
		}
	default:
		return failed(ReasonFailed, errors.New("the function returned the zero Answer"))
	}
	return failed(ReasonFailed, fmt.Errorf("the function answered with errCode %d, which does not mean that",
		int64(a.code)))
}
