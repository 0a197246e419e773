package envelope

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
)

// SigningKey is the Ed25519 pair of one end of the signed link, or its public part
// (PROTOCOL.md, L1). GenerateSigningKey and ParseSigningKey make it. The zero value has
// no key: it signs nothing and verifies nothing. No fmt verb, logger or encoder prints
// the private part.
type SigningKey struct{ p func() *signingParts }

// signingParts are reached through a function, because fmt prints the unexported fields
// of a struct but cannot look into a function.
type signingParts struct {
	public      ed25519.PublicKey
	private     crypto.Signer // nil: only the public part is known
	spki        []byte
	fingerprint string
}

// GenerateSigningKey makes a pair.
func GenerateSigningKey() *SigningKey {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return newSigningKey(public, private)
}

func newSigningKey(public ed25519.PublicKey, private crypto.Signer) *SigningKey {
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		panic(err) // an Ed25519 key always encodes
	}
	digest := sha256.Sum256(spki)
	p := &signingParts{public: public, private: private, spki: spki, fingerprint: hex.EncodeToString(digest[:])}
	return &SigningKey{func() *signingParts { return p }}
}

func (k *SigningKey) parts() *signingParts {
	if k == nil || k.p == nil {
		return new(signingParts)
	}
	return k.p()
}

// ParseSigningKey reads one Ed25519 key: the public part as the Base64 of its DER
// SubjectPublicKeyInfo or as a PEM "PUBLIC KEY", a pair as a PEM "PRIVATE KEY" (PKCS#8,
// not encrypted). White space around it is ignored. Errors wrap ErrSigningKey.
func ParseSigningKey(data []byte) (*SigningKey, error) {
	der, label, err := keyDER(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSigningKey, err)
	}
	if label == labelPrivate {
		key, err := x509.ParsePKCS8PrivateKey(der)
		pair, ok := key.(ed25519.PrivateKey)
		if err != nil || !ok {
			return nil, fmt.Errorf("%w: the PEM holds another private key; make a pair with: openssl genpkey -algorithm ed25519",
				ErrSigningKey)
		}
		return newSigningKey(pair.Public().(ed25519.PublicKey), pair), nil
	}
	key, err := x509.ParsePKIXPublicKey(der)
	public, ok := key.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: it is not a SubjectPublicKeyInfo of Ed25519; the other end prints the right text",
			ErrSigningKey)
	}
	k := newSigningKey(public, nil)
	if !bytes.Equal(k.parts().spki, der) {
		return nil, fmt.Errorf("%w: its DER is not in the one allowed form", ErrSigningKey) // two texts would be one key
	}
	return k, nil
}

// ParseSigningKeys reads the public parts that are valid for one end: one, or two with a comma between them while it
// replaces its key. It returns nil for an empty text.
func ParseSigningKeys(text string) (keys []*SigningKey, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		k, err := ParseSigningKey([]byte(one))
		switch {
		case err != nil:
			return nil, err
		case k.HasPrivate():
			return nil, fmt.Errorf("%w for the other end: it is a private key, which its owner keeps; make a new pair",
				ErrSigningKey)
		}
		keys = append(keys, k)
	}
	if len(keys) > 2 {
		return nil, errors.New("there are more than two keys: give the one that ends and the new one")
	}
	return keys, nil
}

// HasPrivate reports whether k has both parts.
func (k *SigningKey) HasPrivate() bool { return k.parts().private != nil }

// Public returns the public part of k.
func (k *SigningKey) Public() *SigningKey {
	p := k.parts()
	if p.public == nil {
		return &SigningKey{}
	}
	return newSigningKey(p.public, nil)
}

// Fingerprint returns the SHA-256 of the DER SubjectPublicKeyInfo in lower-case hexadecimal,
// which names the key in every signature (PROTOCOL.md, K7 and L1). Empty without a key.
func (k *SigningKey) Fingerprint() string { return k.parts().fingerprint }

// PublicBase64 returns the public part as it is handed over: the SubjectPublicKeyInfo in one
// line of Base64 without armour.
func (k *SigningKey) PublicBase64() string { return base64.StdEncoding.EncodeToString(k.parts().spki) }

// Sign returns the Ed25519 signature (RFC 8032) of text, 64 bytes. It fails with ErrSigningKey
// if k has no private part. SignRequest and SignResponse sign messages of the link.
func (k *SigningKey) Sign(text []byte) ([]byte, error) {
	if !k.HasPrivate() {
		return nil, fmt.Errorf("%w with a private part", ErrSigningKey)
	}
	return k.parts().private.Sign(nil, text, crypto.Hash(0))
}

// PrivatePEM returns the pair as a PEM "PRIVATE KEY" (PKCS#8, not encrypted). It fails with
// ErrSigningKey if k has no private part.
func (k *SigningKey) PrivatePEM() ([]byte, error) {
	if !k.HasPrivate() {
		return nil, fmt.Errorf("%w with a private part", ErrSigningKey)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k.parts().private)
	if err != nil {
		return nil, fmt.Errorf("%w: it does not encode", ErrSigningKey)
	}
	return pem.EncodeToMemory(&pem.Block{Type: labelPrivate, Bytes: der}), nil
}

// String returns the part that k has and the first 16 digits of its fingerprint.
func (k SigningKey) String() string {
	p := k.parts()
	switch {
	case p.public == nil:
		return "Ed25519 key (none)"
	case !k.HasPrivate():
		return fmt.Sprintf("Ed25519 public key, fingerprint %s…", p.fingerprint[:16])
	}
	return fmt.Sprintf("Ed25519 private key, fingerprint %s…", p.fingerprint[:16])
}

// Format writes String for every verb.
func (k SigningKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalText is String, for every encoder.
func (k SigningKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
