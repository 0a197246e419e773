package jsonapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// syntax says what keeps src from being one JSON value in UTF-8.
func syntax(src []byte) string {
	switch {
	case len(bytes.TrimSpace(src)) == 0:
		return "is empty"
	case !utf8.Valid(src):
		return "is not valid UTF-8"
	case json.Valid(src):
		return ""
	}
	var v json.RawMessage
	err := json.Unmarshal(src, &v)
	if at, ok := err.(*json.SyntaxError); ok {
		return fmt.Sprintf("is not JSON: fault near byte %d", at.Offset)
	}
	return "is not JSON"
}

func (c *checker) space() {
	for c.pos < len(c.src) && strings.IndexByte(" \t\r\n", c.src[c.pos]) >= 0 {
		c.pos++
	}
}

// skip passes over one value and gives it as it is written.
func (c *checker) skip() string {
	c.space()
	start, depth := c.pos, 0
	for c.pos < len(c.src) {
		switch ch := c.src[c.pos]; ch {
		case '"':
			c.str()
		case '{', '[':
			depth++
			c.pos++
		case '}', ']':
			if depth == 0 {
				return c.src[start:c.pos]
			}
			depth--
			c.pos++
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return c.src[start:c.pos]
			}
			c.pos++
		default:
			c.pos++
		}
		if depth == 0 && (c.src[c.pos-1] == '"' || c.src[c.pos-1] == '}' || c.src[c.pos-1] == ']') {
			break
		}
	}
	return c.src[start:c.pos]
}

// str passes over one string and gives it as it is written, quotes included.
func (c *checker) str() string {
	start := c.pos
	for c.pos++; c.src[c.pos] != '"'; c.pos++ {
		if c.src[c.pos] == '\\' {
			c.pos++
		}
	}
	c.pos++
	return c.src[start:c.pos]
}

func kindOf(first byte) string {
	switch first {
	case '{':
		return huma.TypeObject
	case '[':
		return huma.TypeArray
	case '"':
		return huma.TypeString
	case 't', 'f':
		return huma.TypeBoolean
	case 'n':
		return typeNull
	}
	return huma.TypeNumber
}
