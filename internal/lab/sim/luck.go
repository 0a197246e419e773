package sim

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// luck is randomness that depends on the seed, the virtual time and what it is for, but not on
// who draws first: Go's scheduler does not belong to the seed. Two draws for the same at the
// same time give the same.
func (n *network) luck(what ...any) *rand.Rand {
	h := fnv.New64a()
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], uint64(time.Since(n.begun)))
	_, _ = h.Write(at[:])
	_, _ = fmt.Fprintln(h, what...)
	return rand.New(rand.NewPCG(n.seed, h.Sum64()))
}

// float is the randomness of a party.
func (w *world) float(who string) float64 { return w.net.luck(who).Float64() }
