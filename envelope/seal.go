package envelope

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// Seal returns the body that carries plaintext: blocks as long as the modulus,
// joined, in standard Base64 (PROTOCOL.md, S1 to S4). A key with the private part
// makes blocks of type 1, the same every time; a key with the public part alone
// makes blocks of type 2 or OAEP, different every time.
//
// Errors: ErrEmpty for no plaintext, ErrTooLarge if the body would exceed
// MaxBody, ErrDirection for OAEP with the private part.
func Seal(key *Key, p Padding, plaintext []byte) ([]byte, error) {
	return Worker{}.Seal(key, p, plaintext)
}

// Seal is the function Seal with the goroutines of w.
func (w Worker) Seal(key *Key, p Padding, plaintext []byte) ([]byte, error) {
	if err := sealable(key, p, plaintext); err != nil {
		return nil, err
	}
	sealed, err := w.sealBlocks(key, p, plaintext)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, sealed), nil
}

func sealable(key *Key, p Padding, plaintext []byte) error {
	if err := usable(key, p); err != nil {
		return fmt.Errorf("sealing: %w", err)
	}
	if p == OAEP && key.HasPrivate() {
		return fmt.Errorf("sealing: %w: with OAEP the public part seals and the private part opens", ErrDirection)
	}
	if len(plaintext) == 0 {
		return fmt.Errorf("sealing: %w", ErrEmpty)
	}
	if limit := key.MaxPlaintext(p); len(plaintext) > limit {
		return fmt.Errorf("sealing %d bytes: %w: this key takes %d", len(plaintext), ErrTooLarge, limit)
	}
	return nil
}

// sealBlocks returns the blocks of plaintext.
func (w Worker) sealBlocks(key *Key, p Padding, plaintext []byte) ([]byte, error) {
	size, step := key.p().size, key.MaxChunk(p)
	sealed := make([]byte, key.Blocks(p, len(plaintext))*size)
	block := func(op *publicOperation, i int) error {
		made, err := sealBlock(key, p, op, plaintext[min(i*step, len(plaintext)):min((i+1)*step, len(plaintext))])
		if err != nil {
			return fmt.Errorf("block %d: %w: %w", i, ErrSeal, err)
		}
		copy(sealed[i*size:], made)
		return nil
	}
	if key.HasPrivate() {
		return sealed, w.each(len(sealed)/size, func(i int) error { return block(nil, i) })
	}
	return sealed, w.each(1, func(int) error {
		op := newPublicOperation(key.p())
		for i := range len(sealed) / size {
			if err := block(op, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// sealBlock makes one block, which is valid until op is used again. crypto/rsa
// takes its randomness from the system, whatever reader it gets.
func sealBlock(key *Key, p Padding, op *publicOperation, chunk []byte) ([]byte, error) {
	switch {
	case key.p().private != nil:
		return key.p().sealPrivate(chunk)
	case p == OAEP:
		return rsa.EncryptOAEP(sha256.New(), rand.Reader, key.p().public, chunk, nil)
	case key.p().modulus != nil:
		// crypto/rsa would do the same, but would prepare the modulus again
		// for every block, which takes longer than the operation.
		return op.raise(type2Block(key.p().size, chunk)), nil
	default:
		//lint:ignore SA1019 this padding is what the protocol asks for
		return rsa.EncryptPKCS1v15(rand.Reader, key.p().public, chunk)
	}
}

// type2Block pads a chunk, which fits, as block type 2: random bytes, none of
// them 0.
func type2Block(size int, chunk []byte) []byte {
	block := make([]byte, size)
	block[1] = 2
	padding := block[2 : size-len(chunk)-1]
	_, _ = rand.Read(padding) // never fails
	for i := range padding {
		for padding[i] == 0 {
			_, _ = rand.Read(padding[i : i+1])
		}
	}
	copy(block[size-len(chunk):], chunk)
	return block
}
