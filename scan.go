package countersign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a message, its own object counted.
const maxDepth = 16

// object is a scanned JSON object: its members in their order, their values as
// spans of src. Names and texts are parts of src too, where they have no escapes.
type object struct {
	src     string
	members []span
}

type span struct {
	name       string
	start, end int // of the value
}

// scanObject accepts exactly one JSON object (RFC 8259), white space around it
// allowed, and nothing else. It refuses what readers of JSON disagree on,
// because a merchant's other software may read the same bytes: invalid UTF-8,
// unpaired surrogates, U+0000, duplicate names at any depth, nesting beyond
// maxDepth.
func scanObject(src []byte) (*object, error) {
	if len(src) > MaxMessage {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrMalformed, MaxMessage)
	}
	if !utf8.Valid(src) {
		return nil, fmt.Errorf("%w: not valid UTF-8", ErrMalformed)
	}
	s := scanner{src: string(src)}
	s.space()
	if s.peek() != '{' {
		return nil, fmt.Errorf("%w: not a JSON object", ErrMalformed)
	}
	members, err := s.object(1)
	if err == nil {
		s.space()
		if s.pos != len(src) {
			err = s.fail("more after the object")
		}
	}
	if err != nil {
		return nil, err
	}
	return &object{s.src, members}, nil
}

func (o *object) find(name string) (span, bool) {
	for _, m := range o.members {
		if m.name == name {
			return m, true
		}
	}
	return span{}, false
}

// requestType reads the member that chooses the parser of a request.
func (o *object) requestType() (Type, error) {
	m, ok := o.find("type")
	if !ok {
		return 0, &MemberError{"type", "is missing"}
	}
	n, ok := wholeNumber(o.src[m.start:m.end])
	if !ok {
		return 0, &MemberError{"type", "is not a whole number"}
	}
	return Type(n), nil
}

// wholeNumber reads a JSON number without fraction and exponent. It keeps to
// the range in which every reader of JSON is exact.
func wholeNumber(raw string) (int64, bool) {
	const exact = 1<<53 - 1
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || n > exact || n < -exact || raw == "-0" {
		return 0, false
	}
	return n, true
}

type scanner struct {
	src string
	pos int
}

func (s *scanner) fail(what string) error {
	return fmt.Errorf("%w: %s at byte %d", ErrMalformed, what, s.pos)
}

func (s *scanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0 // no JSON token begins with it
}

func (s *scanner) space() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) object(depth int) ([]span, error) {
	if depth > maxDepth {
		return nil, s.fail("nested too deeply")
	}
	s.pos++ // {
	members := make([]span, 0, 16)
	var names map[string]struct{} // only for large objects
	s.space()
	if s.peek() == '}' {
		s.pos++
		return members, nil
	}
	for {
		s.space()
		if s.peek() != '"' {
			return nil, s.fail("no member name")
		}
		name, err := s.str()
		if err != nil {
			return nil, err
		}
		if duplicate(members, &names, name) {
			return nil, &MemberError{name, "is there twice"}
		}
		s.space()
		if s.peek() != ':' {
			return nil, s.fail("no colon")
		}
		s.pos++
		s.space()
		m := span{name: name, start: s.pos}
		if err := s.value(depth); err != nil {
			return nil, err
		}
		m.end = s.pos
		members = append(members, m)
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return members, nil
		default:
			return nil, s.fail("no comma or closing brace")
		}
	}
}

// duplicate looks name up among members, through a map once a loop would make
// a hostile object quadratic.
func duplicate(members []span, names *map[string]struct{}, name string) bool {
	if len(members) < 32 {
		for _, m := range members {
			if m.name == name {
				return true
			}
		}
		return false
	}
	if *names == nil {
		*names = make(map[string]struct{}, 64)
		for _, m := range members {
			(*names)[m.name] = struct{}{}
		}
	}
	_, there := (*names)[name]
	(*names)[name] = struct{}{}
	return there
}

func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '{':
		_, err := s.object(depth + 1)
		return err
	case c == '[':
		return s.array(depth + 1)
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range []string{"null", "true", "false"} {
		if strings.HasPrefix(s.src[s.pos:], word) {
			s.pos += len(word)
			return nil
		}
	}
	return s.fail("no value")
}

func (s *scanner) array(depth int) error {
	if depth > maxDepth {
		return s.fail("nested too deeply")
	}
	s.pos++ // [
	s.space()
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		s.space()
		if err := s.value(depth); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return nil
		default:
			return s.fail("no comma or closing bracket")
		}
	}
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.peek() == '.' {
		s.pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		return s.digits()
	}
	return nil
}

func (s *scanner) digits() error {
	start := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	if s.pos == start {
		return s.fail("no digit")
	}
	return nil
}

// str reads a JSON string and gives its text.
func (s *scanner) str() (string, error) {
	s.pos++ // the opening quote
	start := s.pos
	var text []byte // set once an escape was met
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == '"':
			s.pos++
			if text == nil {
				return s.src[start : s.pos-1], nil
			}
			return string(text), nil
		case c < 0x20:
			return "", s.fail("control character in a string")
		case c == '\\':
			if text == nil {
				text = append(make([]byte, 0, 64), s.src[start:s.pos]...)
			}
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			text = utf8.AppendRune(text, r)
		default:
			s.pos++
			if text != nil {
				text = append(text, c)
			}
		}
	}
	return "", s.fail("string without end")
}

func (s *scanner) escape() (rune, error) {
	s.pos++ // the backslash
	c := s.peek()
	s.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		r, err := s.hex4()
		if err != nil {
			return 0, err
		}
		if r == 0 {
			return 0, s.fail("U+0000 in a string") // databases and C strings end at it
		}
		if !utf16.IsSurrogate(r) {
			return r, nil
		}
		if s.peek() == '\\' && s.pos+1 < len(s.src) && s.src[s.pos+1] == 'u' {
			s.pos += 2
			low, err := s.hex4()
			if err != nil {
				return 0, err
			}
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, nil
			}
		}
		return 0, s.fail("unpaired surrogate")
	}
	return 0, s.fail("unknown escape")
}

func (s *scanner) hex4() (rune, error) {
	if s.pos+4 > len(s.src) {
		return 0, s.fail("short \\u escape")
	}
	n := rune(0)
	for i := 0; i < 4; i++ {
		c := s.src[s.pos+i]
		if !isHex(c) {
			return 0, s.fail("\\u escape without four hexadecimal digits")
		}
		d := rune(c - '0')
		if c > '9' {
			d = rune(c|0x20) - 'a' + 10
		}
		n = n<<4 | d
	}
	s.pos += 4
	return n, nil
}

// compact removes the white space between the tokens of a scanned value.
func compact(raw string) Raw {
	if !strings.ContainsAny(raw, " \t\r\n") {
		return Raw(raw)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(raw)); err != nil {
		return Raw(raw) // scanned before, so not reached; the value is kept either way
	}
	return Raw(b.String())
}

var errNotJSON = errors.New("is not one JSON value")

// checkRaw holds a value that did not come from the scanner to its rules.
func checkRaw(r Raw) error {
	if !utf8.ValidString(string(r)) {
		return errNotJSON
	}
	s := scanner{src: string(r)}
	s.space()
	if err := s.value(1); err != nil {
		return err
	}
	s.space()
	if s.pos != len(s.src) {
		return errNotJSON
	}
	return nil
}
