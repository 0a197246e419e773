package db

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
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

// identifierMost is the longest identifier, in bytes. An index entry of PostgreSQL holds at most about 2,700.
const identifierMost = 1024

// CheckIdentifier is CheckText for a text that is part of an index. It also limits the length.
func CheckIdentifier(member, text string) error {
	if len(text) > identifierMost {
		return fmt.Errorf("%s is %w: it has %d bytes, and at most %d are allowed", member, ErrInvalid, len(text),
			identifierMost)
	}
	return CheckText(member, text)
}

// CheckText returns ErrInvalid for a text that one of the databases would not store unchanged.
func CheckText(member, text string) error {
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		return fmt.Errorf("%s is %w: it holds U+0000 or is not UTF-8", member, ErrInvalid)
	}
	return nil
}

// CheckTexts is CheckText for several members. It takes the name and the text of each in turn. It returns an
// *ItemError that names the member.
func CheckTexts(members ...string) error {
	for i := 0; i < len(members); i += 2 {
		if err := CheckText(members[i], members[i+1]); err != nil {
			return &ItemError{Member: members[i], Err: err}
		}
	}
	return nil
}

// Clean returns text with everything that cannot be stored replaced by U+FFFD.
func Clean(text string) string {
	if CheckText("", text) == nil {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
