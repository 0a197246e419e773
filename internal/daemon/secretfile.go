package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxSecret exceeds the longest secret of one line, in bytes.
const maxSecret = 4096

// ExposedError is the error for a file that others than its owner may read or write, or a directory that they may write
// to. They may know a secret in it and may have changed anything in it.
type ExposedError struct {
	Path string
	Mode fs.FileMode
}

func (e *ExposedError) Error() string {
	can, mode := "read", 0o600
	if e.Mode.IsDir() {
		mode = 0o700
	}
	if e.Mode.IsDir() || e.Mode.Perm()&0o044 == 0 {
		can = "written"
	}
	return fmt.Sprintf("%s can be %s by others (mode %04o): chmod %o %s, and replace the secrets in it", e.Path, can,
		e.Mode.Perm(), mode, e.Path)
}

func noFile(path string) error { return fmt.Errorf("%s is not a regular file: remove it", path) }

// ReadSecret reads a file with a secret of at most most bytes. If others may read or write the file, it returns the
// content with an *ExposedError. It checks only regular files: a pipe or a terminal comes from whoever starts the
// program.
func ReadSecret(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return readSecretFile(f, path, most)
}

// ReadSecretOf is ReadSecret for a file of a data directory. It follows no link out of the directory and refuses,
// without waiting, anything but a regular file: the daemon may have put a link or a pipe there, and the reader may be
// root.
func ReadSecretOf(dir, name string, most int) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	path := filepath.Join(dir, name)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(cmp.Or(err, noFile(path)), f.Close())
	}
	return readSecretFile(f, path, most)
}

// AllowExposed returns err, or nil if it is an *ExposedError, for a file that anybody may read.
func AllowExposed(err error) error {
	if errors.As(err, new(*ExposedError)) {
		return nil
	}
	return err
}

func readSecretFile(f *os.File, path string, most int) ([]byte, error) {
	defer f.Close()
	info, err := f.Stat() // of the file that is read, whatever path names meanwhile
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("%s is longer than %d bytes", path, most)
	}
	if err != nil {
		return nil, err
	}
	others := fs.FileMode(0o077)
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" && filepath.Dir(filepath.Clean(path)) == filepath.Clean(dir) {
		others = 0o007 // systemd lets this process read by an access control list, whose mask shows as the group's rights
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&others != 0 {
		return b, &ExposedError{path, info.Mode()}
	}
	return b, nil
}
