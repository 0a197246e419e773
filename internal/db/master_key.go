package db

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// SealedTable is a table whose rows hold a data key that is sealed under the master key. An empty data key means that
// there is none.
type SealedTable struct{ Name, Key, DataKey string } // the table, its primary key, the column of the data key

// Record identifies the row whose secrets are sealed. It is additional data of every seal, so a sealed value opens
// only for its table, row, purpose and version.
type Record struct {
	Table, Row string
	Version    int64
}

func (r Record) about(purpose string) string {
	return r.Table + "\x00" + r.Row + "\x00" + purpose + "\x00" + strconv.FormatInt(r.Version, 10)
}

// MasterKey seals the data keys of records with AES-256-GCM. It never prints.
type MasterKey struct {
	key [32]byte
	gcm cipher.AEAD
}

// NewMasterKey returns the master key with these 32 random bytes.
func NewMasterKey(key [32]byte) *MasterKey { return &MasterKey{key, newGCM(key[:])} }

const wrapPurpose = "countersign data key"

// Wrap seals a data key.
func (k *MasterKey) Wrap(dataKey []byte) []byte { return sealGCM(k.gcm, dataKey, wrapPurpose) }

// Unwrap inverts Wrap. It returns errUnsealable if wrapped does not open.
func (k *MasterKey) Unwrap(wrapped []byte) ([]byte, error) {
	return openGCM(k.gcm, wrapped, wrapPurpose)
}

// Unseal inverts DB.Seal, for a database that is not open.
func (k *MasterKey) Unseal(r Record, purposes []string, dataKey []byte, sealed [][]byte) ([][]byte, error) {
	key, err := k.Unwrap(dataKey)
	if err != nil {
		return nil, fmt.Errorf("unwrapping a data key: %w", err)
	}
	if len(key) != 32 {
		return nil, fmt.Errorf("unwrapping a data key: %w", errUnsealable)
	}
	gcm := newGCM(key)
	var plain [][]byte
	for i, purpose := range purposes {
		p, err := openGCM(gcm, sealed[i], r.about(purpose))
		if err != nil {
			return nil, fmt.Errorf("opening %s of %s %s: %w", purpose, r.Table, r.Row, err)
		}
		plain = append(plain, p)
	}
	return plain, nil
}

// Fingerprint returns a name of the key that may be shown: the beginning of a SHA-256 of it.
func (k *MasterKey) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("countersign master key\x00"), k.key[:]...))
	return hex.EncodeToString(sum[:8])
}

// Format hides the key from every fmt verb.
func (*MasterKey) Format(f fmt.State, _ rune) { io.WriteString(f, "master key") }

// KeyOf returns the fingerprint of the master key under which everything in a database is sealed. It returns "" if
// nothing has been sealed yet.
func KeyOf(ctx context.Context, q Querier) (fingerprint string, err error) {
	var b []byte
	_, err = One(ctx, q, readMetaSQL, []any{metaKey}, &b)
	return string(b), err
}

// Opens returns a *MasterKeyError unless everything in the database is sealed under k.
func (k *MasterKey) Opens(ctx context.Context, q Querier) error {
	is, err := KeyOf(ctx, q)
	if err == nil && is != k.Fingerprint() {
		err = &MasterKeyError{Key: k.Fingerprint(), Database: is}
	}
	return err
}

// sealFormat is the first byte of everything sealed here.
const sealFormat = 1

// errUnsealable means that a sealed value does not open with the key.
var errUnsealable = errors.New("sealed value does not open")

// newGCM returns AES-256-GCM with random nonces, for a key of 32 bytes.
func newGCM(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the length is fixed
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return gcm
}

// sealGCM returns the format, a random nonce and the sealed text. A data key seals a few values, and a master key one
// value for each change of a record. Both are far too few for random nonces to repeat.
func sealGCM(gcm cipher.AEAD, plain []byte, about string) []byte {
	return gcm.Seal([]byte{sealFormat}, nil, plain, []byte(about))
}

// openGCM inverts sealGCM. It returns errUnsealable if sealed does not open.
func openGCM(gcm cipher.AEAD, sealed []byte, about string) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealFormat {
		return nil, errUnsealable
	}
	plain, err := gcm.Open(nil, nil, sealed[1:], []byte(about))
	if err != nil {
		return nil, errUnsealable
	}
	return plain, nil
}
