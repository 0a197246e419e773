//go:build unix

package daemon

import (
	"errors"
	"os"
	"syscall"
)

// ownerOfDir gives the owner of a directory, if this process is root and the owner is not.
func ownerOfDir(dir string) (owner *syscall.Stat_t, err error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil, nil
	}
	return owner, nil
}

// actAsOwner lets root act with the rights of the owner of a data directory, so that nothing
// that the daemon puts there, such as a link, leads to files of root. back ends it.
func actAsOwner(dir string) (back func() error, err error) {
	owner, err := ownerOfDir(dir)
	if owner == nil {
		return func() error { return nil }, err
	}
	groups, err := syscall.Getgroups()
	if err != nil {
		return nil, err
	}
	group := syscall.Getegid()
	back = func() error {
		return errors.Join(syscall.Setreuid(-1, 0), syscall.Setregid(-1, group), syscall.Setgroups(groups))
	}
	err = syscall.Setgroups([]int{int(owner.Gid)})
	if err == nil {
		err = syscall.Setregid(-1, int(owner.Gid))
	}
	if err == nil {
		err = syscall.Setreuid(-1, int(owner.Uid))
	}
	if err != nil {
		return nil, errors.Join(err, back())
	}
	return back, nil
}

// giveToOwner gives a file that root makes in a data directory to the directory's owner: the
// daemon, which runs as somebody else there, could not read it.
func giveToOwner(f *os.File, dir string) error {
	owner, err := ownerOfDir(dir)
	if owner == nil {
		return err
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
