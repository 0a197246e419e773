package merchant

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"

	"countersign"
	"countersign/envelope"
)

// opener reads requests with one key. Its results depend only on the bytes and its settings.
type opener struct {
	key     *envelope.Key
	answer  *envelope.Key // seals the answers to what key opened
	padding envelope.Padding
	binding Binding
	lenient bool
	field   string
}

// openers makes an opener for each key. c is complete.
func openers(c *Config) []opener {
	first := opener{key: c.Key, answer: c.ResponseKey, padding: c.Padding, binding: c.Profile.Binding,
		lenient: c.Profile.Lenient, field: c.Profile.BodyField}
	if c.NextKey == nil {
		return []opener{first}
	}
	next := first
	next.key, next.answer = c.NextKey, c.NextResponseKey
	return []opener{first, next}
}

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

// open reads the callback in a request body and checks the rules that need no
// memory (PROTOCOL.md, Body forms, Sealing, Messages, Binding). If the callback
// must not be acted on, refused is not nil. blocks are those to judge and to remember, nil where
// the binding shows that they belong together.
//
// If the private part opens, a body that opens to no message gets the same
// response as a body that does not open (PROTOCOL.md, S7); otherwise a peer could
// test paddings. Its blocks are not remembered, since that takes time.
func (o opener) open(at countersign.Lane,
	body []byte) (cb countersign.Callback, blocks *Blocks, plaintext []byte, refused *reply) {
	inner, _, err := envelope.UnwrapField(body, o.field)
	if err != nil {
		return nil, nil, nil, cannotOpen(err)
	}
	plaintext, lengths, err := envelope.OpenBlocks(o.key, o.padding, inner)
	if err != nil {
		return nil, nil, nil, cannotOpen(err)
	}
	cb, err = countersign.ParseCallback(plaintext, countersign.ParseOptions{Lenient: o.lenient})
	bound := countersign.CheckBinding(plaintext)
	if (o.binding == BindingOff || bound != countersign.BindingHolds) && (err == nil || !o.key.HasPrivate()) {
		sealed, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(inner)))
		if err != nil {
			return nil, nil, nil, cannotOpen(err) // cannot happen: it was opened before
		}
		blocks = blocksOf(cb, plaintext, sealed, lengths, o.key.HasPrivate())
	}
	switch {
	case errors.Is(err, countersign.ErrUnknownType):
		refused = refuse(http.StatusOK, countersign.CodeUnknownType, "", ReasonUnknownType, err)
	case err != nil && o.key.HasPrivate():
		refused = cannotOpen(err)
	case err != nil:
		refused = refuse(http.StatusBadRequest, countersign.CodeMalformed, err.Error(), ReasonMalformed, err)
	case cb.CallbackType().Lane() != at:
		refused = refuse(http.StatusOK, countersign.CodeWrongURL, "", ReasonWrongURL, nil)
	case o.binding != BindingOff && bound == countersign.BindingBroken:
		refused = refuse(http.StatusOK, countersign.CodeMalformed, wordNotBound, ReasonBindingBroken, nil)
	case o.binding == BindingRequired && bound != countersign.BindingHolds:
		refused = refuse(http.StatusOK, countersign.CodeMalformed, wordNotBound, ReasonNotBound,
			errors.New("the requestUUID is not bound"))
	}
	if err != nil {
		refused.request, refused.lenient = plaintext, o.lenient
	}
	return cb, blocks, plaintext, refused
}

func cannotOpen(cause error) *reply {
	message := ""
	if formAtFault(cause) {
		message = cause.Error()
	}
	return refuse(http.StatusBadRequest, countersign.CodeCannotOpen, message, ReasonNotOpened, cause)
}

// formAtFault reports whether a body failed before a key was used: its sender must change its form. An
// explanation of that reveals nothing about the key.
func formAtFault(err error) bool {
	return errors.Is(err, envelope.ErrBodyForm) || errors.Is(err, envelope.ErrBase64) || errors.Is(err, envelope.ErrEmpty)
}
