//go:build linux

package proof

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stop has a process stand still for a while.
func (ch *Chain) Stop(victim string, while time.Duration) error {
	p := ch.process(victim)
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(while)
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

// Starve leaves a process few files and connections for a while: it can open no new ones.
func (ch *Chain) Starve(victim string, while time.Duration) error {
	pid := ch.process(victim).cmd.Process.Pid
	var was unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		return err
	}
	few := was
	few.Cur = 8
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil); err != nil {
		return err
	}
	time.Sleep(while)
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &was, nil)
}
