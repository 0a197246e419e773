package dbtest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// unprivileged returns the attributes of a child process that does not run as root, because PostgreSQL refuses root,
// and that gets a signal when this process ends. It also returns the user who must own the files, -1 for the present
// user.
func unprivileged(atEnd syscall.Signal) (*syscall.SysProcAttr, int, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: atEnd}
	if os.Getuid() != 0 {
		return attributes, -1, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, -1, err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, -1, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, -1, err
	}
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, int(uid), nil
}
