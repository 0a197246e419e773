//go:build unix

package daemon

import (
	"os"
	"syscall"
)

// giveToOwner gives a file that root makes in a data directory to the directory's owner: the
// daemon, which runs as somebody else there, could not read it.
func giveToOwner(f *os.File, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
