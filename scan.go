package countersign

import (
	"errors"
	"fmt"

	"countersign/internal/strictjson"
)

// scan reads src as one JSON object by the rules M1 and M2 of PROTOCOL.md.
func scan(src []byte) (*strictjson.Object, error) {
	obj, err := strictjson.ParseObject(src, MaxMessage)
	if err == nil {
		return obj, nil
	}
	var at *strictjson.Error
	if errors.As(err, &at) && at.Member() != "" {
		return nil, &MemberError{at.Member(), at.Problem}
	}
	return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
}

// requestType reads the member that chooses the parser of a request.
func requestType(obj *strictjson.Object) (Type, error) {
	m, ok := obj.Find("type")
	if !ok {
		return 0, &MemberError{"type", "is missing"}
	}
	n, ok := wholeNumber(obj.Raw(m))
	if !ok {
		return 0, &MemberError{"type", "is not a whole number"}
	}
	return Type(n), nil
}

// wholeNumber reads a whole number (PROTOCOL.md, M4), within the range in which
// every reader of JSON is exact.
func wholeNumber(raw string) (int64, bool) {
	n, ok := strictjson.Int(raw)
	return n, ok && -maxWhole <= n && n <= maxWhole
}
