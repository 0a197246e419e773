//go:build linux

package proof

import (
	"context"
	"maps"
	"slices"
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

// Revive starts the processes that have ended by themselves, as a supervisor would, and
// names them.
func (ch *Chain) Revive(ctx context.Context) (ended []string, err error) {
	for _, name := range ch.Victims() {
		if ch.runs(name) {
			continue
		}
		ended = append(ended, name)
		if err := ch.start(ctx, name); err != nil {
			return ended, err
		}
	}
	return ended, nil
}

// Addrs are where the processes listen.
func (ch *Chain) Addrs() []string { return slices.Sorted(maps.Values(ch.addr)) }

// runs reports whether a process has not ended.
func (ch *Chain) runs(name string) bool {
	select {
	case <-ch.process(name).ended:
		return false
	default:
		return true
	}
}

func (ch *Chain) process(name string) *process {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.alive[name]
}
