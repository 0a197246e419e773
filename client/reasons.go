package client

// AttemptResult is the effect of an attempt on its callback.
type AttemptResult string

// The effects of an attempt.
const (
	AttemptAccepted AttemptResult = "accepted"
	AttemptRefused  AttemptResult = "refused"
	AttemptHold     AttemptResult = "hold"
	AttemptRetry    AttemptResult = "retry"
	AttemptLost     AttemptResult = "lost"
)

var attemptResults = words[AttemptResult]{
	{is: AttemptAccepted, means: "The merchant took the callback, or confirmed the withdrawal."},
	{is: AttemptRefused, means: "The merchant will never take it."},
	{is: AttemptHold, means: "The merchant is asked again later; the schedule does not move on."},
	{is: AttemptRetry, means: "It is tried again by the schedule."},
	{is: AttemptLost, means: "Its node stopped before the end; it is tried again."},
}

// Values lists every result.
func (AttemptResult) Values() []AttemptResult { return attemptResults.values() }

// Means says what r means, for people; empty for an unknown word.
func (r AttemptResult) Means() string { return attemptResults.of(r).means }

// Reason says why an attempt ended as it did, or why something ended without an
// attempt.
type Reason string

// There was no complete response.
const (
	ReasonBlockedAddress Reason = "blocked_address"
	ReasonResolve        Reason = "resolve"
	ReasonConnect        Reason = "connect"
	ReasonTLS            Reason = "tls"
	ReasonTimeout        Reason = "timeout"
	ReasonClosed         Reason = "closed"
	ReasonHTTP           Reason = "http"
	ReasonTooLarge       Reason = "too_large"
	ReasonStopped        Reason = "stopped"
	ReasonOpenFiles      Reason = "open_files"
	ReasonInternal       Reason = "internal"
	ReasonLost           Reason = "lost"
)

// There was a complete response.
const (
	ReasonStatus            Reason = "status"
	ReasonResponseMalformed Reason = "response_malformed"
	ReasonWrongAPIKey       Reason = "wrong_api_key"
	ReasonNotUnderstood     Reason = "not_understood"
	ReasonKeyRefused        Reason = "key_refused"
	ReasonMerchantRefused   Reason = "merchant_refused"
	ReasonMerchantHold      Reason = "merchant_hold"
	ReasonMerchantFailure   Reason = "merchant_failure"
	ReasonDataNotSealed     Reason = "data_not_sealed"
	ReasonDataEncoding      Reason = "data_encoding"
	ReasonDataUnopened      Reason = "data_unopened"
	ReasonNotOpened         Reason = "not_opened"
	ReasonOtherType         Reason = "other_type"
	ReasonOtherAttempt      Reason = "other_attempt"
	ReasonOtherCallback     Reason = "other_callback"
	ReasonAnswerDiffers     Reason = "answer_differs"
	ReasonDetailsDiffer     Reason = "details_differ"
	ReasonAnswerUnbound     Reason = "answer_unbound"
	ReasonLate              Reason = "late"
	ReasonAccepted          Reason = "accepted"
	ReasonFrozen            Reason = "frozen"
	ReasonPaused            Reason = "paused"
	ReasonOlderVersion      Reason = "older_version"
)

// It ended without a response.
const (
	ReasonDeadline  Reason = "deadline"
	ReasonCancelled Reason = "cancelled"
	ReasonRestored  Reason = "restored"
)

