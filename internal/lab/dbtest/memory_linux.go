package dbtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	memoryDisk  = "/dev/shm"
	memoryNames = "cstests" // begin the names of the directories there
	memoryNeeds = 4 << 30   // bytes that must be free there, and in memory
	tmpfsMagic  = 0x01021994
	noExec      = 8 // of Statfs: no program can be run from there
)

// inMemory puts the temporary files of this test binary and of the programs that it starts into memory, where making a
// file costs a tenth: a database of PostgreSQL has three hundred. What a killed process wrote stays, as on a disk; no
// test here is about losing power. It changes nothing if the environment names a directory, if benchmarks run, which
// measure the disk, or if there is little memory. is says whether it did; remove ends it.
func inMemory() (is bool, remove func() error, err error) {
	if os.Getenv("TMPDIR") != "" || fsync() == "on" || !roomy() {
		return false, func() error { return nil }, nil
	}
	// One process at a time, so that none removes what another is about to lock.
	all, err := lock(memoryDisk, syscall.LOCK_EX)
	if err != nil {
		return false, nil, err
	}
	defer all.Close()
	removeLeft()
	dir, err := os.MkdirTemp(memoryDisk, memoryNames)
	if err != nil {
		return false, nil, err
	}
	own, err := lock(dir, syscall.LOCK_EX)
	if err == nil {
		err = os.Chmod(dir, 0o777|os.ModeSticky) // as /tmp: servers of databases run as another user
	}
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	return true, func() error {
		return errors.Join(os.Unsetenv("TMPDIR"), os.RemoveAll(dir), own.Close())
	}, err
}

// removeLeft removes what killed test binaries left, whose locks are gone.
func removeLeft() {
	list, _ := filepath.Glob(filepath.Join(memoryDisk, memoryNames+"*"))
	for _, dir := range list {
		if f, err := lock(dir, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			_ = os.RemoveAll(dir) // another user's stays
			f.Close()
		}
	}
}

// lock locks a directory until the file is closed or the process ends.
func lock(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
	}
}

// roomy reports whether the disk in memory is large enough and programs can run from it.
func roomy() bool {
	var s syscall.Statfs_t
	if err := syscall.Statfs(memoryDisk, &s); err != nil || s.Type != tmpfsMagic || s.Flags&noExec != 0 || int64(s.Bavail)*int64(s.Bsize) < memoryNeeds {
		return false
	}
	about, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(about, []byte("MemAvailable:"))
	var kilobytes int64
	_, err = fmt.Sscan(string(rest), &kilobytes)
	return err == nil && kilobytes<<10 >= memoryNeeds
}
