package db

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockedByte is far beyond every byte that SQLite locks or writes.
const lockedByte = 1 << 62

// lockDatabase takes a lock on the database's own file. It holds wherever the file is moved, and whatever happens to
// the lock file beside it. The lock belongs to f. Unlike SQLite's own locks, it is not lost when this process closes
// the file elsewhere.
func lockDatabase(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: lockedByte, Len: 1})
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %s is locked", ErrInUse, f.Name())
	case err != nil:
		return fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	return nil
}

// inUse reports whether a process holds the lock of lockDatabase. It takes no lock.
func inUse(f *os.File) bool {
	lock := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: lockedByte, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock)
	return err == nil && lock.Type != unix.F_UNLCK
}
