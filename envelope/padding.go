package envelope

import "fmt"

// Padding is how a chunk becomes a block (PROTOCOL.md, Sealing).
type Padding int

const (
	// PKCS1v15 is the padding of PKCS#1 v1.5: block type 1 where the private
	// part seals, block type 2 where the public part does.
	PKCS1v15 Padding = iota

	// OAEP is OAEP with SHA-256, for the mask too, and an empty label. Only the
	// public part seals, and only the private part opens.
	OAEP
)

// String returns the name of p as settings have it.
func (p Padding) String() string {
	switch p {
	case PKCS1v15:
		return "PKCS1v15"
	case OAEP:
		return "OAEP"
	}
	return fmt.Sprintf("Padding(%d)", int(p))
}

// overhead returns how many bytes of a block, at least, are not data.
func (p Padding) overhead() int {
	if p == OAEP {
		return 66 // two SHA-256 digests and two bytes
	}
	return 11 // 00, type, eight bytes of padding, 00
}

// MaxChunk returns how many bytes of plaintext one block holds: Size()−11, or Size()−66 with OAEP. It is 0 for a zero
// Key.
func (k *Key) MaxChunk(p Padding) int {
	if !k.ready() {
		return 0
	}
	return k.p().size - p.overhead()
}

// Blocks returns how many blocks Seal makes of n bytes of plaintext.
func (k *Key) Blocks(p Padding, n int) int {
	chunk := k.MaxChunk(p)
	if n <= 0 || chunk == 0 {
		return 0
	}
	return (n-1)/chunk + 1
}

// MaxPlaintext returns the largest plaintext, in bytes, whose body does not exceed
// MaxBody.
func (k *Key) MaxPlaintext(p Padding) int {
	if !k.ready() {
		return 0
	}
	return MaxBody / 4 * 3 / k.p().size * k.MaxChunk(p)
}

func usable(key *Key, p Padding) error {
	if !key.ready() {
		return ErrKeyMissing
	}
	if p != PKCS1v15 && p != OAEP {
		return fmt.Errorf("%w: %v", ErrPadding, p)
	}
	return nil
}
