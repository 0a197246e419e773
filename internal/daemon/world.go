package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"

	"countersign/internal/db"
)

// World is what a daemon uses of its machine besides its files. The zero World is the real machine; the simulation
// passes another.
type World struct {
	db.World
	// Listen opens the listeners. Nil: net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// Dial opens connections to merchants, whose addresses are then not checked, and to the URLs that a daemon posts
	// to. Nil: the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Random returns numbers from 0 to below 1, which spread retries. Nil: rand.Float64.
	Random func() float64
}

func (w World) random() float64 {
	if w.Random != nil {
		return w.Random()
	}
	return rand.Float64()
}

func (w World) listen(address string) (net.Listener, error) {
	if w.Listen != nil {
		return w.Listen("tcp", address)
	}
	ln, err := net.Listen("tcp", address)
	if err != nil && !strings.Contains(address, ":") {
		write := "HOST:PORT"
		if _, digits := strconv.Atoi(address); digits == nil {
			write = ":" + address
		}
		err = fmt.Errorf("it names no port: write %s", write)
	}
	return ln, err
}
