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
)

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

// Fingerprint returns a name of the key that may be shown: the beginning of a SHA-256 of it.
func (k *MasterKey) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("countersign master key\x00"), k.key[:]...))
	return hex.EncodeToString(sum[:8])
}

// Format hides the key from every fmt verb.
func (*MasterKey) Format(f fmt.State, _ rune) { io.WriteString(f, "master key") }

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

const (
	readMetaSQL  = `SELECT value FROM meta WHERE name = $1`
	writeMetaSQL = `INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`

	// metaKey is the row of meta with the fingerprint of the master key. With it a wrong key fails at the start, and
	// not at the first secret.
	metaKey = "master_key"
)

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

// MasterKey returns the key that seals.
func (d *DB) MasterKey() *MasterKey { return d.key }

// setKey sets the master key, and stores its fingerprint in a new database. If key is nil, it calls find for the key.
func (d *DB) setKey(ctx context.Context, key *MasterKey, find func(newDatabase bool) (*MasterKey, error)) error {
	is, err := KeyOf(ctx, d)
	if err != nil {
		return err
	}
	if key == nil {
		if key, err = find(is == ""); err != nil {
			return err
		}
	}
	d.key = key
	if is != "" {
		return key.Opens(ctx, d)
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		if _, err := t.Exec(ctx, writeMetaSQL, metaKey, []byte(key.Fingerprint())); err != nil {
			return err
		}
		return key.Opens(ctx, t) // another node may have been first
	})
}
