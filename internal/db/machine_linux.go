package db

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns a monotonic clock that also counts while the machine sleeps. The clock of package time does not.
func sinceBoot() func() time.Duration {
	return func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			panic("CLOCK_BOOTTIME: " + err.Error()) // Linux has it since 2.6.39
		}
		return time.Duration(t.Nano())
	}
}

// limitSilence makes the kernel close a connection whose peer acknowledges nothing. Keep-alive does not detect that
// while sent bytes are unacknowledged. Without this limit, a statement sent to a machine that lost its power fails
// only after a quarter of an hour.
func limitSilence(network, _ string, c syscall.RawConn) error {
	if len(network) < 3 || network[:3] != "tcp" {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}

// lockedByte is far beyond every byte that SQLite locks or writes.
const lockedByte = 1 << 62

// lockDatabase takes a lock on the database's own file. It holds wherever the file is moved, and whatever happens to
// the lock file beside it. The lock belongs to f. Unlike SQLite's own locks, it is not lost when this process closes
// the file elsewhere.
func lockDatabase(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart,
		Start: lockedByte, Len: 1})
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %s is locked", ErrInUse, f.Name())
	case err != nil:
		return fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	return nil
}

// unlock frees the locks of lockDatabase and lockFile on f and closes it. A program that is being started still has f at
// that moment, and closing alone would leave the locks to it.
func unlock(f *os.File) error {
	every := unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart}
	return errors.Join(unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &every), unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// inUse reports whether a process holds the lock of lockDatabase. It takes no lock.
func inUse(f *os.File) bool {
	lock := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: lockedByte, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock)
	return err == nil && lock.Type != unix.F_UNLCK
}
