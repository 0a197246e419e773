package envelope

import (
	"errors"
	"fmt"
)

// The errors of Seal, Open and Unwrap. Each of their errors wraps one of these; opening with
// the private part returns ErrOpen itself.
var (
	// ErrEmpty: there is nothing to seal or to open.
	ErrEmpty = errors.New("nothing there")

	// ErrTooLarge: the body is, or would become, larger than MaxBody.
	ErrTooLarge = errors.New("too large")

	// ErrBodyForm: the body has none of the forms that Unwrap takes.
	ErrBodyForm = errors.New("not a known body form")

	// ErrBodyField: the body is a form or a JSON object without the field; it is an ErrBodyForm too.
	ErrBodyField = fmt.Errorf("%w with this field", ErrBodyForm)

	// ErrBase64: the body is not standard Base64 with padding.
	ErrBase64 = errors.New("not standard Base64")

	// ErrLength: the decoded body is not a whole number of blocks.
	ErrLength = errors.New("not a whole number of blocks")

	// ErrBlock: a block did not open with the public part. It comes as a
	// *BlockError.
	ErrBlock = errors.New("block does not open")

	// ErrOpen: the body did not open with the private part. It is the same for
	// every cause inside the blocks (PROTOCOL.md, S7).
	ErrOpen = errors.New("body does not open")

	// ErrDirection: the key lacks the part that the operation needs.
	ErrDirection = errors.New("wrong part of the key")

	// ErrPadding: the Padding is neither PKCS1v15 nor OAEP.
	ErrPadding = errors.New("unknown padding")

	// ErrSeal: the RSA library refused to seal, or sealed wrongly. It does not occur with keys of ParseKey and
	// GenerateKey.
	ErrSeal = errors.New("sealing failed")
)

// The errors of keys.
var (
	// ErrKey is wrapped by the errors of ParseKey and GenerateKey, ErrSigningKey by those of ParseSigningKey. They say
	// what to try and never repeat the data.
	ErrKey        = errors.New("not a usable RSA key")
	ErrSigningKey = errors.New("not an Ed25519 key")

	// ErrKeyMissing: a nil or zero Key was used.
	ErrKeyMissing = errors.New("no key")
)

// BlockError says which block did not open with the public part, and why. Every holder of the public
// part could compute it.
type BlockError struct {
	Block  int    // counted from 0
	Reason string // one of a fixed list of clauses
}

// The reasons of a BlockError.
const (
	reasonRange   = "its value is not below the modulus"
	reasonType    = "it does not start with 00 01"
	reasonPadding = "its padding holds a byte other than FF"
	reasonShort   = "it has fewer than eight FF"
	reasonEnd     = "its padding never ends"
	reasonNoData  = "it holds no data"
)

func (e *BlockError) Error() string {
	return fmt.Sprintf("block %d does not open: %s", e.Block, e.Reason)
}

// Unwrap returns ErrBlock.
func (e *BlockError) Unwrap() error { return ErrBlock }