var reasons = words[Reason]{
	{is: ReasonBlockedAddress, means: "The service does not call the URL's address: it is private, or not a host of the internet.",
		do: "Correct the merchant's URL, or start the service with --allow-private."},
	{is: ReasonResolve, means: "The host in the merchant's URL has no address.", do: "Check the URL and the name server."},
	{is: ReasonConnect, means: "Nothing took the connection.", do: "Ask the merchant whether its server runs and lets the service's address in."},
	{is: ReasonTLS, means: "There was no trusted TLS session.", do: "Ask the merchant for a certificate that is valid, complete and for this name."},
	{is: ReasonTimeout, means: "The response was not complete in time.",
		do: "Ask the merchant what takes so long; it may have taken the callback all the same, and repeats do no harm."},
	{is: ReasonClosed, means: "The merchant closed the connection before its response was complete.", do: "Ask for its log at this time."},
	{is: ReasonHTTP, means: "What came back was not valid HTTP/1.1.", do: "Check what listens at the merchant's URL."},
	{is: ReasonTooLarge, means: "The header or the body of the response was longer than an answer can be.", do: "Check what listens at the merchant's URL; it may be a page for people."},
	{is: ReasonStopped, means: "This node of the service stopped or stalled during the attempt. The callback is sent again at once; there is nothing to do."},
	{is: ReasonOpenFiles, means: "This node had too many open files. It does not count against the merchant.", do: "Raise the node's limit (ulimit -n)."},
	{is: ReasonInternal, means: "This node failed; its log says why."},
	{is: ReasonLost, means: "The node stopped during the attempt and nothing is known of its end. The callback is sent again; repeats do no harm."},

	{is: ReasonStatus, means: "The HTTP status was not 200.", do: "Ask the merchant for its log at this time, or check the URL."},
	{is: ReasonResponseMalformed, means: "The response did not fit the protocol.", do: "Let the merchant run countersign check against its endpoint."},
	{is: ReasonWrongAPIKey, means: "The response carried another API key than the merchant's, or none.",
		do: "Check what answers at the URL, and that both ends have the same key."},
	{is: ReasonNotUnderstood, means: "The merchant could not open or read the callback (errCode 1000 to 1999).", do: "Check that both ends have the same request key."},
	{is: ReasonKeyRefused, means: "Keys are being replaced, and the merchant did not take the one that requests are sealed with. It was asked again at once under the other one; there is nothing to do unless that fails too."},
	{is: ReasonMerchantRefused, means: "The merchant refused for good; its errCode says why.", do: "Ask the merchant."},
	{is: ReasonMerchantHold, means: "The merchant asks to be asked again later (errCode 3000 to 3999), such as when a person must decide."},
	{is: ReasonMerchantFailure, means: "The merchant could not work on it for now (any other errCode). It is sent again by the schedule."},
	{is: ReasonDataNotSealed, means: "The answer was plain JSON, or nothing, and not sealed.", do: "Let the merchant run countersign check."},
	{is: ReasonDataEncoding, means: "The sealed answer was not Base64 of whole blocks.", do: "Check that the merchant seals with the response key that it was given."},
	{is: ReasonDataUnopened, means: "The answer did not open, or opened to something that is no answer.", do: "Check the response key at both ends."},
	{is: ReasonNotOpened, means: "The answer was not looked at, because too many answers of this merchant did not open.", do: "Check the response key, then resume the merchant."},
	{is: ReasonOtherType, means: "The answer was to another type of callback.", do: "Let the merchant run countersign check."},
	{is: ReasonOtherAttempt, means: "The answer carried another attempt's requestUUID.", do: "The merchant must answer with the one of the request."},
	{is: ReasonOtherCallback, means: "The answer named another withdrawal or user.", do: "Ask the merchant; if it did not send this, somebody plays with its answers."},
	{is: ReasonAnswerDiffers, means: "The answer contradicts the callback. Nothing was changed by it.", do: "Ask the merchant what it meant."},
	{is: ReasonDetailsDiffer, means: "The merchant confirmed other details than were ordered, so the withdrawal is declined.", do: "Compare both orders."},
	{is: ReasonAnswerUnbound, means: "There was no order to compare the answer with, and its blocks do not show that they belong together.", do: "Give details with each withdrawal."},
	{is: ReasonLate, means: "The answer was complete at the deadline or later, so it decides nothing."},
	{is: ReasonAccepted, means: "Every member of the answer was right."},
	{is: ReasonFrozen, means: "A person had frozen the service when the answer came, so it decides nothing. The merchant is asked again after the thaw."},
	{is: ReasonPaused, means: "The merchant was paused when the answer came, so it decides nothing. The merchant is asked again when it is resumed."},
	{is: ReasonOlderVersion, means: "The merchant was changed after the question, so the answer may come from where it no longer is. It decides nothing, and the merchant is asked again."},

	{is: ReasonDeadline, means: "The deadline passed without a valid answer."},
	{is: ReasonCancelled, means: "The service cancelled it."},
	{is: ReasonRestored, means: "The wallet had a permit for it before the database was restored from a backup. The answer that confirmed it is lost here."},
}

// Values lists every reason.
func (Reason) Values() []Reason { return reasons.values() }

// Means says what r means, for people; empty for an unknown word.
func (r Reason) Means() string { return reasons.of(r).means }

// Do says what helps; empty where there is nothing to do.
func (r Reason) Do() string { return reasons.of(r).do }

// Text says what r means and what helps.
func (r Reason) Text() string { return reasons.of(r).text() }
