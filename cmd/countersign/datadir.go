package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// dataDir is the directory in which a daemon keeps what it makes on first
// start: the database, the master key and the first token.
type dataDir string

const (
	databaseFile  = "countersign.db"
	masterKeyFile = "master.key"
	tokenFile     = "admin.token"
)

// openDataDir makes the directory where it is missing, for its owner alone.
func openDataDir(path string) (dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("data directory: %s is not a directory", path)
	}
	return dataDir(path), nil
}

func (d dataDir) file(name string) string { return filepath.Join(string(d), name) }

// masterKey gives the key that seals secrets at rest: the one in text (64
// hexadecimal digits, from the environment) if that is set, else the one in the
// file, which is made on first start.
func (d dataDir) masterKey(text string) (key [32]byte, err error) {
	source := "COUNTERSIGN_MASTER_KEY"
	if text == "" {
		path := d.file(masterKeyFile)
		source = path
		_, _ = rand.Read(key[:]) // never fails
		text, err = keepSecret(path, hex.EncodeToString(key[:]))
		if err != nil {
			return key, fmt.Errorf("master key: %w", err)
		}
	}
	b, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != len(key) {
		return [32]byte{}, fmt.Errorf("master key: %s does not hold 64 hexadecimal digits", source)
	}
	copy(key[:], b)
	return key, nil
}

// keepSecret gives what the file at path holds, and makes it with fresh in it
// where there is none. A file that others may read is refused: the secret in it
// has to be taken for known.
func keepSecret(path, fresh string) (string, error) {
	err := writeNew(filepath.Dir(path), []newFile{{filepath.Base(path), []byte(fresh + "\n"), 0o600}})
	switch {
	case err == nil:
		return fresh, syncDir(filepath.Dir(path))
	case !errors.Is(err, fs.ErrExist):
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", &hintedError{fmt.Errorf("%s can be read by others (mode %04o)", path, info.Mode().Perm()),
			[]string{fmt.Sprintf("chmod 600 %s, and replace the secret if they may have read it.", path)}}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if len(b) > 4096 {
		return "", fmt.Errorf("%s is too long for a secret", path)
	}
	return strings.TrimSpace(string(b)), nil
}

// syncDir makes a new directory entry durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
