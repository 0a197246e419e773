package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign/internal/daemon"
)

// Session is that of a person who signed in from the command line, as a file of the person's
// keeps it.
type Session struct {
	API string `json:"api"`
	// Certificate is that of daemon.Address: a file in some data directory must not choose which
	// certificate is sent the secret.
	Certificate string    `json:"certificate,omitempty"`
	Secret      string    `json:"secret"`
	Expires     time.Time `json:"expires"`
}

func (Session) String() string { return "[session]" }

func (s Session) at() daemon.Address {
	return daemon.Address{URL: s.API, Certificate: s.Certificate}
}

// EndedSessionError is a session whose time is over. Commands do not go on with another token,
// which may be another person's.
type EndedSessionError struct {
	API string
	At  time.Time
}

func (e *EndedSessionError) Error() string {
	return fmt.Sprintf("the session at %s ended at %s", e.API, e.At.UTC().Format(time.RFC3339))
}

// sessionFile is the directory of the user's sessions, and the name of the one at an API. The
// error wraps fs.ErrNotExist where the user has no directory for settings.
func sessionFile(api string) (dir, name string, err error) {
	dir, err = os.UserConfigDir()
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	sum := sha256.Sum256([]byte(bare(api)))
	return filepath.Join(dir, "countersign", "sessions"), hex.EncodeToString(sum[:16]) + ".json", nil
}

func bare(api string) string { return strings.TrimRight(api, "/") }

// KeptSession gives the session of a login at an API. The error wraps fs.ErrNotExist where there
// is none, and is an *EndedSessionError where it is over.
func KeptSession(api string, now time.Time) (s Session, err error) {
	dir, name, err := sessionFile(api)
	if err != nil {
		return s, err
	}
	b, err := daemon.ReadSecretOf(dir, name, maxSecret)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil || s.Secret == "" || bare(s.API) != bare(api) {
		return Session{}, fmt.Errorf("%s holds no session of %s: remove it", filepath.Join(dir, name), api)
	}
	if !now.Before(s.Expires) {
		return s, &EndedSessionError{s.API, s.Expires}
	}
	return s, nil
}

// KeepSession keeps a session for its owner alone, in place of an earlier one at the same API.
func KeepSession(s Session) error {
	dir, name, err := sessionFile(s.API)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "new-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// ForgetSession removes the session at an API.
func ForgetSession(api string) error {
	dir, name, err := sessionFile(api)
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(dir, name))
}
