package db

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// MasterKey seals the data keys of records, with AES-256-GCM. It does not print.
type MasterKey struct {
	key [32]byte
	gcm cipher.AEAD
}

// NewMasterKey returns the master key of 32 random bytes.
func NewMasterKey(key [32]byte) *MasterKey { return &MasterKey{key, newGCM(key[:])} }

const wrapPurpose = "countersign data key"

// Wrap seals a data key.
func (k *MasterKey) Wrap(dataKey []byte) []byte { return sealGCM(k.gcm, dataKey, wrapPurpose) }

// Unwrap inverts Wrap. The error is errUnsealable.
func (k *MasterKey) Unwrap(wrapped []byte) ([]byte, error) {
	return openGCM(k.gcm, wrapped, wrapPurpose)
}

// Fingerprint names the key: the beginning of a SHA-256 of it, which may be shown.
func (k *MasterKey) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("countersign master key\x00"), k.key[:]...))
	return hex.EncodeToString(sum[:8])
}

// Format hides the key from every fmt verb.
func (*MasterKey) Format(f fmt.State, _ rune) { io.WriteString(f, "master key") }

// sealFormat is the first byte of everything sealed here.
const sealFormat = 1

// errUnsealable means that a sealed value does not open with a key.
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

// sealGCM returns the format, a random nonce and the sealed text. A data key seals a
// few values, a master key one value for each change of a record. Both are far too
// few for random nonces to repeat.
func sealGCM(gcm cipher.AEAD, plain []byte, about string) []byte {
	return gcm.Seal([]byte{sealFormat}, nil, plain, []byte(about))
}

// openGCM inverts sealGCM. The error is errUnsealable.
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

// MasterKeyRow is what a database says of a master key. Times are milliseconds since 1970 UTC. It
// holds no secret that opens without a master key.
type MasterKeyRow struct {
	Number      int64
	Fingerprint string
	Since       int64  // when it began to seal
	Replaced    int64  // when the next key began to seal; 0: this one seals
	Rewrapped   int64  // since when no value is sealed under it; 0: some may be
	Ended       int64  // since when it does not open this database; 0: it does
	Next        []byte // the next key, sealed under this one; empty before that and since it ended
	Self        []byte // this key, sealed under the next one
}

// Waits reports whether values may still be sealed under the key, which was replaced.
func (r MasterKeyRow) Waits() bool { return r.Replaced != 0 && r.Rewrapped == 0 }

// MasterKeyChain opens the keys stored in rows with given, in order.
func MasterKeyChain(given *MasterKey, rows []MasterKeyRow) ([]*MasterKey, error) {
	if len(rows) == 0 {
		return []*MasterKey{given}, nil
	}
	at := slices.IndexFunc(rows, func(r MasterKeyRow) bool { return r.Fingerprint == given.Fingerprint() })
	last := rows[len(rows)-1]
	switch {
	case at < 0:
		return nil, fmt.Errorf("%w: it has the fingerprint %s, the key of the database %s", ErrMasterKey, given.Fingerprint(), last.Fingerprint)
	case rows[at].Ended != 0:
		return nil, fmt.Errorf("%w: the key %s was replaced by %s and ended on %s", ErrMasterKey, given.Fingerprint(), last.Fingerprint, time.UnixMilli(rows[at].Ended).UTC().Format(time.RFC3339))
	}
	keys := make([]*MasterKey, len(rows))
	keys[at] = given
	open := func(by *MasterKey, sealed []byte, purpose string, older, newer int) (*MasterKey, error) {
		plain, err := openGCM(by.gcm, sealed, aboutKey(purpose, rows[older].Fingerprint, rows[newer].Fingerprint))
		if err != nil || len(plain) != 32 {
			return nil, fmt.Errorf("%w: what master_keys holds of key %s is damaged", ErrMasterKey, rows[older].Fingerprint)
		}
		return NewMasterKey([32]byte(plain)), nil
	}
	var err error
	for i := at; i+1 < len(rows) && err == nil; i++ {
		keys[i+1], err = open(keys[i], rows[i].Next, "next", i, i+1)
	}
	for i := at; i > 0 && err == nil; i-- {
		keys[i-1], err = open(keys[i], rows[i-1].Self, "self", i-1, i)
	}
	return keys, err
}

// aboutKey is what a master key that is sealed under another is bound to.
func aboutKey(purpose, older, newer string) string {
	return "countersign master key\x00" + purpose + "\x00" + older + "\x00" + newer
}

// Next is a master key that replaces another. It holds no key that can be read without
// one of the two, so it may lie in a file.
type Next struct {
	Old  string `json:"old"` // fingerprints
	New  string `json:"new"`
	Next []byte `json:"next"` // the new key, sealed under the old one
	Self []byte `json:"self"` // the old key, sealed under the new one
}

// NextMasterKey prepares the replacement of old.
func NextMasterKey(old, fresh *MasterKey) Next {
	n := Next{Old: old.Fingerprint(), New: fresh.Fingerprint()}
	n.Next = sealGCM(old.gcm, fresh.key[:], aboutKey("next", n.Old, n.New))
	n.Self = sealGCM(fresh.gcm, old.key[:], aboutKey("self", n.Old, n.New))
	return n
}
