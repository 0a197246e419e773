//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ownerOfDir returns the owner of a directory if this process is root and the owner is not.
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

// actAsOwner lets root act with the rights of the owner of a data directory, so that nothing the daemon puts there,
// such as a link, leads to files of root. back ends this. stage is where root creates new files. Usually it is dir. It
// is the directory above if the owner cannot reach dir by this path, as below /var/lib/private with systemd's
// DynamicUser. Root then keeps its own rights, and only its own directory leads to what it creates.
func actAsOwner(dir string) (stage string, back func() error, err error) {
	nothing := func() error { return nil }
	owner, err := ownerOfDir(dir)
	if owner == nil {
		return dir, nothing, err
	}
	if back, err = become(owner); err != nil {
		return dir, nil, err
	}
	_, unreachable := os.Stat(filepath.Join(dir, "."))
	if !errors.Is(unreachable, fs.ErrPermission) {
		return dir, back, nil
	}
	if err := back(); err != nil {
		return dir, nil, err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir, nil, err
	}
	stage = filepath.Dir(real)
	info, err := os.Stat(stage)
	if err != nil {
		return dir, nil, err
	}
	if above, ok := info.Sys().(*syscall.Stat_t); !ok || above.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
		return dir, nil, fmt.Errorf("the owner of %s cannot reach it, and %s is not root's alone", dir, stage)
	}
	return stage, nothing, nil
}

// become has this process run with the rights of owner until back is called.
func become(owner *syscall.Stat_t) (back func() error, err error) {
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

// giveToOwner gives a file that root creates in a data directory to the directory's owner. The daemon runs as that user
// and could not read it otherwise.
func giveToOwner(f *os.File, dir string) error {
	owner, err := ownerOfDir(dir)
	if owner == nil {
		return err
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
