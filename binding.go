package countersign

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// UnboundUUID is the requestUUID of a plaintext that is not bound yet: 36 zeros,
// which is no UUID.
const UnboundUUID = "000000000000000000000000000000000000"

// bindingLabel makes the digest differ from every other use of SHA-256.
const bindingLabel = "countersign request binding 1\n"

// Binding is what a plaintext's requestUUID says about the rest of it
// (PROTOCOL.md, Binding).
type Binding int

// The results of CheckBinding. The zero Binding proves nothing.
const (
	BindingAbsent Binding = iota // the requestUUID is no UUID of version 8
	BindingBroken                // version 8, but not made from these bytes
	BindingHolds                 // made from exactly these bytes
)

// String returns the name of b for logs and explanations.
func (b Binding) String() string {
	switch b {
	case BindingBroken:
		return "broken"
	case BindingHolds:
		return "holds"
	}
	return "absent"
}

// Bind returns a copy of plaintext with a new requestUUID, and that requestUUID. The
// requestUUID is made from random and from all other bytes of plaintext
// (PROTOCOL.md, B1). plaintext is what Marshal returns for a message whose
// RequestUUID is UnboundUUID; random must be new for every attempt. Bind fails
// with a *MemberError if plaintext is malformed or its requestUUID is not 36
// printable ASCII characters without escapes.
func Bind(plaintext []byte, random [6]byte) (bound []byte, requestUUID string, err error) {
	start, end, ok := UUIDSpan(plaintext)
	if !ok {
		return nil, "", fmt.Errorf("binding: %w", &MemberError{"requestUUID", "is not 36 plain characters"})
	}
	bound = bytes.Clone(plaintext)
	copy(bound[start:end], UnboundUUID)
	id := bindingUUID(bound, random)
	copy(bound[start:end], id[:])
	return bound, string(id[:]), nil
}

// CheckBinding reports whether plaintext is, byte for byte, what its sender bound
// (PROTOCOL.md, B3). A merchant whose service binds must refuse everything but
// BindingHolds. BindingAbsent and BindingBroken prove equally little; they differ
// for the people who look for the cause.
func CheckBinding(plaintext []byte) Binding {
	start, end, ok := UUIDSpan(plaintext)
	if !ok {
		return BindingAbsent
	}
	id := plaintext[start:end]
	random, ok := versionEight(id)
	if !ok {
		return BindingAbsent
	}
	unbound := bytes.Clone(plaintext)
	copy(unbound[start:end], UnboundUUID)
	if want := bindingUUID(unbound, random); !bytes.Equal(want[:], id) {
		return BindingBroken
	}
	return BindingHolds
}

// UUIDSpan finds the 36 characters of the requestUUID in a plaintext:
// plaintext[start:end]. ok is false if plaintext is not a JSON object, if it has
// no requestUUID, or if that is not a string of 36 printable ASCII characters
// written without escapes.
func UUIDSpan(plaintext []byte) (start, end int, ok bool) {
	obj, err := scan(plaintext)
	if err != nil {
		return 0, 0, false
	}
	m, found := obj.Find("requestUUID")
	if !found || m.End-m.Start != len(UnboundUUID)+2 || plaintext[m.Start] != '"' {
		return 0, 0, false
	}
	for _, c := range plaintext[m.Start+1 : m.End-1] {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return 0, 0, false
		}
	}
	return m.Start + 1, m.End - 1, true
}

// bindingUUID makes the UUID of version 8 (RFC 9562): 48 random bits, then 74
// bits of a SHA-256 around the version and the variant (PROTOCOL.md, B2).
func bindingUUID(unbound []byte, random [6]byte) [36]byte {
	h := sha256.New()
	h.Write([]byte(bindingLabel))
	h.Write(random[:])
	h.Write(unbound)
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	var id [16]byte
	copy(id[:6], random[:])
	id[6] = 0x80 | sum[0]&0x0f
	id[7] = sum[1]
	id[8] = 0x80 | sum[2]&0x3f
	copy(id[9:], sum[3:10])
	return formatUUID(id)
}

func formatUUID(id [16]byte) (s [36]byte) {
	hex.Encode(s[0:8], id[0:4])
	hex.Encode(s[9:13], id[4:6])
	hex.Encode(s[14:18], id[6:8])
	hex.Encode(s[19:23], id[8:10])
	hex.Encode(s[24:36], id[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return s
}

// versionEight reads the random part of a UUID of version 8 in lower case.
func versionEight(id []byte) (random [6]byte, ok bool) {
	for i, c := range id {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return random, false
			}
		default:
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
				return random, false
			}
		}
	}
	if id[14] != '8' || !bytes.ContainsRune([]byte("89ab"), rune(id[19])) {
		return random, false
	}
	_, err1 := hex.Decode(random[:4], id[0:8])
	_, err2 := hex.Decode(random[4:], id[9:13])
	return random, err1 == nil && err2 == nil
}
