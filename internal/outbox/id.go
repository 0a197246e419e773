package outbox

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"sync"

	"countersign/internal/db"
)

// idLength is the length of the part of an id that follows the merchant.
const idLength = 26

// idAlphabet is Crockford's base 32 in lower case: texts sort like their numbers.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// idMaker makes ids that sort by time: 48 bits of milliseconds, then 80 bits that
// start at random and count up within a millisecond.
type idMaker struct {
	mu     sync.Mutex
	last   db.Millis
	hi, lo uint64 // the 80 bits: 16 and 64
}

// next gives the 26 characters of a new id. Each id of a maker is greater than the one
// before if now does not go back.
func (m *idMaker) next(now db.Millis) string {
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
	var out [idLength]byte
	hi, lo := uint64(now)<<16|m.hi, m.lo // 128 bits, 5 at a time from the end
	for i := idLength - 1; i >= 0; i-- {
		out[i] = idAlphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out[:])
}

// joinID makes the id that callers see.
func joinID(merchant, id string) string { return merchant + "." + id }

// splitID inverts joinID. Any other text is ErrNotFound.
func splitID(id string) (merchant, rest string, err error) {
	merchant, rest, ok := strings.Cut(id, ".")
	if !ok || len(rest) != idLength || !validMerchantID(merchant) || strings.Trim(rest, idAlphabet) != "" {
		return "", "", db.ErrNotFound
	}
	return merchant, rest, nil
}

func validMerchantID(id string) bool {
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(id) >= 1 && len(id) <= 64
}
