package client

// AttemptResult is the effect of an attempt on its callback.
type AttemptResult string

// The effects of an attempt.
const (
	AttemptAccepted AttemptResult = "accepted"
	AttemptRefused  AttemptResult = "refused"
	AttemptHold     AttemptResult = "hold"
	AttemptRetry    AttemptResult = "retry"
)

var _ = newWords(words[AttemptResult]{
	{is: AttemptAccepted, means: "The merchant took the callback, or confirmed the withdrawal."},
	{is: AttemptRefused, means: "The merchant will never take it."},
	{is: AttemptHold, means: "The merchant is asked again later; the schedule does not move on."},
	{is: AttemptRetry, means: "It is tried again by the schedule."},
})

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
	ReasonDataUnreadable    Reason = "data_unreadable"
	ReasonNotOpened         Reason = "not_opened"
	ReasonOtherType         Reason = "other_type"
	ReasonOtherAttempt      Reason = "other_attempt"
	ReasonOtherCallback     Reason = "other_callback"
	ReasonAnswerDiffers     Reason = "answer_differs"
	ReasonDetailsDiffer     Reason = "details_differ"
	ReasonAnswerUnbound     Reason = "answer_unbound"
	ReasonUnsigned          Reason = "unsigned"
	ReasonSignatureInvalid  Reason = "signature_invalid"
	ReasonSignatureOld      Reason = "signature_old"
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

