package merchant

import (
	"net/http"

	"countersign"
)

// Exchange is a question about a withdrawal and its answer, for a record that can be
// shown later.
type Exchange struct {
	Question countersign.WithdrawalRequest
	// Request is the body of the request, RequestOpened what it opened to. Both are
	// valid only during the call.
	Request, RequestOpened []byte
	// Code and Message are those of the response, in the provider's numbers.
	Code    countersign.ErrCode
	Message string
	// Data is the sealed answer and DataOpened what was sealed in it, if Code is 0.
	Data       string
	DataOpened []byte
	// Link has the signatures of both. Nil: the request has none.
	Link *Link
}

// Link is what a third party needs to verify the signatures of an exchange (PROTOCOL.md,
// L14): the headers of both messages, and what else they cover.
type Link struct {
	URL      string      // of the request, as it was verified; empty if it was not
	Request  http.Header // Content-Type and those of the signature
	Status   int         // of the response
	Response http.Header // the same of the response; nil if it is not signed
}

// Refused is a request that was refused although it opened, or although it came with an API
// key of Config.CallbackAPIKeys, or a deposit that Verify holds (ReasonHold), for a record that
// can be shown and retried later. Whoever sent it chose what is in it.
type Refused struct {
	Identity countersign.Identity
	Callback countersign.Callback // nil if none was read
	Reason   Reason
	Facts    []Fact
	Setting  string // what would let it through: the gateway's flag, and the member of Config; may be empty
	// Code and Message are what the provider gets, in its numbers.
	Code    countersign.ErrCode
	Message string
	// Body is the body of the request, Opened what it opened to, nil if it did not. Both are
	// valid only during the call.
	Body, Opened []byte
	// Signed says that the service's signature was demanded and right, though perhaps old (PROTOCOL.md, L11).
	Signed bool
}

// Fact is one thing about a request that was not as expected. A text that does not apply is empty.
type Fact struct {
	Member   string // of the message; empty: it is about the whole request
	Problem  string
	Expected string
	Got      string
}
