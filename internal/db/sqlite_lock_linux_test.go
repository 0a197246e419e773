package db

import (
	"os"
	"syscall"
	"testing"

	"countersign/internal/lab/dbtest"
)

// TestLockEndsWithClose: for a moment, a program that is being started has all files of this process. A database that is
// closed meanwhile can be opened at once.
func TestLockEndsWithClose(t *testing.T) {
	path := dbtest.SQLite(t)
	s := openAt(t, path)
	for _, f := range []*os.File{s.backend.(*sqliteDB).file, s.backend.(*sqliteDB).lock} {
		copied := must(syscall.Dup(int(f.Fd())))(t)
		defer syscall.Close(copied)
	}
	s.Close()
	openAt(t, path)
}
