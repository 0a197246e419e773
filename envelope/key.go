package envelope

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"

	"filippo.io/bigmod"
)

// The bounds of a key (PROTOCOL.md, Keys).
const (
	MinBits     = 1024      // smallest modulus taken, in bits
	MaxBits     = 8192      // largest modulus taken, in bits
	MinExponent = 65537     // smallest public exponent taken, and the one made
	maxExponent = 1<<31 - 1 // crypto/rsa takes no larger one
)

// bigmodBits is the largest modulus, in bits, for which bigmod opens a block
// faster than math/big. Beyond it bigmod's numbers move to the heap and its
// assembly no longer applies. BenchmarkPublicOperation measures both sides.
const bigmodBits = 2048

// Key is the public part of an RSA pair, or both parts. GenerateKey and ParseKey
// make keys; a zero Key has no parts, and every use of it fails. A Key does not
// change and may be copied. Only PublicBase64, PublicPEM and PrivatePEM return its
// numbers; no fmt verb, logger or encoder prints them.
type Key struct {
	// A function, because fmt does not call Format on an unexported field of
	// another struct: it prints such a field by reflection, pointers followed.
	// It cannot look into a function.
	get func() *parts
}

// p returns the parts of k, nil for a zero or nil Key.
func (k *Key) p() *parts {
	if k == nil || k.get == nil {
		return nil
	}
	return k.get()
}

func (p *parts) key() *Key { return &Key{func() *parts { return p }} }

type parts struct {
	public      *rsa.PublicKey
	private     private // nil if only the public part is known
	size        int     // bytes of the modulus
	n           []byte  // the modulus, size bytes, big-endian
	e           *big.Int
	modulus     *bigmod.Modulus // nil above bigmodBits
	spki        []byte
	fingerprint string
	publicOnly  *Key
}

// GenerateKey makes a pair with a modulus of that many bits and the public
// exponent 65537. bits is a multiple of 8 from MinBits to MaxBits, else
// ErrKey. 2048 is the size to choose; 1024 is for peers that demand it
// (PROTOCOL.md, Keys).
func GenerateKey(bits int) (*Key, error) {
	if err := checkBits(bits); err != nil {
		return nil, err
	}
	if bits%8 != 0 {
		return nil, fmt.Errorf("%w: %d bits are not a whole number of bytes; use 2048", ErrKey, bits)
	}
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return newKey(&rsa.PublicKey{N: private.N, E: private.E}, private)
}

// newKey checks the public numbers and computes what every use needs. private is nil or valid, and must not be used
// afterwards. public must not point into it, or it would keep all of it in memory.
func newKey(public *rsa.PublicKey, private *rsa.PrivateKey) (*Key, error) {
	if err := checkPublic(public.N, big.NewInt(int64(public.E))); err != nil {
		return nil, err
	}
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("%w: its public part does not encode", ErrKey)
	}
	digest := sha256.Sum256(spki)
	p := &parts{
		public:      public,
		size:        public.Size(),
		n:           public.N.FillBytes(make([]byte, public.Size())),
		e:           big.NewInt(int64(public.E)),
		spki:        spki,
		fingerprint: hex.EncodeToString(digest[:]),
	}
	if public.N.BitLen() <= bigmodBits {
		if p.modulus, err = bigmod.NewModulus(p.n); err != nil {
			return nil, fmt.Errorf("%w: its modulus does not work", ErrKey)
		}
	}
	p.publicOnly = p.key()
	if private == nil {
		return p.publicOnly, nil
	}
	part, err := newPrivate(p, private)
	if err != nil {
		return nil, err
	}
	both := *p
	both.private = part
	return both.key(), nil
}

// private is a private part, used by these two interfaces alone.
type private interface {
	crypto.Signer
	crypto.Decrypter
}

// sealPrivate returns the block of type 1 for a chunk, which must fit.
func (p *parts) sealPrivate(chunk []byte) ([]byte, error) {
	// Signing with hash 0 signs the bytes as they are, without the name of a
	// digest algorithm before them. That is block type 1.
	return p.private.Sign(nil, chunk, crypto.Hash(0))
}

// openPrivate returns the data of a block of type 2 or OAEP, which is below the modulus.
func (p *parts) openPrivate(padding Padding, block []byte) ([]byte, error) {
	if padding == OAEP {
		return p.private.Decrypt(nil, block, &rsa.OAEPOptions{Hash: crypto.SHA256})
	}
	return p.private.Decrypt(nil, block, nil)
}

