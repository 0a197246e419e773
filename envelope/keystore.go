package envelope

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
)

// The errors of a key store. All wrap ErrKeyStore.
var (
	// ErrNoKeyStores: this program was built without PKCS#11.
	ErrNoKeyStores = fmt.Errorf("%w: this program is built without PKCS#11; use one that is built with cgo and the tag pkcs11 (go build -tags pkcs11; docs/keys.md)", ErrKeyStore)

	// ErrPIN: the token did not take the PIN, or would lock after one more wrong one. The
	// same PIN is not tried again.
	ErrPIN = fmt.Errorf("%w: the PIN", ErrKeyStore)

	// ErrKeyNotInStore: the store works and does not have the key.
	ErrKeyNotInStore = fmt.Errorf("%w: it does not have the key", ErrKeyStore)
)

// KeyStoreConfig says which token of PKCS#11 has the private parts.
type KeyStoreConfig struct {
	// URI names the module, the token and the file of the PIN, as RFC 7512 says:
	// pkcs11:token=LABEL?module-path=/PATH/MODULE.so&pin-source=file:/PATH/PIN. Required.
	URI string
	// Sessions is how many operations run at once. 0: DefaultSessions.
	Sessions int
	// ReadFile reads the file of the PIN, as often as the token is connected. Nil: os.ReadFile.
	ReadFile func(path string) ([]byte, error)
}

// DefaultSessions is how many operations a KeyStore does at once.
const DefaultSessions = 16

// KeyStore makes pairs inside a token of PKCS#11 and uses them there: a private part that
// was made in it never leaves. OpenKeyStore makes it. A token that is away fails operations
// with ErrKeyStore and is connected again by one of the next, at most once a second and at
// least every 30 s. A process has one store for each module. It may be used from several
// goroutines at once.
type KeyStore struct{ d device }

// device is what a KeyStore needs of a token. Its errors wrap ErrKeyStore and have neither
// the PIN nor numbers of keys.
type device interface {
	// generate makes a pair under an identifier and gives its public numbers.
	generate(id []byte, label string, bits int) (n, e *big.Int, err error)
	// raise gives block^d mod n in as many bytes, with the pair of this identifier and modulus.
	raise(id, modulus, block []byte) ([]byte, error)
	// destroy removes a pair. One that is not there is no error.
	destroy(id, modulus []byte) error
	// generateSigner makes an Ed25519 pair under an identifier and gives its public part.
	generateSigner(id []byte, label string) (public []byte, err error)
	// sign gives the Ed25519 signature of text by the pair of this identifier.
	sign(id, text []byte) ([]byte, error)
	// destroySigner is destroy for an Ed25519 pair.
	destroySigner(id []byte) error
	// probe connects if the token is away, and says whether it answers.
	probe() error
	// close ends all sessions.
	close() error
}

// OpenKeyStore checks c, loads the module and logs in. A token that is away or refuses the PIN
// is no error here, since it may come back and get another PIN: KeyStore.Probe says so. A
// process that ended for it would be started again, and try the PIN until the token is locked.
// Errors wrap ErrKeyStore.
func OpenKeyStore(c KeyStoreConfig) (*KeyStore, error) {
	uri, err := parseTokenURI(c.URI)
	if err != nil {
		return nil, err
	}
	if c.Sessions == 0 {
		c.Sessions = DefaultSessions
	}
	if c.Sessions < 1 || c.Sessions > 1024 {
		return nil, fmt.Errorf("%w: %d sessions: use 1 to 1024", ErrKeyStore, c.Sessions)
	}
	if uri.read = c.ReadFile; uri.read == nil {
		uri.read = os.ReadFile
	}
	d, err := openDevice(uri, c.Sessions)
	if err != nil {
		return nil, err
	}
	return &KeyStore{d}, nil
}

// CheckKeyStore is what OpenKeyStore checks without loading anything.
func CheckKeyStore(uri string) error {
	_, err := parseTokenURI(uri)
	return err
}

// Probe says whether the token answers, and connects it if it was away.
func (s *KeyStore) Probe() error { return s.d.probe() }

// Close ends the sessions of s.
func (s *KeyStore) Close() error { return s.d.close() }

// Generate makes a pair inside the token, as GenerateKey does here. label is for people who
// look into the token, in ASCII.
func (s *KeyStore) Generate(bits int, label string) (*Key, error) {
	if err := checkBits(bits); err != nil {
		return nil, err
	}
	if bits%8 != 0 {
		return nil, fmt.Errorf("%w: %d bits are not a whole number of bytes; use 2048", ErrKeySize, bits)
	}
	id := newObjectID()
	n, e, err := s.d.generate(id, label, bits)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	// The token's word is checked like that of a file.
	if err := checkPublic(n, e); err != nil {
		return nil, fmt.Errorf("making a key: the token made one that is refused: %w", err)
	}
	if n.BitLen() != bits {
		return nil, fmt.Errorf("making a key: %w: the token made one of %d bits, not %d", ErrKeyStore, n.BitLen(), bits)
	}
	public, err := newKey(&rsa.PublicKey{N: n, E: int(e.Int64())}, nil)
	if err != nil {
		return nil, err
	}
	return public.p().with(&storedPart{id: id, parts: public.p(), store: s}), nil
}

// Destroy removes the private part of a key of ParseStoredKey from the token. It does nothing
// for a key that is not in a key store, or not there any more.
func (s *KeyStore) Destroy(k *Key) error {
	part := k.stored()
	if part == nil {
		return nil
	}
	return s.d.destroy(part.id, part.parts.n)
}

