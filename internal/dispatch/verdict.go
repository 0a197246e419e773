package dispatch

import (
	"countersign"
	"countersign/client"
)

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
