package db

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not name.
const tcpUserTimeout = 0x12

// limitSilence makes the kernel close a connection whose peer acknowledges nothing. Keep-alive does not detect that
// while sent bytes are unacknowledged. Without this limit, a statement sent to a machine that lost its power fails
// only after a quarter of an hour.
func limitSilence(network, _ string, c syscall.RawConn) error {
	if len(network) < 3 || network[:3] != "tcp" {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(userTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
