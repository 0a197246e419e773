package dispatch

import (
	"errors"
	"net/url"
	"slices"

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
		return slices.Concat([]byte(`{"data":"`), sealed, []byte(`"}`)), nil
	}
	return nil, errors.New("unknown body form")
}
