package dispatch

import (
	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"net/http"
)

// Question is what Judge needs to know of an attempt.
type Question struct {
	// APIKeys are the keys of which one is expected in the response. There are two while keys are replaced. Required.
	APIKeys []countersign.APIKey
	// Sent is the callback with the requestUUID of this attempt. Required.
	Sent countersign.Callback
	// Ordered are the details of the withdrawal of a type 2 callback. Nil: they are those of the merchant's answer.
	Ordered *countersign.Details
	// Collect says what such an answer must show. Zero: CollectBound.
	Collect client.Collect
	// Deadline is the time from which a withdrawal can no longer be confirmed. Type 2 only.
	Deadline db.Millis
	// AnswerKeys are the keys of which one must have signed the response (PROTOCOL.md, L10). Nil: signatures are not
	// checked.
	AnswerKeys []*envelope.SigningKey
	// Asked is the header that signs the request, if there are AnswerKeys.
	Asked http.Header
	// FinalCodes are the final errCodes (PROTOCOL.md, E2). Nil: none.
	FinalCodes []client.CodeRange
}

// Response is the result of one exchange.
type Response struct {
	// Failure is why there is no complete response; empty if there is one.
	Failure client.Reason
	// Cause explains Failure to people.
	Cause string
	// Status is the HTTP status; 0 if none was read.
	Status int
	// Encoding is how the body is compressed, by its header. Empty: it is not.
	Encoding string
	// Body is the whole body. Nil if Failure is set or Status is not 200.
	Body []byte
	// Header is the header that signs the response, if there is a Body.
	Header http.Header
	// Page is the beginning of the body if Status is not 200, for people alone.
	Page []byte
	// Location is where a redirect led.
	Location string
	// Done is when the last byte had been read.
	Done db.Millis
}

// Verdict is the judgement of one attempt. The zero Verdict has no result and never moves money.
type Verdict struct {
	Result client.AttemptResult
	Reason client.Reason
	// Facts say what was wrong. They are empty for an accepted answer.
	Facts client.Fact

	// Decision is the decision about the withdrawal, if the attempt makes one.
	Decision countersign.Decision
	// Details are the confirmed details if Decision is confirmed.
	Details countersign.Details

	ErrCode *int64           // the merchant's; nil without a readable response
	Alarm   client.AlarmKind // to raise; may be empty

	// SignedBy is the fingerprint of the key that signed the response. Empty: none had to, or the signature is not
	// valid.
	SignedBy string

	// Reached means that the merchant's server answered with status 200. The breaker counts the attempts for which it
	// is false.
	Reached bool
	// OpenFailure means that the blocks of data did not open with the private part, opened to no answer, or are more
	// than an answer needs. Many such failures look like an attacker who tries blocks or wants to cost time.
	OpenFailure bool
}