var reasons = newWords(words[Reason]{
	{is: ReasonBlockedAddress, means: "The service does not call the URL's address: it is private, or not a host of the internet.",
		do: "Correct the merchant's URL, or start the service with --allow-private."},
	{is: ReasonResolve, means: "The host in the merchant's URL has no address.",
		do: "Check the URL; the merchant must have the host in its name server."},
	{is: ReasonConnect, means: "Nothing took the connection.",
		do: "The merchant must run its server at the URL and let the service's address in."},
	{is: ReasonTLS, means: "There was no trusted TLS session.",
		do: "The merchant must serve a certificate of a public authority that is valid and for this name, with its intermediate certificates."},
	{is: ReasonTimeout, means: "The response was not complete in time.",
		do: "The merchant must answer within the exchange time-out, so it takes the callback durably and works on it afterwards. It may have taken this one all the same, and repeats do no harm (PROTOCOL.md, I1)."},
	{is: ReasonClosed, means: "The merchant closed the connection before its response was complete.",
		do: "The merchant must send as many bytes as its Content-Length says and close afterwards. Ask for its log at this time."},
	{is: ReasonHTTP, means: "What came back was not valid HTTP/1.1.",
		do: "Check what listens at the merchant's URL."},
	{is: ReasonTooLarge, means: "The header or the body of the response, or the sealed answer, was longer than an answer can be.",
		do: "The merchant must answer with at most 65,536 bytes (PROTOCOL.md, H3 and R9). A page for people is often what is so long: check the URL."},
	{is: ReasonStopped, means: "This node of the service stopped or stalled during the attempt. The callback is sent again at once; there is nothing to do."},
	{is: ReasonOpenFiles, means: "This node had too many open files. It does not count against the merchant, and comes again ten seconds later.", do: "Raise the node's limit (ulimit -n)."},
	{is: ReasonInternal, means: "This node failed; its log says why."},
	{is: ReasonLost, means: "The node stopped during the attempt and nothing is known of its end. The callback is sent again; repeats do no harm."},

	{is: ReasonStatus, means: "The HTTP status was not 200.",
		do: "The merchant must answer 200 to every callback that it can read, whatever the errCode, and at the URL itself: the service follows no redirect (PROTOCOL.md, H2 and H3)."},
	{is: ReasonResponseMalformed, means: "The response was not the JSON object of the protocol.",
		do: "The merchant must answer with apiKey, data and message as texts and errCode as a whole number (PROTOCOL.md, R1)."},
	{is: ReasonWrongAPIKey, means: "The response carried another API key than the merchant's, or none.",
		do: "The merchant must answer with its own apiKey (PROTOCOL.md, R1). Check what answers at the URL, and that both ends have the same key."},
	{is: ReasonNotUnderstood, means: "The merchant could not open or read the callback (errCode 1000 to 1999; PROTOCOL.md, E1).",
		do: "Check that both ends have the same request key and the same body form (PROTOCOL.md, H1); the merchant's message may say more."},
	{is: ReasonKeyRefused, means: "Keys are being replaced, and the merchant did not take the one that requests are sealed with. It was asked again at once under the other one; there is nothing to do unless that fails too."},
	{is: ReasonMerchantRefused, means: "The merchant refused for good; its errCode and message say why (PROTOCOL.md, E1 and E2).",
		do: "Ask the merchant. If it only cannot work on it now, it must answer with another code, or the setting finalCodes is wrong."},
	{is: ReasonMerchantHold, means: "The merchant asks to be asked again later (errCode 3000 to 3999; PROTOCOL.md, E4), such as when a person must decide."},
	{is: ReasonMerchantFailure, means: "The merchant could not work on it for now (any other errCode; PROTOCOL.md, E1). It is sent again by the schedule.",
		do: "Ask the merchant for its log at this time, if it goes on."},
	{is: ReasonDataNotSealed, means: "The answer was plain JSON, or nothing, and not sealed.",
		do: "The merchant must seal the answer with the response key and put the Base64 into data as a text (PROTOCOL.md, R1 and S4)."},
	{is: ReasonDataEncoding, means: "The sealed answer was not Base64 of whole blocks.",
		do: "The merchant must seal with the response key that it was given, and write standard Base64 with padding (PROTOCOL.md, S4 and S5)."},
	{is: ReasonDataUnreadable, means: "The answer did not open, or opened to something that is no answer.",
		do: "The merchant must seal with its response key and padding (PROTOCOL.md, S1 to S4), and the answer must have every member of its type (R2 to R5). Check the response key at both ends."},
	{is: ReasonNotOpened, means: "The answer was not looked at, because too many answers of this merchant did not open.",
		do: "Check the response key, then resume the merchant."},
	{is: ReasonOtherType, means: "The answer was to another type of callback.",
		do: "The merchant must answer with the type of the request (PROTOCOL.md, R2)."},
	{is: ReasonOtherAttempt, means: "The answer carried another attempt's requestUUID.",
		do: "The merchant must answer each request with its own requestUUID, also when it repeats an earlier answer (PROTOCOL.md, R2 and D1)."},
	{is: ReasonOtherCallback, means: "The answer named another withdrawal or user.",
		do: "The merchant must answer with the callBackId and tenantUserId of the request (PROTOCOL.md, R4). If it did not send this, somebody plays with its answers."},
	{is: ReasonAnswerDiffers, means: "The answer contradicts the callback. Nothing was changed by it.",
		do: "The merchant must repeat the members of the request as they came (PROTOCOL.md, R3 and R5). Ask it what it meant."},
	{is: ReasonDetailsDiffer, means: "The merchant confirmed other details than were ordered, so the withdrawal is declined (PROTOCOL.md, D2 and D3).",
		do: "Compare both orders."},
	{is: ReasonAnswerUnbound, means: "There was no order to compare the answer with, and its blocks do not show that they belong together.",
		do: "Give details with each withdrawal, or have the merchant order the members of its answer (PROTOCOL.md, D7 and R7)."},
	{is: ReasonUnsigned, means: "The response was not signed, though the merchant has an answerKey. It decides nothing.",
		do: "The merchant must sign its responses (PROTOCOL.md, L4 and L9): its gateway needs its signing key, and a proxy before it must leave the headers Signature, Signature-Input and Content-Digest."},
	{is: ReasonSignatureInvalid, means: "The signature of the response is not that of the merchant's answerKey for this very answer. It decides nothing.",
		do: "Compare answerKey with the public part of the merchant's signing key (gateway --check prints it). If they are the same, somebody changes its answers (PROTOCOL.md, L7)."},
	{is: ReasonSignatureOld, means: "The response was signed more than five minutes before or after it came, by the service's clock. It decides nothing.",
		do: "Set the clocks of both ends (PROTOCOL.md, L8)."},
	{is: ReasonLate, means: "The answer was complete at the deadline or later, so it decides nothing (PROTOCOL.md, D5)."},
	{is: ReasonAccepted, means: "Every member of the answer was right."},
	{is: ReasonFrozen, means: "A person had frozen the service when the answer came, so it decides nothing. The merchant is asked again after the thaw."},
	{is: ReasonPaused, means: "The merchant was paused when the answer came, so it decides nothing. The merchant is asked again when it is resumed."},
	{is: ReasonOlderVersion, means: "The merchant was changed after the question, so the answer may come from where it no longer is. It decides nothing, and the merchant is asked again."},

	{is: ReasonDeadline, means: "The deadline passed without a valid answer."},
	{is: ReasonCancelled, means: "The service cancelled it."},
	{is: ReasonRestored, means: "The wallet had a permit for it before the database was restored from a backup. The answer that confirmed it is lost here."},
})

// Do returns what helps; empty where there is nothing to do.
func (r Reason) Do() string { return reasons.of(r).do }

// Text returns what r means and what helps.
func (r Reason) Text() string { return reasons.of(r).text() }
