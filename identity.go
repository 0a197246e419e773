package countersign

import (
	"crypto/sha256"
	"encoding/hex"
)

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
