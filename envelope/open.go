package envelope

import (
	"fmt"
)

// Open returns the plaintext of a body in standard Base64. If the body may have
// another form, call Unwrap first. A key with the private part opens blocks of
// type 2 or OAEP; a key with the public part alone opens blocks of type 1. Blocks
// may hold any number of bytes from one to MaxChunk. Open enforces all rules of
// PROTOCOL.md, Sealing, and does not look at the plaintext.
//
// Errors: ErrTooLarge, ErrEmpty, ErrBase64 and ErrLength before any RSA
// operation; a *BlockError for a block that the public part does not open;
// ErrOpen itself for anything that the private part does not open; ErrDirection
// for OAEP without the private part.
func Open(key *Key, p Padding, body []byte) ([]byte, error) {
	return Worker{}.Open(key, p, body)
}

// Open is the function Open with the goroutines and the bound of w.
func (w Worker) Open(key *Key, p Padding, body []byte) ([]byte, error) {
	plaintext, _, err := w.OpenBlocks(key, p, body)
	return plaintext, err
}

// OpenBlocks is Open and also returns how many bytes of the plaintext each block held, in the order of the blocks. What
// lies in one block came from one sealer and one message. lengths is nil if it fails.
func OpenBlocks(key *Key, p Padding, body []byte) (plaintext []byte, lengths []int, err error) {
	return Worker{}.OpenBlocks(key, p, body)
}

// OpenBlocks is the function OpenBlocks with the goroutines and the bound of w.
func (w Worker) OpenBlocks(key *Key, p Padding, body []byte) (plaintext []byte, lengths []int, err error) {
	sealed, err := openable(key, p, body)
	if err != nil {
		return nil, nil, fmt.Errorf("opening: %w", err)
	}
	if blocks := len(sealed) / key.p().size; w.Most > 0 && blocks > key.Blocks(p, w.Most) {
		return nil, nil, fmt.Errorf("opening: %w: %d blocks, and at most %d bytes of plaintext are allowed", ErrTooLarge,
			blocks, w.Most)
	}
	if !key.HasPrivate() {
		err := w.each(1, func(int) (err error) {
			plaintext, lengths, err = openPublic(key, sealed)
			return err
		})
		return plaintext, lengths, err
	}
	return w.openPrivate(key, sealed, func(block []byte) ([]byte, error) {
		return key.p().openPrivate(p, block)
	})
}

// openable returns the blocks of body, at least one.
func openable(key *Key, p Padding, body []byte) ([]byte, error) {
	if err := usable(key, p); err != nil {
		return nil, err
	}
	if p == OAEP && !key.HasPrivate() {
		return nil, fmt.Errorf("%w: with OAEP only the private part opens", ErrDirection)
	}
	sealed, err := decodeBody(body)
	if err != nil {
		return nil, err
	}
	if len(sealed)%key.p().size != 0 {
		return nil, fmt.Errorf("body: %w: %d bytes, and this key has blocks of %d", ErrLength, len(sealed), key.p().size)
	}
	return sealed, nil
}

// openPublic opens blocks of type 1. It writes the plaintext over the blocks: the
// plaintext is shorter, so no block is overwritten before it is read.
func openPublic(key *Key, sealed []byte) (plaintext []byte, lengths []int, err error) {
	op := newPublicOperation(key.p())
	plaintext = sealed[:0]
	size := key.p().size
	lengths = make([]int, 0, len(sealed)/size)
	for i := 0; i*size < len(sealed); i++ {
		block := sealed[i*size : (i+1)*size]
		if !op.inRange(block) {
			return nil, nil, fmt.Errorf("opening: %w", &BlockError{i, reasonRange})
		}
		data, reason := type1Data(op.raise(block))
		if reason != "" {
			return nil, nil, fmt.Errorf("opening: %w", &BlockError{i, reason})
		}
		plaintext = append(plaintext, data...)
		lengths = append(lengths, len(data))
	}
	return plaintext, lengths, nil
}

// openPrivate opens every block with decrypt and only then looks for failures.
// Stopping at the first bad block would tell a peer, by the time taken, which of
// its blocks have valid padding.
func (w Worker) openPrivate(key *Key, sealed []byte,
	decrypt func([]byte) ([]byte, error)) (plaintext []byte, lengths []int, err error) {
	size := key.p().size
	chunks := make([][]byte, len(sealed)/size)
	err = w.each(len(chunks), func(i int) error {
		block := sealed[i*size : (i+1)*size]
		good := inRange(block, key.p().n)
		if !good {
			// RSA libraries return at once for a number that is not below the
			// modulus. The number 1 in its place takes the usual time.
			block = make([]byte, size)
			block[size-1] = 1
		}
		data, err := decrypt(block)
		if good && err == nil {
			chunks[i] = data
		}
		return nil // failures count after every block has run
	})
	if err != nil {
		return nil, nil, fmt.Errorf("opening: %w", err)
	}
	plaintext = make([]byte, 0, len(sealed))
	lengths = make([]int, len(chunks))
	bad := false
	for i, data := range chunks {
		bad = bad || len(data) == 0
		plaintext = append(plaintext, data...)
		lengths[i] = len(data)
	}
	if bad {
		clear(plaintext)
		return nil, nil, ErrOpen
	}
	return plaintext, lengths, nil
}
