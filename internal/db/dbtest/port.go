package dbtest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

var givenPorts sync.Map

// FreePort gives an address of this machine that nobody listens on now and that
// this test binary was not given before. It is below the ports that systems give
// out themselves: one of those might be another test's by the time that it is
// used.
func FreePort() (addr string, err error) {
	err = errors.New("no port that was not given before")
	for range 100 {
		port := 12_000 + rand.IntN(18_000)
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}