func checkBits(bits int) error {
	if bits < MinBits || bits > MaxBits {
		return fmt.Errorf("%w: %d bits; use %d to %d, and 2048 where the peer leaves the choice",
			ErrKey, bits, MinBits, MaxBits)
	}
	return nil
}

// checkPublic returns an error unless n and e may be the public part of a key. It checks
// their size first, so that absurd numbers cost no computation.
func checkPublic(n, e *big.Int) error {
	if n.Sign() <= 0 {
		return fmt.Errorf("%w: its modulus is not positive", ErrKey)
	}
	if err := checkBits(n.BitLen()); err != nil {
		return err
	}
	if e.Cmp(big.NewInt(MinExponent)) < 0 || e.Cmp(big.NewInt(maxExponent)) > 0 || e.Bit(0) == 0 {
		return fmt.Errorf("%w: its public exponent must be odd, from %d to %d; make a new pair", ErrKey, MinExponent, maxExponent)
	}
	if n.Bit(0) == 0 {
		return fmt.Errorf("%w: its modulus is even", ErrKey)
	}
	return nil
}

func (k *Key) ready() bool { return k.p() != nil }

// Bits returns the length of the modulus in bits, 0 for a zero Key.
func (k *Key) Bits() int {
	if !k.ready() {
		return 0
	}
	return k.p().public.N.BitLen()
}

// Size returns the length of the modulus, and so of every block, in bytes.
func (k *Key) Size() int {
	if !k.ready() {
		return 0
	}
	return k.p().size
}

// HasPrivate reports whether k has both parts.
func (k *Key) HasPrivate() bool { return k.ready() && k.p().private != nil }

// Public returns the public part of k, which is k itself if it has no other.
func (k *Key) Public() *Key {
	if !k.ready() {
		return k
	}
	return k.p().publicOnly
}

// Equal reports whether k and other are of the same pair and have the same parts.
// Keys of one pair, whatever their parts, have the same Fingerprint.
func (k *Key) Equal(other *Key) bool {
	if !k.ready() || !other.ready() {
		return k.ready() == other.ready()
	}
	return k.p().public.Equal(other.p().public) && k.HasPrivate() == other.HasPrivate()
}

// Fingerprint returns the SHA-256 of the DER SubjectPublicKeyInfo in lower-case
// hexadecimal: 64 characters that name the pair and may be shown to anybody
// (PROTOCOL.md, Keys). A zero Key has none.
func (k *Key) Fingerprint() string {
	if !k.ready() {
		return ""
	}
	return k.p().fingerprint
}

// PublicBase64 returns the public part as it is exchanged: the SubjectPublicKeyInfo
// in one line of Base64 without armour (PROTOCOL.md, Keys).
func (k *Key) PublicBase64() string {
	if !k.ready() {
		return ""
	}
	return base64.StdEncoding.EncodeToString(k.p().spki)
}

// PublicPEM returns the public part as a PEM "PUBLIC KEY".
func (k *Key) PublicPEM() []byte {
	if !k.ready() {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: labelPublic, Bytes: k.p().spki})
}

// PrivatePEM returns both parts as a PEM "PRIVATE KEY" (PKCS#8, not encrypted). It fails with ErrDirection if k has no
// private part.
func (k *Key) PrivatePEM() ([]byte, error) {
	if !k.ready() {
		return nil, ErrKeyMissing
	}
	if k.p().private == nil {
		return nil, fmt.Errorf("%w: there is no private part to write", ErrDirection)
	}
	der, err := pkcs8(k.p().private)
	if err != nil {
		return nil, fmt.Errorf("%w: its private part does not encode", ErrKey)
	}
	return pem.EncodeToMemory(&pem.Block{Type: labelPrivate, Bytes: der}), nil
}

// String returns the size of k, its parts and the first 16 digits of its fingerprint, never its numbers.
func (k Key) String() string {
	p := k.p()
	if p == nil {
		return "RSA key (none)"
	}
	part := "public"
	if p.private != nil {
		part = "private"
	}
	return fmt.Sprintf("RSA-%d %s key, fingerprint %s…", p.public.N.BitLen(), part, p.fingerprint[:16])
}

// Format writes String for every verb and flag, so that no verb reaches the
// numbers.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalText is String, for every encoding that asks for text. Only ParseKey reads a Key.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
