package db

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// KeyWrapper seals the data key of a record. NewMasterKey makes one; a key
// management service could be another.
type KeyWrapper interface {
	Wrap(ctx context.Context, dataKey []byte) ([]byte, error)
	Unwrap(ctx context.Context, wrapped []byte) ([]byte, error)
}

// NewMasterKey gives a KeyWrapper that seals with AES-256-GCM under key.
func NewMasterKey(key [32]byte) KeyWrapper { return masterKey{newGCM(key[:])} }

type masterKey struct{ gcm cipher.AEAD }

const wrapPurpose = "countersign data key"

func (k masterKey) Wrap(_ context.Context, dataKey []byte) ([]byte, error) {
	return sealGCM(k.gcm, dataKey, wrapPurpose), nil
}

func (k masterKey) Unwrap(_ context.Context, wrapped []byte) ([]byte, error) {
	return openGCM(k.gcm, wrapped, wrapPurpose)
}

// Format hides the key from every fmt verb.
func (masterKey) Format(f fmt.State, _ rune) { io.WriteString(f, "master key") }

// sealFormat is the first byte of everything sealed here.
const sealFormat = 1

var errSealBroken = errors.New("sealed value does not open")

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

// sealGCM gives the format, a random nonce and the sealed text. A data key seals a
// few values, a master key one value for each change of a record. Both are far too
// few for random nonces to repeat.
func sealGCM(gcm cipher.AEAD, plain []byte, about string) []byte {
	return gcm.Seal([]byte{sealFormat}, nil, plain, []byte(about))
}

func openGCM(gcm cipher.AEAD, sealed []byte, about string) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealFormat {
		return nil, errSealBroken
	}
	plain, err := gcm.Open(nil, nil, sealed[1:], []byte(about))
	if err != nil {
		return nil, errSealBroken
	}
	return plain, nil
}

// Record names the row whose secrets are sealed. It is additional data of every
// seal, so that a sealed value opens only for its table, row, purpose and version.
type Record struct {
	Table, Row string
	Version    int64
}

func (r Record) about(purpose string) string {
	return r.Table + "\x00" + r.Row + "\x00" + purpose + "\x00" + strconv.FormatInt(r.Version, 10)
}

// Seal seals the secrets of one record, each for a purpose, under a new data key,
// and gives that key sealed under the master key. Empty secrets are sealed too, so
// that the database does not show which records have one.
func (d *DB) Seal(ctx context.Context, r Record, purposes []string, plain [][]byte) (dataKey []byte, sealed [][]byte, err error) {
	key := make([]byte, 32)
	rand.Read(key)
	if dataKey, err = d.keys.Wrap(ctx, key); err != nil {
		return nil, nil, fmt.Errorf("wrapping a data key: %w", err)
	}
	gcm := newGCM(key)
	for i, purpose := range purposes {
		sealed = append(sealed, sealGCM(gcm, plain[i], r.about(purpose)))
	}
	return dataKey, sealed, nil
}

// Unseal inverts Seal.
func (d *DB) Unseal(ctx context.Context, r Record, purposes []string, dataKey []byte, sealed [][]byte) ([][]byte, error) {
	key, err := d.keys.Unwrap(ctx, dataKey)
	if err != nil {
		return nil, fmt.Errorf("unwrapping a data key: %w", err)
	}
	if len(key) != 32 {
		return nil, fmt.Errorf("unwrapping a data key: %w", errSealBroken)
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
