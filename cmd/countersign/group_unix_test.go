//go:build unix

package main

import (
	"os/exec"
	"syscall"
	"testing"
)

// ownGroup has cmd start in a group of processes of its own; end kills all of them.
func ownGroup(_ *testing.T, cmd *exec.Cmd) (end func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