// storedPart is a private part in a key store.
type storedPart struct {
	id    []byte
	parts *parts
	store *KeyStore // nil: which one is not known
}

// stored gives the part of k that is in a key store; nil: k has none.
func (k *Key) stored() *storedPart {
	if !k.ready() {
		return nil
	}
	part, _ := k.p().private.(*storedPart)
	return part
}

// InKeyStore gives the identifier, in hexadecimal, under which a key store has the private
// part of k. Empty: it is not in a key store.
func (k *Key) InKeyStore() string {
	if part := k.stored(); part != nil {
		return hex.EncodeToString(part.id)
	}
	return ""
}

// In gives k with s as the store of its private part. A key that is not in a key store stays
// as it is.
func (k *Key) In(s *KeyStore) *Key {
	part := k.stored()
	if part == nil {
		return k
	}
	return part.parts.with(&storedPart{id: part.id, parts: part.parts, store: s})
}

func (p *storedPart) raise(block []byte) ([]byte, error) {
	if p.store == nil {
		return nil, fmt.Errorf("%w: the private part %x is in one, and none is given (--key-store)", ErrKeyStore, p.id)
	}
	out, err := p.store.d.raise(p.id, p.parts.n, block)
	if err == nil && len(out) != len(block) {
		err = fmt.Errorf("%w: the token gave %d bytes, not %d", ErrKeyStore, len(out), len(block))
	}
	return out, err
}

// seal makes a block of type 1 of a chunk that fits. None leaves that the public part does
// not open to what was sealed: a spoiled block could give the private part away.
func (p *storedPart) seal(chunk []byte) ([]byte, error) {
	block, err := p.raise(type1Block(p.parts.size, chunk))
	if err != nil {
		return nil, err
	}
	if !opensTo(newPublicOperation(p.parts), block, chunk) {
		return nil, fmt.Errorf("%w: the public part does not open what the token made", ErrKeyStore)
	}
	return block, nil
}

// open gives the data of a block of type 2 or OAEP, which is below the modulus. The padding
// is looked at here and not by the token, because tokens answer a bad one differently.
func (p *storedPart) open(padding Padding, block []byte) ([]byte, error) {
	encoded, err := p.raise(block)
	if err != nil {
		return nil, err
	}
	return unpadded(padding, encoded)
}

func (p *storedPart) pkcs8() ([]byte, error) {
	return nil, fmt.Errorf("%w: the private part is in it and never leaves it", ErrKeyStore)
}

// labelStored is the PEM label of a key whose private part is in a key store: the
// SubjectPublicKeyInfo, and the identifier in a header. ParseKey refuses it, so nobody who
// hands in a key can name one that is another's.
const (
	labelStored = "COUNTERSIGN STORED KEY"
	headerID    = "Id"
)

func storedPEM(label string, id, spki []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: label, Headers: map[string]string{headerID: hex.EncodeToString(id)}, Bytes: spki})
}

func isStored(label string, data []byte) bool {
	return bytes.HasPrefix(data, []byte(pemStart+label+"-----"))
}

// parseStored inverts storedPEM. Errors wrap kind. Whether spki is a public part, the caller says.
func parseStored(label string, data []byte, kind error) (id, spki []byte, err error) {
	block, rest := pem.Decode(data)
	if block == nil || len(trimSpace(rest)) > 0 || block.Type != label {
		return nil, nil, fmt.Errorf("%w: the PEM of a key in a key store is damaged", kind)
	}
	id, err = hex.DecodeString(block.Headers[headerID])
	if err != nil || len(id) == 0 || len(id) > 64 {
		return nil, nil, fmt.Errorf("%w: the PEM of a key in a key store has no identifier", kind)
	}
	return id, block.Bytes, nil
}

// StoredPEM is k as ParseStoredKey reads it: what a database keeps, sealed. That is
// PrivatePEM or PublicPEM, and for a private part in a key store the public part and the
// identifier under which the store has the other.
func (k *Key) StoredPEM() ([]byte, error) {
	switch part := k.stored(); {
	case part != nil:
		return storedPEM(labelStored, part.id, k.p().spki), nil
	case k.HasPrivate():
		return k.PrivatePEM()
	case k.ready():
		return k.PublicPEM(), nil
	}
	return nil, ErrKeyMissing
}

// ParseStoredKey reads what StoredPEM wrote. A private part in a key store can be used after
// Key.In. Take only text that this program kept: it may name any key of the store.
func ParseStoredKey(data []byte) (*Key, error) {
	if !isStored(labelStored, data) {
		return ParseKey(data)
	}
	id, spki, err := parseStored(labelStored, data, ErrKeyFormat)
	if err != nil {
		return nil, err
	}
	if _, err := x509.ParsePKIXPublicKey(spki); err != nil {
		return nil, fmt.Errorf("%w: the PEM of a key in a key store has no public part", ErrKeyFormat)
	}
	public, err := parseDER(spki)
	if err != nil {
		return nil, err
	}
	if public.HasPrivate() {
		return nil, fmt.Errorf("%w: the PEM of a key in a key store has a private part", ErrKeyFormat)
	}
	return public.p().with(&storedPart{id: id, parts: public.p()}), nil
}

// storeError wraps what a module said.
func storeError(what string, err error) error {
	if errors.Is(err, ErrKeyStore) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrKeyStore, what, err)
}
