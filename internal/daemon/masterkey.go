package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"countersign/internal/db"
)

// ErrNoMasterKey means that the master key with which the database was sealed is missing.
var ErrNoMasterKey = errors.New("the master key of the database is missing")

// nextKeyFile holds the new key of a data directory until it replaces the old one.
const nextKeyFile = MasterKeyFile + ".next"

// ParseMasterKey reads a master key of 64 hexadecimal digits.
func ParseMasterKey(text string) (*db.MasterKey, error) {
	var key [32]byte
	b, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != len(key) {
		return nil, errors.New("does not hold 64 hexadecimal digits")
	}
	return db.NewMasterKey([32]byte(b)), nil
}

// masterKey returns the master key that was given, or the data directory's.
func (s Storage) masterKey() (*db.MasterKey, error) {
	if s.Keys != nil {
		return s.Keys, nil
	}
	key, err := s.readKey(MasterKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %s", ErrNoMasterKey, s.file(MasterKeyFile))
	}
	return key, err
}

// firstMasterKey returns the master key if there was none when the process started. It makes one only for a new
// database: no other key opens a sealed one.
func (s Storage) firstMasterKey(newDatabase bool) (*db.MasterKey, error) {
	if newDatabase {
		if err := s.makeKey(MasterKeyFile); err != nil {
			return nil, err
		}
	}
	return s.masterKey()
}

// readKey reads a key file of the data directory.
func (s Storage) readKey(name string) (*db.MasterKey, error) {
	text, err := readSecret(s.file(name))
	if err != nil {
		return nil, err
	}
	key, err := ParseMasterKey(text)
	if err != nil {
		err = fmt.Errorf("%s %w", s.file(name), err)
	}
	return key, err
}

// makeKey creates a key file of the data directory if it does not exist.
func (s Storage) makeKey(name string) error {
	var fresh [32]byte
	_, _ = rand.Read(fresh[:]) // never fails
	_, err := keepSecret(s.file(name), hex.EncodeToString(fresh[:]))
	return err
}

// oldKeyFile returns the name of the file of a replaced master key.
func (s Storage) oldKeyFile(fingerprint string) string {
	return s.file(MasterKeyFile) + "." + fingerprint
}

// explainKey adds to an error about the data directory's master key what to do, if another file there holds the
// database's key.
func (s Storage) explainKey(err error) error {
	var wrong *db.MasterKeyError
	if s.Keys != nil || !errors.As(err, &wrong) {
		return err
	}
	if next, nextErr := s.readKey(nextKeyFile); nextErr == nil && next.Fingerprint() == wrong.Database {
		return fmt.Errorf("%w: rekey was interrupted after it sealed everything under the key in %s: run rekey again", err,
			s.file(nextKeyFile))
	}
	old := s.oldKeyFile(wrong.Database)
	if _, missing := os.Lstat(old); missing == nil {
		return fmt.Errorf("%w: %s has that key, from before a rekey: keep master.key as %s, and put that file in its place",
			err, old, s.oldKeyFile(wrong.Key))
	}
	return err
}
