package merchant

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"countersign"
	"countersign/envelope"
)

// opener reads requests. It is pure: bytes and its settings decide.
type opener struct {
	key     *envelope.Key
	padding envelope.Padding
	binding Binding
	lenient bool
}

// reply is what a request came to: what is sent, and what the log says of it.
type reply struct {
	status int
	Outcome
	plaintext []byte // of the answer, where it does not depend on the outcome
	data      string // sealed answer, where Code is 0
	reason    Reason
	cause     error

	typ      countersign.Type
	callback countersign.Callback // nil where none was read
	seq      int64
}

// hasResponse reports whether r is a response of the protocol. To those who do
// not show the API key, or do not even POST, the handler says nothing that
// names the merchant.
func (r reply) hasResponse() bool {
	return r.status != http.StatusUnauthorized && r.status != http.StatusMethodNotAllowed
}

func refuse(status int, code countersign.ErrCode, message string, reason Reason, cause error) *reply {
	return &reply{
		status: status, Outcome: Outcome{Code: code, Message: messageFor(code, message)}, reason: reason, cause: cause,
	}
}

// The fixed words that differ from the registry's, because they help whoever
// runs the other end and tell a stranger nothing.
const (
	wordConsumed = "the request body was consumed or changed before it reached the handler"
	wordSlow     = "the request body did not arrive in time"
	wordCut      = "the request body ended early"
	wordTooLarge = "the request body is too large"
	wordNotBound = "the requestUUID is not bound to the request"
	wordSpliced  = "the request repeats the beginning of another one"
	wordBusy     = "another delivery of this callback is being processed"
	wordAnswer   = "the answer does not fit into a response"
)

// open reads a request body up to the callback in it and the rules that need no
// memory (PROTOCOL.md, Body forms, Sealing, Messages, Binding). refused is not
// nil where it is not to be acted on.
//
// Where the private part opens, a body that opens to nonsense is answered
// exactly as one that does not open (PROTOCOL.md, Sealing): telling the two apart
// would let a peer try out paddings.
func (o opener) open(at countersign.Lane, body []byte) (cb countersign.Callback, blocks *Blocks, refused *reply) {
	inner, _, err := envelope.Unwrap(body)
	if err != nil {
		return nil, nil, cannotOpen(err)
	}
	plaintext, err := envelope.Open(o.key, o.padding, inner)
	if err != nil {
		return nil, nil, cannotOpen(err)
	}
	cb, err = countersign.ParseCallback(plaintext, countersign.ParseOptions{Lenient: o.lenient})
	switch {
	case errors.Is(err, countersign.ErrUnknownType):
		return nil, nil, refuse(http.StatusOK, countersign.CodeUnknownType, "", ReasonUnknownType, err)
	case err != nil && o.key.HasPrivate():
		return nil, nil, cannotOpen(err)
	case err != nil:
		return nil, nil, refuse(http.StatusBadRequest, countersign.CodeMalformed, "", ReasonMalformed, err)
	}
	if cb.CallbackType().Lane() != at {
		return cb, nil, refuse(http.StatusOK, countersign.CodeWrongURL, "", ReasonWrongURL, nil)
	}
	if o.binding != BindingOff {
		switch b := countersign.CheckBinding(plaintext); {
		case b == countersign.BindingHolds:
			return cb, nil, nil
		case b == countersign.BindingBroken:
			return cb, nil, refuse(http.StatusOK, countersign.CodeMalformed, wordNotBound, ReasonBindingBroken, nil)
		case o.binding != BindingWhenPresent:
			return cb, nil, refuse(http.StatusOK, countersign.CodeMalformed, wordNotBound, ReasonNotBound,
				errors.New("the service does not bind its requests; if it is known not to, set Binding to BindingWhenPresent"))
		}
	}
	blocks, err = o.firstBlock(plaintext, inner)
	if err != nil {
		return cb, nil, cannotOpen(err)
	}
	return cb, blocks, nil
}

func cannotOpen(cause error) *reply {
	return refuse(http.StatusBadRequest, countersign.CodeCannotOpen, "", ReasonNotOpened, cause)
}

// firstBlock gives what the first-block rule remembers, nil where the first
// block does not hold the whole requestUUID and so may well have many rests.
// How much the first block holds is found by opening it alone: a sender may cut
// shorter chunks than it must.
func (o opener) firstBlock(plaintext, inner []byte) (*Blocks, error) {
	end := uuidEnd(plaintext)
	if end < 0 || end > o.key.MaxChunk(o.padding) {
		return nil, nil
	}
	sealed, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(inner)))
	if err != nil || len(sealed) < o.key.Size() {
		return nil, fmt.Errorf("first block: %w", envelope.ErrBase64) // opened before, so it cannot be
	}
	first := sealed[:o.key.Size()]
	chunk, err := envelope.Open(o.key, o.padding, base64.StdEncoding.AppendEncode(nil, first))
	if err != nil {
		return nil, err
	}
	if end > len(chunk) {
		return nil, nil
	}
	return &Blocks{First: sha256.Sum256(first), Whole: sha256.Sum256(sealed)}, nil
}

// uuidEnd is the offset behind the value of the requestUUID, -1 where it is not
// found. A service that does not bind may use identifiers that are no UUIDs;
// of those the closing quote counts too, since without it more could follow.
func uuidEnd(plaintext []byte) int {
	if _, end, ok := countersign.UUIDSpan(plaintext); ok {
		return end
	}
	d := json.NewDecoder(bytes.NewReader(plaintext))
	if _, err := d.Token(); err != nil { // the brace
		return -1
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return -1
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return -1
		}
		if name == "requestUUID" {
			return int(d.InputOffset())
		}
	}
	return -1
}
