package countersign

import (
	"crypto/sha256"
	"encoding/hex"
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
func requestType(obj *strictjson.Object, o ParseOptions) (Type, error) {
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
	n, ok := strictjson.Int(raw)
	return n, ok && -maxWhole <= n && n <= maxWhole
}

// Identity is what identifies a request. Members that cannot be read are empty.
type Identity struct {
	Type       Type
	TrackingID string
	CallBackID string
}

// EventID is Callback.EventID.
func (i Identity) EventID() string {
	if i.Type == TypeRequestWithdraw {
		return i.CallBackID
	}
	return i.TrackingID
}

// TraceID returns the trace id of a withdrawal, a deposit or a change of address, which is the same in the log lines
// and spans of both ends: 32 hexadecimal digits made from the callBackId or, if that is empty, the trackingId. It is
// empty if both are.
func TraceID(callBackID, trackingID string) string {
	key := "callback/" + trackingID
	switch {
	case callBackID != "":
		key = "withdrawal/" + callBackID
	case trackingID == "":
		return ""
	}
	sum := sha256.Sum256([]byte("countersign trace\x00" + key))
	return hex.EncodeToString(sum[:16])
}

// Identify reads what identifies a request, for logs and explanations. It also works for requests that ParseCallback
// refuses.
func Identify(plaintext []byte) (id Identity) {
	obj, err := scan(plaintext)
	if err != nil {
		return id
	}
	id.Type, _ = requestType(obj, ParseOptions{Lenient: true})
	c := codec{obj: obj, lenient: true, asSent: new(Members)}
	c.id("trackingId", &id.TrackingID, optional)
	c.id("callBackId", &id.CallBackID, optional)
	return id
}
