package envelope

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
)

// ErrNoEd25519: the token cannot make or use Ed25519 keys (CKM_EDDSA). It wraps ErrKeyStore.
var ErrNoEd25519 = fmt.Errorf("%w: the token has no Ed25519 (CKM_EDDSA)", ErrKeyStore)

// storedSigner is the private part of a signing key in a key store.
type storedSigner struct {
	id    []byte
	store *KeyStore // nil: which one is not known
}

// GenerateSigningKey makes a pair inside the token, as GenerateSigningKey does here. It fails
// with ErrNoEd25519 where the token has no such keys. label is as in Generate.
func (s *KeyStore) GenerateSigningKey(label string) (*SigningKey, error) {
	id := newObjectID()
	public, err := s.d.generateSigner(id, label)
	if err != nil {
		return nil, fmt.Errorf("making a signing key: %w", err)
	}
	if len(public) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("making a signing key: %w: the token gave a public part of %d bytes", ErrKeyStore, len(public))
	}
	k := newSigningKey(public, nil).stored(&storedSigner{id, s})
	if _, err := k.Sign([]byte("countersign: is the public part of this pair")); err != nil {
		return nil, fmt.Errorf("making a signing key: %w", err)
	}
	return k, nil
}

// NewSigningKey is GenerateSigningKey of the token, or of this process if s is nil or its token
// has no Ed25519.
func (s *KeyStore) NewSigningKey(label string) (*SigningKey, error) {
	if s != nil {
		if k, err := s.GenerateSigningKey(label); !errors.Is(err, ErrNoEd25519) {
			return k, err
		}
	}
	return GenerateSigningKey(), nil
}

// DestroySigningKey is Destroy for a signing key.
func (s *KeyStore) DestroySigningKey(k *SigningKey) error {
	if part := k.parts().store; part != nil {
		return s.d.destroySigner(part.id)
	}
	return nil
}

// Sign gives the Ed25519 signature (RFC 8032) of text, 64 bytes. It fails with ErrSigningKey
// if k has no private part, and with ErrKeyStore if the key store that has it does not sign.
// SignRequest and SignResponse sign messages of the link.
func (k *SigningKey) Sign(text []byte) ([]byte, error) {
	p := k.parts()
	switch {
	case p.private != nil:
		return ed25519.Sign(p.private, text), nil
	case p.store == nil:
		return nil, fmt.Errorf("%w with a private part", ErrSigningKey)
	case p.store.store == nil:
		return nil, fmt.Errorf("%w: the private part %x is in one, and none is given (--key-store)", ErrKeyStore, p.store.id)
	}
	signature, err := p.store.store.d.sign(p.store.id, text)
	if err != nil {
		return nil, err
	}
	// A spoiled signature could give the private part away, and one of another pair is of no use.
	if !ed25519.Verify(p.public, text, signature) {
		return nil, fmt.Errorf("%w: the public part does not verify what the token signed", ErrKeyStore)
	}
	return signature, nil
}

func (k *SigningKey) stored(part *storedSigner) *SigningKey {
	p := *k.parts()
	p.private, p.store = nil, part
	return &SigningKey{func() *signingParts { return &p }}
}

// In gives k with s as the store of its private part. A key that is not in a key store stays
// as it is.
func (k *SigningKey) In(s *KeyStore) *SigningKey {
	part := k.parts().store
	if part == nil {
		return k
	}
	return k.stored(&storedSigner{part.id, s})
}

// InKeyStore gives the identifier, in hexadecimal, under which a key store has the private
// part of k. Empty: it is not in a key store.
func (k *SigningKey) InKeyStore() string {
	if part := k.parts().store; part != nil {
		return hex.EncodeToString(part.id)
	}
	return ""
}

// labelStoredSigner is labelStored for a signing key.
const labelStoredSigner = "COUNTERSIGN STORED SIGNING KEY"

// StoredPEM is k as ParseStoredSigningKey reads it: PrivatePEM, or for a private part in a key
// store the public part and the identifier of the other. It fails if k has no private part.
func (k *SigningKey) StoredPEM() ([]byte, error) {
	if p := k.parts(); p.store != nil {
		return storedPEM(labelStoredSigner, p.store.id, p.spki), nil
	}
	return k.PrivatePEM()
}

// ParseStoredSigningKey reads what StoredPEM wrote. A private part in a key store can be used
// after SigningKey.In. Take only text that this program kept.
func ParseStoredSigningKey(data []byte) (*SigningKey, error) {
	if !isStored(labelStoredSigner, data) {
		return ParseSigningKey(data)
	}
	id, spki, err := parseStored(labelStoredSigner, data, ErrSigningKey)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKIXPublicKey(spki)
	public, ok := key.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: the PEM of a key in a key store has no public part", ErrSigningKey)
	}
	return newSigningKey(public, nil).stored(&storedSigner{id: id}), nil
}
