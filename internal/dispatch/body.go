package dispatch

import (
	"fmt"

	"countersign/internal/outbox"
)

// The default Content-Type is what merchants of live services expect, although
// the default body is no form.
const defaultContentType = "application/x-www-form-urlencoded"

// wireBody writes a sealed body in the form that the merchant takes
// (PROTOCOL.md, Body forms).
func wireBody(form string, sealed []byte) ([]byte, error) {
	switch form {
	case "", "bare":
		return sealed, nil
	case "form":
		// Of the Base64 alphabet, form encoding changes three characters.
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
