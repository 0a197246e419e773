package db

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	flushStep = 1 << 20
	flushMost = 100 * time.Millisecond // of one pause
)

// flush writes the dirty pages of f to the disk in small parts, and pauses after
// each part as long as it took. One sync of everything would delay the commits that
// sync meanwhile. flush guarantees nothing and ignores errors: SQLite syncs the file
// itself.
func flush(f *os.File, stop <-chan struct{}) {
	info, err := f.Stat()
	if err != nil {
		return
	}
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	for at := int64(0); at < info.Size(); at += flushStep {
		start := time.Now()
		if err := unix.SyncFileRange(int(f.Fd()), at, flushStep, all); err != nil {
			return
		}
		took := time.Since(start)
		if took < 200*time.Microsecond {
			continue // there was nothing to write
		}
		select {
		case <-time.After(min(took, flushMost)):
		case <-stop:
			return
		}
	}
}
