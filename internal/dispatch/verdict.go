package dispatch

import "countersign"

// Outcome says what an attempt did to its callback.
type Outcome string

// The outcomes. The zero Outcome is no outcome.
const (
	Accepted Outcome = "accepted" // settled: the merchant took it, or confirmed
	Refused  Outcome = "refused"  // settled: the merchant will never take it
	Hold     Outcome = "hold"     // asked again later; the schedule does not move on
	Retry    Outcome = "retry"    // asked again by the schedule
)

// Reason says why an attempt had its outcome. The list is fixed: a reason is a
// label of metrics, a column and a word of the log, and holds nothing that a
// merchant wrote.
type Reason string

// Reasons of an exchange that gave no complete response.
const (
	ReasonBlockedAddress Reason = "blocked_address" // the target is not one that callbacks go to
	ReasonResolve        Reason = "resolve"         // its name has no address
	ReasonConnect        Reason = "connect"         // no connection
	ReasonTLS            Reason = "tls"             // no trusted TLS session
	ReasonTimeout        Reason = "timeout"         // not complete in time
	ReasonClosed         Reason = "closed"          // closed before it was complete
	ReasonHTTP           Reason = "http"            // not HTTP/1.1 as it should be
	ReasonTooLarge       Reason = "too_large"       // header or body over its limit
	ReasonStopped        Reason = "stopped"         // this node stopped during the exchange, or stood still until it was too late for one
	ReasonInternal       Reason = "internal"        // this node's own failure
)

// Reasons of a response that was read.
const (
	ReasonStatus            Reason = "status"             // HTTP status other than 200
	ReasonResponseMalformed Reason = "response_malformed" // no response of the protocol
	ReasonWrongAPIKey       Reason = "wrong_api_key"      // another merchant's, or none
	ReasonNotUnderstood     Reason = "not_understood"     // errCode 1000 to 1999
	ReasonMerchantRefused   Reason = "merchant_refused"   // a final errCode
	ReasonMerchantHold      Reason = "merchant_hold"      // errCode 3000 to 3999
	ReasonMerchantFailure   Reason = "merchant_failure"   // any other errCode
	ReasonDataNotSealed     Reason = "data_not_sealed"    // plain JSON, or nothing, where data should be
	ReasonDataEncoding      Reason = "data_encoding"      // no Base64, or not whole blocks
	ReasonDataUnopened      Reason = "data_unopened"      // the blocks do not open
	ReasonAnswerMalformed   Reason = "answer_malformed"   // opened, but no answer of the protocol
	ReasonOtherType         Reason = "other_type"         // answers another type of callback
	ReasonOtherAttempt      Reason = "other_attempt"      // carries another attempt's requestUUID
	ReasonOtherCallback     Reason = "other_callback"     // names another withdrawal or user
	ReasonAnswerDiffers     Reason = "answer_differs"     // says something else than was said
	ReasonDetailsDiffer     Reason = "details_differ"     // countersigns something else than was ordered
	ReasonLate              Reason = "late"               // complete at or after the deadline
	ReasonAccepted          Reason = "accepted"           // right in every member
)

// Reasons lists every Reason, for tables and metrics.
var Reasons = []Reason{
	ReasonBlockedAddress, ReasonResolve, ReasonConnect, ReasonTLS, ReasonTimeout, ReasonClosed, ReasonHTTP,
	ReasonTooLarge, ReasonStopped, ReasonInternal,
	ReasonStatus, ReasonResponseMalformed, ReasonWrongAPIKey, ReasonNotUnderstood, ReasonMerchantRefused,
	ReasonMerchantHold, ReasonMerchantFailure, ReasonDataNotSealed, ReasonDataEncoding, ReasonDataUnopened,
	ReasonAnswerMalformed, ReasonOtherType, ReasonOtherAttempt, ReasonOtherCallback, ReasonAnswerDiffers,
	ReasonDetailsDiffer, ReasonLate, ReasonAccepted,
}

// String gives the reason as a label.
func (r Reason) String() string { return string(r) }

// Kinds of alarm that a verdict can raise. An alarm asks a person to look; it
// changes nothing.
const (
	AlarmWrongAPIKey   = "wrong_api_key"
	AlarmNotUnderstood = "not_understood"
	AlarmAnswerDiffers = "answer_differs" // contradicts the callback that it answers
	AlarmDetailsDiffer = "details_differ" // countersigned, but not what was ordered
)

// Verdict is what one attempt came to. The zero Verdict has no outcome and never
// moves money.
type Verdict struct {
	Outcome Outcome
	Reason  Reason

	// Decision is what the attempt decides of its withdrawal, if anything.
	Decision countersign.Decision
	// Details are what the merchant countersigned, where Decision is
	// confirmed.
	Details countersign.Details

	ErrCode *int64 // as the merchant gave it; nil without a readable response
	Alarm   string // kind of alarm to raise, or empty

	// Reached is whether the merchant's server did its part of HTTP: it
	// answered 200. The breaker counts the others.
	Reached bool
	// OpenFailure is whether the private part did not open the blocks of data.
	// Enough of them look like somebody who tries blocks on us.
	OpenFailure bool
}
