package db

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"sync"
)

// IDLength is the length of an id.
const IDLength = 26

// idAlphabet is Crockford's base 32 in lower case. Texts in it sort like their numbers.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// IDs makes ids that sort by time. An id has 48 bits of milliseconds, and then 80 bits that start at random and count
// up within a millisecond.
type IDs struct {
	mu     sync.Mutex
	last   Millis
	hi, lo uint64 // the 80 bits: 16 and 64
}

// Next returns a new id of 26 characters. While now does not go back, each id is greater than the one before.
func (m *IDs) Next(now Millis) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	now = max(0, min(now, 1<<48-1))
	if now != m.last {
		var b [10]byte
		rand.Read(b[:])
		m.last, m.hi, m.lo = now, uint64(binary.BigEndian.Uint16(b[:2]))&0x7fff, binary.BigEndian.Uint64(b[2:])
	} else if m.lo++; m.lo == 0 {
		m.hi++ // from at most 2¹⁵: no overflow within a millisecond
	}
	return formID(uint64(now)<<16|m.hi, m.lo)
}

// IDAt returns the smallest id of the given time.
func IDAt(at Millis) string {
	return formID(uint64(max(0, min(at, 1<<48-1)))<<16, 0)
}

// formID returns the id of 128 bits.
func formID(hi, lo uint64) string {
	var out [IDLength]byte
	for i := IDLength - 1; i >= 0; i-- { // 5 bits at a time from the end
		out[i] = idAlphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out[:])
}

// ValidID reports whether id has the form of an id of IDs.
func ValidID(id string) bool { return len(id) == IDLength && strings.Trim(id, idAlphabet) == "" }
