package dbtest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

var givenPorts sync.Map

// FreePort returns an address of this machine whose port is free and which this test
// binary did not get before. It is below the ports that the system assigns itself,
// because another test could get one of those meanwhile.
func FreePort() (addr string, err error) {
	err = errors.New("no free port is left")
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
