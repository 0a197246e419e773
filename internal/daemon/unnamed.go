package daemon

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// unnamed is a new file that gets its name when it is complete. Nothing of it is left
// if the process dies before, except on file systems that know no files without a name:
// there it has a random one.
type unnamed struct {
	*os.File
	random string // its random name; empty: it has none
}

// newUnnamed makes a file in the directory of path.
func newUnnamed(path string, mode fs.FileMode) (*unnamed, error) {
	if f, err := openUnnamed(filepath.Dir(path), mode); err == nil {
		return &unnamed{File: f}, nil
	}
	random := path + "." + rand.Text()
	f, err := os.OpenFile(random, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	return &unnamed{f, random}, nil
}

// link names the file. If path exists, the error wraps fs.ErrExist.
func (f *unnamed) link(path string) error {
	if f.random != "" {
		return os.Link(f.random, path)
	}
	return linkUnnamed(f.File, path)
}

// drop closes the file and removes its random name.
func (f *unnamed) drop() error {
	err := f.Close()
	if f.random != "" {
		err = errors.Join(err, os.Remove(f.random))
	}
	return err
}
