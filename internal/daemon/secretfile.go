package daemon

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxSecret is above the longest secret of one line, in bytes.
const maxSecret = 4096

// ExposedError is a file that others than its owner may read or write. A secret in
// it may be known to them, and anything in it may be theirs.
type ExposedError struct {
	Path string
	Mode fs.FileMode
}

func (e *ExposedError) Error() string {
	can := "read"
	if e.Mode.Perm()&0o044 == 0 {
		can = "written"
	}
	return fmt.Sprintf("%s can be %s by others (mode %04o): chmod 600 %s, and replace what they must not know", e.Path, can, e.Mode.Perm(), e.Path)
}

// ReadSecret reads a file that holds a secret, of at most most bytes. It refuses one
// that others may read or write, with an *ExposedError.
func ReadSecret(path string, most int) ([]byte, error) {
	b, exposed, err := ReadOwned(path, most)
	if err == nil && exposed != nil {
		return nil, exposed
	}
	return b, err
}

// ReadOwned reads a file of at most most bytes and says whether others may read or
// write it. Only regular files count: a pipe or a terminal is given by who starts
// the program.
func ReadOwned(path string, most int) ([]byte, *ExposedError, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	return readOwned(f, path, most)
}

// ReadSecretOf is ReadSecret for a file of a data directory. It follows no link out of it:
// the daemon may put one there, and who reads may be root.
func ReadSecretOf(dir, name string, most int) ([]byte, error) {
	f, err := os.OpenInRoot(dir, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	b, exposed, err := readOwned(f, filepath.Join(dir, name), most)
	if err == nil && exposed != nil {
		return nil, exposed
	}
	return b, err
}

func readOwned(f *os.File, path string, most int) (b []byte, exposed *ExposedError, err error) {
	defer f.Close()
	info, err := f.Stat() // of the file that is read, whatever path names meanwhile
	if err != nil {
		return nil, nil, err
	}
	others := fs.FileMode(0o077)
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" && filepath.Dir(filepath.Clean(path)) == filepath.Clean(dir) {
		others = 0o007 // systemd lets this process read by an access control list, whose mask shows as the group's rights
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&others != 0 {
		exposed = &ExposedError{path, info.Mode()}
	}
	if b, err = io.ReadAll(io.LimitReader(f, int64(most)+1)); err != nil {
		return nil, nil, err
	}
	if len(b) > most {
		return nil, nil, fmt.Errorf("%s is longer than %d bytes", path, most)
	}
	return b, exposed, nil
}
