package web

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth bounds how deep objects and arrays are nested, the outermost counted.
const MaxDepth = 16

// Kind is what a JSON value is, in the words of JSON Schema.
type Kind string

// The kinds. KindNone means that no value begins here.
const (
	KindNone    Kind = ""
	KindObject  Kind = "object"
	KindArray   Kind = "array"
	KindString  Kind = "string"
	KindNumber  Kind = "number"
	KindBoolean Kind = "boolean"
	KindNull    Kind = "null"
)

// JSONReader reads one JSON value from front to back. Make it with NewJSONReader. After an error only Where may be
// called.
type JSONReader struct {
	src string
	pos int
	// nameAt is where the name of the member being visited begins.
	nameAt int
	depth  int // open objects and arrays; path[:depth] leads to the value that is read
	path   [MaxDepth]step
}

// NewJSONReader begins to read src, which may have at most limit bytes. All errors
// of a JSONReader are of type *JSONError.
func NewJSONReader(src []byte, limit int) (JSONReader, error) {
	if len(src) > limit {
		return JSONReader{}, &JSONError{Problem: fmt.Sprintf("longer than %d bytes", limit), Offset: -1, Syntax: true}
	}
	r := JSONReader{src: string(src)}
	switch {
	case strings.HasPrefix(r.src, "\uFEFF"):
		return JSONReader{}, r.syntax("a byte order mark (EF BB BF), which must be left out")
	case strings.HasPrefix(r.src, "\x1f\x8b"):
		return JSONReader{}, r.syntax("compressed with gzip; send it as it is")
	}
	if !utf8.ValidString(r.src) {
		for i, c := range r.src { // a valid U+FFFD has three bytes
			if c == utf8.RuneError && !strings.HasPrefix(r.src[i:], "\uFFFD") {
				r.pos = i
				break
			}
		}
		return JSONReader{}, r.syntax("not valid UTF-8")
	}
	return r, nil
}

// Where names the value that is being read, as JSONError.Where does.
func (r *JSONReader) Where(root string) string { return where(root, r.path[:r.depth]) }

// Kind returns the kind of the next value, judged by its first byte.
func (r *JSONReader) Kind() Kind {
	r.space()
	switch c := r.peek(); {
	case c == '{':
		return KindObject
	case c == '[':
		return KindArray
	case c == '"':
		return KindString
	case c == '-' || c >= '0' && c <= '9':
		return KindNumber
	case c == 't' || c == 'f':
		return KindBoolean
	case c == 'n':
		return KindNull
	}
	return KindNone
}

// Object reads an object. It calls visit with each member's name; visit must
// read the member's value. A name that comes a second time is an error.
func (r *JSONReader) Object(visit func(name string) error) error {
	if err := r.open('{'); err != nil {
		return err
	}
	var few [16]string // on the stack
	names := few[:0]
	var many map[string]struct{}
	r.space()
	if r.peek() == '}' {
		r.close()
		return nil
	}
	here := &r.path[r.depth-1]
	for {
		r.space()
		if r.peek() != '"' {
			return r.syntax("a member name is missing")
		}
		from := r.pos
		name, err := r.str()
		if err != nil {
			return ofName(err)
		}
		here.name, here.inArray = name, false
		if duplicate(names, &many, name) {
			return r.refuse("occurs twice")
		}
		if many == nil {
			names = append(names, name)
		}
		r.space()
		if r.peek() != ':' {
			return r.syntax("no colon")
		}
		r.pos++
		r.space()
		r.nameAt = from
		if err := visit(name); err != nil {
			return err
		}
		r.space()
		switch r.peek() {
		case ',':
			r.pos++
		case '}':
			r.close()
			return nil
		default:
			return r.syntax("a comma or closing brace is missing")
		}
	}
}

// Array reads an array. It calls visit with each element's index; visit must
// read the element.
func (r *JSONReader) Array(visit func(index int) error) error {
	if err := r.open('['); err != nil {
		return err
	}
	r.space()
	if r.peek() == ']' {
		r.close()
		return nil
	}
	for i := 0; ; i++ {
		r.path[r.depth-1] = step{index: i, inArray: true}
		r.space()
		if err := visit(i); err != nil {
			return err
		}
		r.space()
		switch r.peek() {
		case ',':
			r.pos++
		case ']':
			r.close()
			return nil
		default:
			return r.syntax("a comma or closing bracket is missing")
		}
	}
}

