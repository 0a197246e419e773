package sim

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// luck returns randomness that depends on the seed, the virtual time and its purpose, but not on who draws first,
// because no seed controls Go's scheduler. Two draws for one purpose at the same time are equal.
func (n *network) luck(what ...any) *rand.Rand {
	h := fnv.New64a()
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], uint64(time.Since(n.begun)))
	_, _ = h.Write(at[:])
	_, _ = fmt.Fprintln(h, what...)
	return rand.New(rand.NewPCG(n.seed, h.Sum64()))
}

// float returns the randomness of a party, from 0 to below 1.
func (w *world) float(who string) float64 { return w.net.luck(who).Float64() }
