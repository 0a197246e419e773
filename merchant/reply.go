package merchant

import (
	"net/http"

	"countersign"
	"countersign/envelope"
)

// reply is the response to a request, and what the log says of it.
type reply struct {
	status int
	Reply
	plaintext []byte // of the answer, if it does not depend on the merchant's function
	data      string // sealed answer, if Code is 0
	reason    Reason
	cause     error

	key      *envelope.Key // seals the answer
	typ      countersign.Type
	callback countersign.Callback // nil if none was read
	request  []byte               // the plaintext of a request that was opened and not read; nil otherwise
	lenient  bool                 // it was read by the lenient rules
	seq      int64
}

// hasResponse reports whether r is a response of the protocol. A peer that does not
// show the API key, or does not POST, gets nothing that names the merchant.
func (r reply) hasResponse() bool {
	return r.status != http.StatusUnauthorized && r.status != http.StatusMethodNotAllowed &&
		r.status != http.StatusNotFound
}

// end puts v into r.
func (r reply) end(v verdict) reply {
	r.Reply, r.reason, r.cause = v.Reply, v.reason, v.cause
	return r
}

func refuse(status int, code countersign.ErrCode, message string, reason Reason, cause error) *reply {
	return &reply{
		status: status, Reply: Reply{Code: code, Message: messageFor(code, message)}, reason: reason, cause: cause,
	}
}

// The fixed messages that differ from ErrCode.Message. They help the people at the
// service and tell a stranger nothing.
const (
	wordConsumed = "the request body was consumed or changed before it reached the handler"
	wordSlow     = "the request body did not arrive in time"
	wordCut      = "the request body ended early"
	wordTooLarge = "the request body is too large"
	wordNotBound = "the requestUUID is not bound to the request"
	wordSpliced  = "the request repeats blocks of another one"
	wordOverload = "too many requests at once"
	wordOther    = "this identifier was taken with other content"
	wordBusy     = "another delivery of this callback is being processed"
	wordAnswer   = "the answer does not fit into a response"
)