// Text reads a string and returns its text.
func (r *JSONReader) Text() (string, error) {
	r.space()
	if r.peek() != '"' {
		return "", r.syntax("no string")
	}
	return r.str()
}

// Value reads a value of any kind and returns it as it is written.
func (r *JSONReader) Value() (raw string, err error) {
	r.space()
	start := r.pos
	err = r.value()
	return r.src[start:r.pos], err
}

// End fails unless only white space follows.
func (r *JSONReader) End() error {
	r.space()
	if r.pos != len(r.src) {
		return r.syntax("more follows the value")
	}
	return nil
}

func (r *JSONReader) value() error {
	switch c := r.peek(); {
	case c == '{':
		return r.Object(func(string) error { return r.value() })
	case c == '[':
		return r.Array(func(int) error { return r.value() })
	case c == '"':
		_, err := r.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	}
	for _, word := range []string{"null", "true", "false"} {
		if strings.HasPrefix(r.src[r.pos:], word) {
			r.pos += len(word)
			return nil
		}
	}
	return r.syntax("no value")
}

// str reads a string, whose quote is next, and returns its text, which is a part of src if the string has no escapes.
func (r *JSONReader) str() (string, error) {
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
func (r *JSONReader) plain() {
	src, i := r.src, r.pos
	for i < len(src) && src[i] >= 0x20 && src[i] != '"' && src[i] != '\\' {
		i++
	}
	r.pos = i
}

func (r *JSONReader) escape() (rune, error) {
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
func (r *JSONReader) unicode() (rune, error) {
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

func (r *JSONReader) hex4() (rune, error) {
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

func (r *JSONReader) number() error {
	if r.peek() == '-' {
		r.pos++
	}
	if r.peek() == '0' {
		r.pos++
	} else if err := r.digits(); err != nil {
		return err
	}
	if r.peek() == '.' {
		r.pos++
		if err := r.digits(); err != nil {
			return err
		}
	}
	if c := r.peek(); c == 'e' || c == 'E' {
		r.pos++
		if c := r.peek(); c == '+' || c == '-' {
			r.pos++
		}
		return r.digits()
	}
	return nil
}

func (r *JSONReader) digits() error {
	start := r.pos
	for c := r.peek(); c >= '0' && c <= '9'; c = r.peek() {
		r.pos++
	}
	if r.pos == start {
		return r.syntax("no digit")
	}
	return nil
}

// open enters an object or an array.
func (r *JSONReader) open(bracket byte) error {
	r.space()
	if r.peek() != bracket {
		return r.syntax("no " + string(bracket))
	}
	if r.depth == MaxDepth {
		return r.refuse("is nested too deeply")
	}
	r.pos++
	r.path[r.depth] = step{}
	r.depth++
	return nil
}

// close leaves it.
func (r *JSONReader) close() {
	r.pos++
	r.depth--
}

func (r *JSONReader) peek() byte {
	if r.pos < len(r.src) {
		return r.src[r.pos]
	}
	return 0 // no JSON token begins with it
}

func (r *JSONReader) space() {
	for r.pos < len(r.src) {
		switch r.src[r.pos] {
		case ' ', '\t', '\r', '\n':
			r.pos++
		default:
			return
		}
	}
}

func (r *JSONReader) syntax(problem string) error {
	return &JSONError{Problem: problem, Offset: r.pos, Syntax: true}
}

func (r *JSONReader) refuse(problem string) error {
	return &JSONError{Problem: problem, Offset: r.pos, path: slices.Clone(r.path[:r.depth])}
}

// ofName turns a fault in a member's name into a fault of its object, because the name cannot be given.
func ofName(err error) error {
	if e, ok := err.(*JSONError); ok && !e.Syntax {
		e.Problem = "has a member name that " + e.Problem
		e.path = e.path[:len(e.path)-1]
	}
	return err
}

// duplicate looks name up among names. A large object moves to a map, because a
// loop would make a hostile one quadratic.
func duplicate(names []string, many *map[string]struct{}, name string) bool {
	if len(names) < 32 {
		return slices.Contains(names, name)
	}
	if *many == nil {
		*many = make(map[string]struct{}, 64)
		for _, earlier := range names {
			(*many)[earlier] = struct{}{}
		}
	}
	before := len(*many)
	(*many)[name] = struct{}{}
	return len(*many) == before
}
