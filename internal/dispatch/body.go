package dispatch

import (
	"fmt"

	"countersign/client"
)

// wireBody writes a sealed body in the merchant's body form (PROTOCOL.md, F2).
func wireBody(form client.BodyForm, sealed []byte) ([]byte, error) {
	switch form {
	case "", client.BodyBare:
		return sealed, nil
	case client.BodyData:
		// Form encoding changes three characters of the Base64 alphabet.
		out := make([]byte, 0, len(sealed)+len(sealed)/16+8)
		out = append(out, "data="...)
		for _, c := range sealed {
			switch c {
			case '+':
				out = append(out, "%2B"...)
			case '/':
				out = append(out, "%2F"...)
			case '=':
				out = append(out, "%3D"...)
			default:
				out = append(out, c)
			}
		}
		return out, nil
	case client.BodyJSON:
		out := make([]byte, 0, len(sealed)+11)
		out = append(out, `{"data":"`...)
		out = append(out, sealed...)
		return append(out, `"}`...), nil
	}
	return nil, fmt.Errorf("unknown body form")
}
