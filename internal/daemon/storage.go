package daemon

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"countersign/internal/db"
)

// The files of a data directory. Each is made on first start with mode 0600.
const (
	DatabaseFile  = "countersign.db" // where there is no PostgreSQL
	MasterKeyFile = "master.key"     // 64 hexadecimal digits
	TokenFile     = "admin.token"    // the first token of the API
)

// SecretFiles are the prefixes of the names of files that only their owner may read.
var SecretFiles = []string{DatabaseFile, MasterKeyFile, TokenFile}

// Storage is where an end keeps its state.
type Storage struct {
	// Dir is the data directory, made if it is missing. Required.
	Dir string
	// DB is the URL of a PostgreSQL database. Empty: SQLite in Dir.
	DB string
	// Keys seals secrets at rest. Every process of one database needs the same. Nil: the master key in Dir, made on
	// first start.
	Keys *db.MasterKey
	// World is what the process uses of its machine. Zero: the real one.
	World World
}

// ErrBroken means that the database file is missing, empty, cut off or damaged.
var ErrBroken = db.ErrBroken

// ErrFull means that the disk of the database is full.
var ErrFull = db.ErrFull

// ErrOutdated means that the schema is older than this program, and the role may not change it.
var ErrOutdated = db.ErrOutdated

// url returns the location of the database. It may contain a password.
func (s Storage) url() string { return cmp.Or(s.DB, s.file(DatabaseFile)) }

// noDatabase returns a command's error for a database that does not exist.
func (s Storage) noDatabase(do string) error {
	where := s.file(DatabaseFile)
	if s.DB != "" {
		where = "--db"
	}
	return fmt.Errorf("there is no database yet: %s: %s", where, do)
}

func (s Storage) file(name string) string { return filepath.Join(s.Dir, name) }

// makeDir makes the data directory, for its owner alone, and refuses one that others may write to.
func (s Storage) makeDir() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	return s.private()
}

// private refuses a data directory that others may write to. Files there with a name that begins like those of the
// database, its log, keys and tokens must be regular, and others may neither read nor write them. Everybody may read
// any other file.
func (s Storage) private() error {
	info, err := os.Stat(s.Dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", s.Dir)
	case info.Mode().Perm()&0o022 != 0:
		return &ExposedError{s.Dir, info.Mode()}
	}
	list, err := os.ReadDir(s.Dir)
	for _, e := range list {
		if !slices.ContainsFunc(SecretFiles, func(name string) bool { return strings.HasPrefix(e.Name(), name) }) {
			continue
		}
		path := s.file(e.Name())
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist): // it was temporary
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return noFile(path)
		case info.Mode().Perm()&0o077 != 0:
			return &ExposedError{path, info.Mode()}
		}
	}
	return err
}

// keepSecret reads the secret in the file at path. If the file does not exist, it is created with the secret fresh.
func keepSecret(path, fresh string) (string, error) {
	if text, err := readSecret(path); !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	err := createFile(path, []byte(fresh+"\n"), giveToOwner)
	if errors.Is(err, fs.ErrExist) {
		return readSecret(path) // another process was faster
	}
	return fresh, err
}

func readSecret(path string) (string, error) {
	b, err := ReadSecretOf(filepath.Dir(path), filepath.Base(path), maxSecret)
	return strings.TrimSpace(string(b)), err
}

// CreateFile creates a file durably, for its owner alone. It appears with its whole content or not at all, even if this
// process dies; a file whose name ends in .new may then be left beside it. If path exists, the error wraps fs.ErrExist.
func CreateFile(path string, data []byte) error {
	return createFile(path, data, func(*os.File, string) error { return nil })
}

// stageFile writes data durably to a new file beside path, sets its owner, and returns its name.
func stageFile(path string, data []byte, own func(f *os.File, dir string) error) (part string, err error) {
	part = path + "." + rand.Text() + ".new"
	w, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = w.Write(data)
	if err := errors.Join(err, own(w, filepath.Dir(path)), w.Sync(), w.Close()); err != nil {
		return "", fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(part)))
	}
	return part, nil
}

// createFile is CreateFile, but sets the owner before the file appears.
func createFile(path string, data []byte, own func(f *os.File, dir string) error) error {
	part, err := stageFile(path, data, own)
	if err != nil {
		return err
	}
	// Unlike a rename, a link never replaces a file.
	if err := errors.Join(os.Link(part, path), os.Remove(part)); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists and is not overwritten: %w", path, fs.ErrExist)
	} else if err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// NewFile is one file for CreateFiles.
type NewFile struct {
	Name string
	Data []byte
}

// CreateFiles is CreateFile for several files in dir, all or none: if one fails, those before it are removed.
func CreateFiles(dir string, files []NewFile) (err error) {
	var made []string
	defer func() {
		if err != nil {
			for _, path := range made {
				err = errors.Join(err, os.Remove(path))
			}
		}
	}()
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := CreateFile(path, f.Data); err != nil {
			return err
		}
		made = append(made, path)
	}
	return nil
}

// syncDir makes a new directory entry durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
