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

// flush brings what was written to f to the disk bit by bit, and leaves the disk
// to others for as long as each bit took: a sync of everything at once would hold
// up the commits that want to be synced meanwhile. It promises nothing, and leaves
// errors to be found: SQLite syncs the file by a descriptor of its own.
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
			continue // there was nothing to bring
		}
		select {
		case <-time.After(min(took, flushMost)):
		case <-stop:
			return
		}
	}
}
