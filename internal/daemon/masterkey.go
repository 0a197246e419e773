package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"countersign/internal/db"
)

// ErrNoMasterKey means that the master key with which the database was sealed is missing.
var ErrNoMasterKey = errors.New("the master key of the database is missing")

// ParseMasterKey reads a master key of 64 hexadecimal digits.
func ParseMasterKey(text string) (*db.MasterKey, error) {
	var key [32]byte
	b, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != len(key) {
		return nil, errors.New("does not hold 64 hexadecimal digits")
	}
	return db.NewMasterKey([32]byte(b)), nil
}

// keyFiles matches the names of the data directory's key files: master.key, which the first start makes, and those that
// rekey makes, with the fingerprint of the key.
var keyFiles = regexp.MustCompile(`^master\.key(\.[0-9a-f]{16})?$`)

// masterKeys returns the names of the key files.
func (s Storage) masterKeys() (names []string) {
	list, _ := os.ReadDir(s.Dir) // no directory has no keys
	for _, e := range list {
		if keyFiles.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// masterKey returns the master key that was given, or the one of the data directory with a fingerprint. An empty
// fingerprint stands for any. A database names the key that opens it, so after a rekey, or with a backup from before
// one, nobody need put files in their places.
func (s Storage) masterKey(fingerprint string) (key *db.MasterKey, err error) {
	if s.Keys != nil {
		return s.Keys, nil
	}
	err = fmt.Errorf("%w: %s", ErrNoMasterKey, s.file(MasterKeyFile))
	for _, name := range s.masterKeys() {
		switch key, err = s.readKey(name); {
		case err != nil:
			return nil, err
		case fingerprint == "" || key.Fingerprint() == fingerprint:
			return key, nil
		}
		err = &db.MasterKeyError{Key: key.Fingerprint(), Database: fingerprint}
	}
	return nil, err
}

// keyOf returns the master key that opens a database.
func (s Storage) keyOf(ctx context.Context, l db.Seen) (*db.MasterKey, error) {
	is := ""
	if l.Schema > 0 {
		var err error
		if is, err = db.KeyOf(ctx, l); err != nil {
			return nil, err
		}
	}
	key, err := s.masterKey(is)
	if err == nil && is != "" {
		err = key.Opens(ctx, l)
	}
	return key, err
}

// makeMasterKey is masterKey that makes one for a new database: no other key opens a sealed one.
func (s Storage) makeMasterKey(fingerprint string) (*db.MasterKey, error) {
	if key, err := s.masterKey(fingerprint); fingerprint != "" || !errors.Is(err, ErrNoMasterKey) {
		return key, err
	}
	_, hex := newMasterKey()
	if _, err := keepSecret(s.file(MasterKeyFile), hex); err != nil {
		return nil, err
	}
	return s.masterKey("") // another process may have been faster
}

// newMasterKey makes a key, and returns its digits too.
func newMasterKey() (*db.MasterKey, string) {
	var fresh [32]byte
	_, _ = rand.Read(fresh[:]) // never fails
	return db.NewMasterKey(fresh), hex.EncodeToString(fresh[:])
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
