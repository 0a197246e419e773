package web

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
)

// JSONText returns the text of a string that a JSONReader has read as raw.
func JSONText(raw string) string {
	if inner := raw[1 : len(raw)-1]; strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	r := JSONReader{src: raw}
	text, _ := r.str()
	return text
}

// JSONInt reads a number without fraction and exponent that fits into an int64. It refuses -0, because not all readers
// take it for 0.
func JSONInt(raw string) (int64, bool) {
	n, err := strconv.ParseInt(raw, 10, 64)
	return n, err == nil && raw != "-0"
}

// CompactJSON removes the white space between the tokens of a value that a JSONReader
// has read as raw.
func CompactJSON(raw string) string {
	if !strings.ContainsAny(raw, " \t\r\n") {
		return raw
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(raw)); err != nil {
		return raw // cannot be: it is JSON
	}
	return b.String()
}

// Folded finds the known name that differs from name in case alone. encoding/json and others take such a member for the
// known one.
func Folded(known iter.Seq[string], name string) (string, bool) {
	for k := range known {
		if strings.EqualFold(k, name) {
			return k, true
		}
	}
	return "", false
}
