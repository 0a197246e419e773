package dispatch

import (
	"countersign"
	"countersign/internal/outbox"
)

// Result is the result of an attempt for its callback.
type Result string

// The results. The zero Result is none.
const (
	Accepted Result = "accepted" // settled: the merchant accepted or confirmed it
	Refused  Result = "refused"  // settled: the merchant will never accept it
	Hold     Result = "hold"     // asked again later; it does not count in the schedule
	Retry    Result = "retry"    // asked again by the schedule
)

// Reason says why an attempt had its result. The list is fixed: reasons are labels of
// metrics, values of a column and of the log, and hold nothing that a merchant wrote.
type Reason string

// Reasons of an exchange that gave no complete response.
const (
	ReasonBlockedAddress Reason = "blocked_address" // the target is not one that callbacks go to
	ReasonResolve        Reason = "resolve"         // its name has no address
	ReasonConnect        Reason = "connect"         // no connection
	ReasonTLS            Reason = "tls"             // no trusted TLS session
	ReasonTimeout        Reason = "timeout"         // not complete in time
	ReasonClosed         Reason = "closed"          // closed before it was complete
	ReasonHTTP           Reason = "http"            // not valid HTTP/1.1
	ReasonTooLarge       Reason = "too_large"       // header, body or data over its limit
	ReasonStopped        Reason = "stopped"         // this node stopped during the exchange, or stood still until it was too late to send
	ReasonOpenFiles      Reason = "open_files"      // this node has too many open files; it does not count against the merchant
	ReasonInternal       Reason = "internal"        // this node's own failure
)

// Reasons of a response that was read.
const (
	ReasonStatus            Reason = "status"             // HTTP status other than 200
	ReasonResponseMalformed Reason = "response_malformed" // not a response of the protocol
	ReasonWrongAPIKey       Reason = "wrong_api_key"      // another merchant's, or none
	ReasonNotUnderstood     Reason = "not_understood"     // errCode 1000 to 1999
	ReasonKeyRefused        Reason = "key_refused"        // the merchant did not take the key that seals; asked again at once under the other one
	ReasonMerchantRefused   Reason = "merchant_refused"   // a final errCode
	ReasonMerchantHold      Reason = "merchant_hold"      // errCode 3000 to 3999
	ReasonMerchantFailure   Reason = "merchant_failure"   // any other errCode
	ReasonDataNotSealed     Reason = "data_not_sealed"    // plain JSON, or nothing, where data should be
	ReasonDataEncoding      Reason = "data_encoding"      // not Base64, or not whole blocks
	ReasonDataUnopened      Reason = "data_unopened"      // the blocks do not open, or open to no answer of the protocol
	ReasonNotOpened         Reason = "not_opened"         // not looked at: too many answers did not open
	ReasonOtherType         Reason = "other_type"         // answers another type of callback
	ReasonOtherAttempt      Reason = "other_attempt"      // carries another attempt's requestUUID
	ReasonOtherCallback     Reason = "other_callback"     // names another withdrawal or user
	ReasonAnswerDiffers     Reason = "answer_differs"     // differs from the callback
	ReasonDetailsDiffer     Reason = "details_differ"     // confirms other details than were ordered
	ReasonAnswerUnbound     Reason = "answer_unbound"     // no order to compare with, and its details may be spliced
	ReasonLate              Reason = "late"               // complete at or after the deadline
	ReasonAccepted          Reason = "accepted"           // correct in every member
)

// Reasons lists every Reason, for tables and metrics.
var Reasons = []Reason{
	ReasonBlockedAddress, ReasonResolve, ReasonConnect, ReasonTLS, ReasonTimeout, ReasonClosed, ReasonHTTP,
	ReasonTooLarge, ReasonStopped, ReasonOpenFiles, ReasonInternal,
	ReasonStatus, ReasonResponseMalformed, ReasonWrongAPIKey, ReasonNotUnderstood, ReasonKeyRefused, ReasonMerchantRefused,
	ReasonMerchantHold, ReasonMerchantFailure, ReasonDataNotSealed, ReasonDataEncoding, ReasonDataUnopened,
	ReasonNotOpened, ReasonOtherType, ReasonOtherAttempt, ReasonOtherCallback, ReasonAnswerDiffers,
	ReasonDetailsDiffer, ReasonAnswerUnbound, ReasonLate, ReasonAccepted,
}

// String gives the reason as a label.
func (r Reason) String() string { return string(r) }

// Kinds of alarm that an attempt can raise. An alarm tells a person and changes
// nothing.
const (
	AlarmWrongAPIKey   = "wrong_api_key"
	AlarmNotUnderstood = "not_understood"
	AlarmAnswerDiffers = "answer_differs" // contradicts the callback that it answers
	AlarmDetailsDiffer = "details_differ" // confirmed, but other details than were ordered
	AlarmAnswerUnbound = "answer_unbound" // its details may come from another answer
	AlarmHeldTooLong   = "held_too_long"  // held until the schedule ended, and exhausted by it
	AlarmExhausted     = outbox.AlarmExhausted
)

// Verdict is the judgement of one attempt. The zero Verdict has no result and never
// moves money.
type Verdict struct {
	Result Result
	Reason Reason

	// Decision is the decision about the withdrawal, if the attempt makes one.
	Decision countersign.Decision
	// Details are the confirmed details if Decision is confirmed.
	Details countersign.Details

	ErrCode *int64 // the merchant's; nil without a readable response
	Alarm   string // kind of alarm to raise, or empty

	// OtherAPIKey says that the response carried Question.OtherAPIKey.
	OtherAPIKey bool

	// Reached says that the merchant's server answered with status 200. The breaker
	// counts the attempts for which it is false.
	Reached bool
	// OpenFailure is whether the blocks of data did not open with the private part,
	// opened to no answer, or are more than an answer needs. Many of them look like an
	// attacker who tries blocks, or costs time.
	OpenFailure bool
}
