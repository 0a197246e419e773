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

// ReadBlocks returns the blocks of a body that opens with key and is not bound, for a Rememberer. It returns nil for
// any other body. field is Profile.BodyField.
func ReadBlocks(key *envelope.Key, padding envelope.Padding, field string, body []byte) *Blocks {
	o := opener{key: key, padding: padding, binding: BindingWhenPresent, lenient: true, field: field}
	_, blocks, _, _ := o.open(countersign.LaneNotify, body)
	return blocks
}
