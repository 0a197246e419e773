package envelope

import (
	"bytes"
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
	sealed, err := w.sealBlocks(key, p, plaintext, nil, nil)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, sealed), nil
}

// Reseal returns the same bytes as Seal for less work, if the private part seals:
// it reuses those blocks of prevBody, which Seal made of prevPlain with the same
// key, whose chunk has not changed (PROTOCOL.md, S8). It reuses a block only after
// the public part has opened it to that chunk, so a wrong or damaged prevBody
// only costs time. If the public part seals, Reseal does what Seal does, because
// such blocks must be new every time.
func Reseal(key *Key, p Padding, prevPlain, prevBody, plaintext []byte) ([]byte, error) {
	return Worker{}.Reseal(key, p, prevPlain, prevBody, plaintext)
}

// Reseal is the function Reseal with the goroutines of w.
func (w Worker) Reseal(key *Key, p Padding, prevPlain, prevBody, plaintext []byte) ([]byte, error) {
	if err := sealable(key, p, plaintext); err != nil {
		return nil, err
	}
	var prev []byte
	if key.HasPrivate() && len(prevPlain) > 0 {
		// A prevBody whose length is not that of Seal's result is not used.
		if b, err := decodeBody(prevBody); err == nil && len(b) == key.Blocks(p, len(prevPlain))*key.p().size {
			prev = b
		}
	}
	sealed, err := w.sealBlocks(key, p, plaintext, prevPlain, prev)
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

// sealBlocks returns the blocks of plaintext. prev is nil or the blocks of
// prevPlain.
func (w Worker) sealBlocks(key *Key, p Padding, plaintext, prevPlain, prev []byte) ([]byte, error) {
	size, step := key.p().size, key.MaxChunk(p)
	sealed := make([]byte, key.Blocks(p, len(plaintext))*size)
	chunk := func(of []byte, i int) []byte { return of[min(i*step, len(of)):min((i+1)*step, len(of))] }
	if !key.HasPrivate() {
		return sealed, w.each(1, func(int) error {
			op := newPublicOperation(key.p())
			for i := 0; i*size < len(sealed); i++ {
				block, err := sealBlock(key, p, op, chunk(plaintext, i))
				if err != nil {
					return fmt.Errorf("block %d: %w: %w", i, ErrSeal, err)
				}
				copy(sealed[i*size:], block)
			}
			return nil
		})
	}
	fresh := make([]int, 0, len(sealed)/size) // blocks to be made
	var op *publicOperation
	for i := range cap(fresh) {
		if c := chunk(plaintext, i); prev != nil && len(c) > 0 && bytes.Equal(c, chunk(prevPlain, i)) {
			if op == nil {
				op = newPublicOperation(key.p())
			}
			if block := prev[i*size : (i+1)*size]; opensTo(op, block, c) {
				copy(sealed[i*size:], block)
				continue
			}
		}
		fresh = append(fresh, i)
	}
	return sealed, w.each(len(fresh), func(n int) error {
		i := fresh[n]
		block, err := sealBlock(key, p, nil, chunk(plaintext, i))
		if err != nil {
			return fmt.Errorf("block %d: %w: %w", i, ErrSeal, err)
		}
		copy(sealed[i*size:], block)
		return nil
	})
}

func opensTo(op *publicOperation, block, chunk []byte) bool {
	if !op.inRange(block) {
		return false
	}
	data, reason := type1Data(op.raise(block))
	return reason == "" && bytes.Equal(data, chunk)
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
