package envelope

import (
	"bytes"
	"encoding/base64"
	"fmt"
)

// MaxBody is the largest body, in bytes, that Open and Unwrap take and Seal
// makes (PROTOCOL.md, HTTP).
const MaxBody = 64 << 10

const whiteSpace = " \t\r\n"

func trimSpace(b []byte) []byte { return bytes.Trim(b, whiteSpace) }

// strict64 refuses unused bits that are not 0, so that a sealed body can be
// written in one way only. It skips CR and LF.
var strict64 = base64.StdEncoding.Strict()

// decodeBody decodes the Base64 of a body into a new slice.
func decodeBody(body []byte) ([]byte, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("body of %d bytes: %w: %d are allowed", len(body), ErrTooLarge, MaxBody)
	}
	text := trimSpace(body)
	if len(text) == 0 {
		return nil, fmt.Errorf("body: %w", ErrEmpty)
	}
	sealed := make([]byte, strict64.DecodedLen(len(text)))
	n, err := strict64.Decode(sealed, text)
	if err != nil {
		return nil, fmt.Errorf("body: %w: %s", ErrBase64, base64Problem(text))
	}
	if n == 0 {
		return nil, fmt.Errorf("body: %w", ErrEmpty)
	}
	return sealed[:n], nil
}

// base64Problem returns why text, without white space around it, is not standard Base64, and what to do. It names offsets and classes
// of characters, never the text. A fault that all bodies of a sender have gets no offset.
func base64Problem(text []byte) string {
	padding := -1
	chars := 0
	for i, c := range text {
		switch {
		case c == '\r' || c == '\n':
			continue
		case c == '=':
			if padding < 0 {
				padding = i
			}
			chars++
			continue
		case c == ' ':
			return fmt.Sprintf("there is a space at offset %d, where a form parser has replaced a +; "+
				"read the raw body instead of the parsed form, or write + as %%2B", i)
		case c == '-' || c == '_':
			return "it is in the URL alphabet of Base64, with - and _ where + and / belong; " +
				"use the standard alphabet, and padding"
		case c == '%':
			return fmt.Sprintf("offset %d has %%, so the body is still percent-encoded; undo the percent-encoding once", i)
		case !isBase64Char(c):
			return fmt.Sprintf("offset %d has a character that is not of Base64", i)
		}
		if padding >= 0 {
			return fmt.Sprintf("more follows the padding at offset %d, as if parts were encoded one by one; "+
				"join the raw blocks and encode them once", padding)
		}
		chars++
	}
	if chars%4 != 0 {
		return "its length is not a multiple of four, as padding is missing or the end is cut off; check for a size limit on the way"
	}
	return "its last characters are not in canonical form; check that its end was not changed on the way"
}

func isBase64Char(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '+' || c == '/'
}

// inBase64 says which bytes may occur in a Base64 body.
var inBase64 = func() (in [256]bool) {
	for c := range in {
		in[c] = isBase64Char(byte(c)) || c == '=' || c == '\r' || c == '\n'
	}
	return in
}()
