package dispatch

import (
	"fmt"

	"countersign/internal/outbox"
)

// The default Content-Type is the one that merchants of live services expect,
// although the default body is not a form.
const defaultContentType = "application/x-www-form-urlencoded"

// wireBody writes a sealed body in the merchant's body form (PROTOCOL.md, F2).
func wireBody(form string, sealed []byte) ([]byte, error) {
	switch form {
	case "", "bare":
		return sealed, nil
	case "form":
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
	case "json":
		out := make([]byte, 0, len(sealed)+11)
		out = append(out, `{"data":"`...)
		out = append(out, sealed...)
		return append(out, `"}`...), nil
	}
	return nil, fmt.Errorf("unknown body form")
}

func contentType(s outbox.Settings) string {
	if s.ContentType != "" {
		return s.ContentType
	}
	return defaultContentType
}
