package envelope

import (
	"bytes"
	"math/big"

	"filippo.io/bigmod"
)

// publicOperation raises blocks to the public exponent and reuses its memory. It
// is for one goroutine at a time.
type publicOperation struct {
	p     *parts
	a, b  *bigmod.Nat
	x     big.Int
	plain []byte
}

func newPublicOperation(p *parts) *publicOperation {
	op := &publicOperation{p: p, plain: make([]byte, p.size)}
	if p.modulus != nil {
		op.a, op.b = bigmod.NewNat(), bigmod.NewNat()
	}
	return op
}

// inRange reports whether block, of Size bytes, is below the modulus. Check it
// before any exponentiation: a number that is not below the modulus is no block.
func (op *publicOperation) inRange(block []byte) bool { return inRange(block, op.p.n) }

// inRange compares numbers of the same length, big-endian. Neither is secret.
func inRange(block, n []byte) bool { return bytes.Compare(block, n) < 0 }

// raise returns block^e mod n in Size bytes, which are valid until the next call. block must be in range.
func (op *publicOperation) raise(block []byte) []byte {
	if op.p.modulus == nil {
		op.x.SetBytes(block)
		op.x.Exp(&op.x, op.p.e, op.p.public.N)
		return op.x.FillBytes(op.plain)
	}
	if _, err := op.a.SetBytes(block, op.p.modulus); err != nil {
		panic("envelope: block out of range reached the exponentiation")
	}
	op.b.ExpShortVarTime(op.a, uint(op.p.public.E), op.p.modulus)
	return op.b.Bytes(op.p.modulus)
}

// type1Data returns the data of an encoded block of type 1, or the reason why it
// is not one. The block is not secret, so the first fault may end the check.
func type1Data(encoded []byte) (data []byte, reason string) {
	if encoded[0] != 0 || encoded[1] != 1 {
		return nil, reasonType
	}
	end := 2
	for end < len(encoded) && encoded[end] == 0xFF {
		end++
	}
	switch {
	case end == len(encoded):
		return nil, reasonEnd
	case encoded[end] != 0:
		return nil, reasonPadding
	case end-2 < 8:
		return nil, reasonShort
	case end+1 == len(encoded):
		return nil, reasonNoData
	}
	return encoded[end+1:], ""
}
