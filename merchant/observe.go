package merchant

import (
	"log/slog"
	"slices"
	"time"

	"countersign"
)

// Reason says how a request ended. The list is fixed: reasons are labels of metrics
// and values in the log, and hold nothing that a peer wrote.
type Reason string

// Reasons of requests that were no callback.
const (
	ReasonPath             Reason = "path"              // 404
	ReasonMethod           Reason = "method"            // 405
	ReasonAPIKey           Reason = "api_key"           // 401
	ReasonTooLarge         Reason = "too_large"         // 413
	ReasonBodySlow         Reason = "body_slow"         // 408: not complete within BodyTimeout
	ReasonBodyCut          Reason = "body_cut"          // the peer went away
	ReasonBodyConsumed     Reason = "body_consumed"     // something before the handler read the body
	ReasonOverload         Reason = "overload"          // 503: too many requests wait to be opened
	ReasonNotOpened        Reason = "not_opened"        // 1001
	ReasonUnsigned         Reason = "unsigned"          // no signature of the service, where it is demanded
	ReasonSignatureInvalid Reason = "signature_invalid" // its signature is wrong
	ReasonSignatureOld     Reason = "signature_old"     // it was signed too long ago
	ReasonMalformed        Reason = "malformed"         // 1002
)

// Reasons of callbacks that were read and not acted on.
const (
	ReasonUnknownType   Reason = "unknown_type"   // 1003
	ReasonWrongURL      Reason = "wrong_url"      // 1004
	ReasonNotBound      Reason = "not_bound"      // no binding where it is required
	ReasonBindingBroken Reason = "binding_broken" // bound, but not to these bytes
	ReasonSpliced       Reason = "spliced"        // it has blocks of another request
	ReasonOtherContent  Reason = "other_content"  // a known identifier with other content
	ReasonDetailsChange Reason = "details_change" // the merchant's function contradicts its earlier answer
	ReasonOtherUser     Reason = "other_user"     // the merchant's function confirmed another user's order
	ReasonUnanswerable  Reason = "unanswerable"   // no answer to it fits into a response
	ReasonDisproved     Reason = "disproved"      // Verify says that there is no such deposit
	ReasonUnverified    Reason = "unverified"     // Verify did not say yes within VerifyFor
)

// Reasons of callbacks that were acted on.
const (
	ReasonAccepted          Reason = "accepted"           // deposit or notice, first time
	ReasonPossibleDuplicate Reason = "possible_duplicate" // accepted, and recorded as a possible duplicate
	ReasonSuspect           Reason = "suspect"            // likewise: it may be joined from several
	ReasonConfirmed         Reason = "confirmed"          // withdrawal
	ReasonRefused           Reason = "refused"
	ReasonHold              Reason = "hold"
	ReasonRepeated          Reason = "repeated"    // answered as before, without effect
	ReasonEndedAgain        Reason = "ended_again" // a withdrawal that was confirmed and has ended is refused from now on
	ReasonBusy              Reason = "busy"        // another delivery was being processed all the time
	ReasonTimeout           Reason = "timeout"     // the merchant's function took too long
	ReasonPanic             Reason = "panic"       // it panicked
	ReasonFailed            Reason = "failed"      // it returned an error
	ReasonInbox             Reason = "inbox"       // the Inbox failed
	ReasonSeal              Reason = "seal"        // the answer could not be sealed
)

// Reasons lists every Reason, for tables and metrics: first those for which Refusal holds.
var Reasons = []Reason{
	ReasonPath, ReasonMethod, ReasonAPIKey, ReasonTooLarge, ReasonBodySlow, ReasonBodyCut, ReasonBodyConsumed,
	ReasonOverload, ReasonNotOpened,
	ReasonMalformed, ReasonUnsigned, ReasonSignatureInvalid, ReasonSignatureOld,
	ReasonUnknownType, ReasonWrongURL, ReasonNotBound, ReasonBindingBroken, ReasonSpliced, ReasonOtherContent,
	ReasonDetailsChange, ReasonOtherUser, ReasonUnanswerable, ReasonDisproved, ReasonUnverified,
	ReasonAccepted, ReasonPossibleDuplicate, ReasonSuspect, ReasonConfirmed, ReasonRefused, ReasonHold, ReasonRepeated,
	ReasonEndedAgain, ReasonBusy,
	ReasonTimeout, ReasonPanic, ReasonFailed, ReasonInbox, ReasonSeal,
}

// Refusal reports whether r is the reason of a request that was no callback, or of a
// callback that was not acted on.
func (r Reason) Refusal() bool {
	return slices.Contains(Reasons[:slices.Index(Reasons, ReasonAccepted)], r)
}

// Answered reports whether r is the reason of a callback that the merchant's end
// answered as it should, also with a refusal or a hold.
func (r Reason) Answered() bool {
	switch r {
	case ReasonAccepted, ReasonPossibleDuplicate, ReasonSuspect, ReasonConfirmed, ReasonRefused, ReasonHold,
		ReasonRepeated, ReasonEndedAgain:
		return true
	}
	return false
}

// level returns the log level of r. Deposits, notices and repetitions are not shown by default, because there are many.
// Errors need a person: requests that contradict an earlier one, and failures at the merchant's end.
func (r Reason) level() slog.Level {
	switch r {
	case ReasonAccepted, ReasonRepeated:
		return slog.LevelDebug
	case ReasonConfirmed, ReasonHold, ReasonRefused:
		return slog.LevelInfo
	case ReasonSpliced, ReasonBindingBroken, ReasonSignatureInvalid, ReasonOtherContent, ReasonDetailsChange,
		ReasonOtherUser, ReasonPanic, ReasonInbox,
		ReasonBodyConsumed, ReasonSeal, ReasonSuspect, ReasonEndedAgain, ReasonDisproved, ReasonUnverified:
		return slog.LevelError
	}
	return slog.LevelWarn
}

// Observation is how one request ended.
type Observation struct {
	Type     countersign.Type    // 0 if no callback was read
	ID       string              // trackingId, for type 2 callBackId; may be empty. The peer chose it, so it is no label
	Status   int                 // HTTP status
	Code     countersign.ErrCode // of the response; 0 if there was none
	Reason   Reason
	Duration time.Duration // from the start of the request to the end of the response
}

// Observer counts requests. Observe is called once for each, after its
// response was written, from many goroutines at once, and must not block.
type Observer interface {
	Observe(Observation)
}
