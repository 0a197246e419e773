package strictjson

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string, whose quote is next, and returns its text, which is a part of src if the string has no escapes.
func (r *Reader) str() (string, error) {
	r.pos++
	from := r.pos // of the characters that text lacks
	var text []byte
	for {
		r.plain()
		switch {
		case r.pos == len(r.src):
			return "", r.syntax("a string does not end")
		case r.src[r.pos] == '"':
			rest := r.src[from:r.pos]
			r.pos++
			if text == nil {
				return rest, nil
			}
			return string(append(text, rest...)), nil
		case r.src[r.pos] != '\\':
			return "", r.syntax("a control character is in a string")
		}
		if text == nil {
			text = make([]byte, 0, 64)
		}
		text = append(text, r.src[from:r.pos]...)
		char, err := r.escape()
		if err != nil {
			return "", err
		}
		text = utf8.AppendRune(text, char)
		from = r.pos
	}
}

// plain skips the characters of a string that are not escaped.
func (r *Reader) plain() {
	src, i := r.src, r.pos
	for i < len(src) && src[i] >= 0x20 && src[i] != '"' && src[i] != '\\' {
		i++
	}
	r.pos = i
}

func (r *Reader) escape() (rune, error) {
	r.pos++ // the backslash
	c := r.peek()
	switch c {
	case '"', '\\', '/':
		r.pos++
		return rune(c), nil
	case 'u':
		r.pos++
		return r.unicode()
	}
	at := strings.IndexByte("bfnrt", c)
	if at < 0 {
		return 0, r.syntax("unknown escape")
	}
	r.pos++
	return rune("\b\f\n\r\t"[at]), nil
}

// unicode reads what follows \u. Two escapes that are a surrogate pair are one
// character.
func (r *Reader) unicode() (rune, error) {
	unit, err := r.hex4()
	if err != nil {
		return 0, err
	}
	if unit == 0 {
		return 0, r.refuse("holds U+0000") // PostgreSQL cannot keep it, and C strings end at it
	}
	if !utf16.IsSurrogate(unit) {
		return unit, nil
	}
	if strings.HasPrefix(r.src[r.pos:], `\u`) {
		r.pos += 2
		low, err := r.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(unit, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, r.refuse("holds half of a surrogate pair")
}

func (r *Reader) hex4() (rune, error) {
	if r.pos+4 > len(r.src) {
		return 0, r.syntax("short \\u escape")
	}
	n := rune(0)
	for _, c := range []byte(r.src[r.pos : r.pos+4]) {
		d := rune(c|0x20) - 'a' + 10
		if c >= '0' && c <= '9' {
			d = rune(c - '0')
		} else if d < 10 || d > 15 {
			return 0, r.syntax("\\u escape without four hexadecimal digits")
		}
		n = n<<4 | d
	}
	r.pos += 4
	return n, nil
}

// Text returns the text of a string that a Reader has read as raw.
func Text(raw string) string {
	if inner := raw[1 : len(raw)-1]; strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	r := Reader{src: raw}
	text, _ := r.str()
	return text
}

// Int reads a number without fraction and exponent that fits into an int64. It refuses -0, because not all readers take
// it for 0.
func Int(raw string) (int64, bool) {
	n, err := strconv.ParseInt(raw, 10, 64)
	return n, err == nil && raw != "-0"
}

// Compact removes the white space between the tokens of a value that a Reader
// has read as raw.
func Compact(raw string) string {
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
