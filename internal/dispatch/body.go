package dispatch

import (
	"errors"
	"net/url"

	"countersign/client"
)

// wireBody writes a sealed body in the merchant's body form (PROTOCOL.md, F2).
func wireBody(form client.BodyForm, sealed []byte) ([]byte, error) {
	switch form {
	case "", client.BodyBare:
		return sealed, nil
	case client.BodyData:
		return []byte("data=" + url.QueryEscape(string(sealed))), nil
	case client.BodyJSON:
		out := make([]byte, 0, len(sealed)+11)
		out = append(out, `{"data":"`...)
		out = append(out, sealed...)
		return append(out, `"}`...), nil
	}
	return nil, errors.New("unknown body form")
}
