package countersign

import (
	"errors"
	"fmt"

	"countersign/internal/web"
)

// MaxMessage is the largest plaintext or response, in bytes, that the parsers
// read (PROTOCOL.md, HTTP).
const MaxMessage = 64 << 10

// ParseOptions relaxes the rules of a parser. The zero value is strict.
type ParseOptions struct {
	// Lenient is for services that differ from the interface. It allows the
	// members marked L in PROTOCOL.md, M3, to be absent, and other forms of
	// members where they say the same (PROTOCOL.md, M12). Head.AsSent keeps those.
	Lenient bool
}

// scan reads src as one JSON object by the rules M1 and M2 of PROTOCOL.md.
func scan(src []byte) (*web.Object, error) {
	obj, err := web.ParseObject(src, MaxMessage)
	if err == nil {
		return obj, nil
	}
	var at *web.JSONError
	if errors.As(err, &at) && at.Member() != "" {
		return nil, &MemberError{at.Member(), at.Problem}
	}
	return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
}

// requestType reads the member that chooses the parser of a request.
func requestType(obj *web.Object, o ParseOptions) (Type, error) {
	m, ok := obj.Find("type")
	if !ok {
		return 0, &MemberError{"type", "is missing"}
	}
	n, ok := typeNumber(obj.Raw(m), o.Lenient)
	if !ok {
		return 0, &MemberError{"type", "is not a whole number"}
	}
	return Type(n), nil
}

// typeNumber reads the value of the member type: a number, or its digits as a
// text where that is allowed.
func typeNumber(raw string, orText bool) (int64, bool) {
	if orText && raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	return wholeNumber(raw)
}

// wholeNumber reads a whole number (PROTOCOL.md, M4), within the range in which
// every reader of JSON is exact.
func wholeNumber(raw string) (int64, bool) {
	n, ok := web.JSONInt(raw)
	return n, ok && -maxWhole <= n && n <= maxWhole
}

const maxWhole = 1<<53 - 1
