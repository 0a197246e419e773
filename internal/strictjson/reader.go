package strictjson

import (
	"fmt"
	"slices"
	"strings"
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

// Reader reads one JSON value from front to back. Make it with NewReader. After an error only Where may be called.
type Reader struct {
	src string
	pos int
	// nameAt is where the name of the member being visited begins.
	nameAt int
	depth  int // open objects and arrays; path[:depth] leads to the value that is read
	path   [MaxDepth]step
}

// NewReader begins to read src, which may have at most limit bytes. All errors
// of a Reader are of type *Error.
func NewReader(src []byte, limit int) (Reader, error) {
	if len(src) > limit {
		return Reader{}, &Error{Problem: fmt.Sprintf("longer than %d bytes", limit), Offset: -1, Syntax: true}
	}
	r := Reader{src: string(src)}
	switch {
	case strings.HasPrefix(r.src, "\uFEFF"):
		return Reader{}, r.syntax("a byte order mark (EF BB BF), which must be left out")
	case strings.HasPrefix(r.src, "\x1f\x8b"):
		return Reader{}, r.syntax("compressed with gzip; send it as it is")
	}
	if !utf8.ValidString(r.src) {
		for i, c := range r.src { // a valid U+FFFD has three bytes
			if c == utf8.RuneError && !strings.HasPrefix(r.src[i:], "\uFFFD") {
				r.pos = i
				break
			}
		}
		return Reader{}, r.syntax("not valid UTF-8")
	}
	return r, nil
}

// Where names the value that is being read, as Error.Where does.
func (r *Reader) Where(root string) string { return where(root, r.path[:r.depth]) }

// Kind returns the kind of the next value, judged by its first byte.
func (r *Reader) Kind() Kind {
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
func (r *Reader) Object(visit func(name string) error) error {
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
func (r *Reader) Array(visit func(index int) error) error {
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
func (r *Reader) Text() (string, error) {
	r.space()
	if r.peek() != '"' {
		return "", r.syntax("no string")
	}
	return r.str()
}

// Value reads a value of any kind and returns it as it is written.
func (r *Reader) Value() (raw string, err error) {
	r.space()
	start := r.pos
	err = r.value()
	return r.src[start:r.pos], err
}

// End fails unless only white space follows.
func (r *Reader) End() error {
	r.space()
	if r.pos != len(r.src) {
		return r.syntax("more follows the value")
	}
	return nil
}

func (r *Reader) value() error {
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

func (r *Reader) number() error {
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

func (r *Reader) digits() error {
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
func (r *Reader) open(bracket byte) error {
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
func (r *Reader) close() {
	r.pos++
	r.depth--
}

func (r *Reader) peek() byte {
	if r.pos < len(r.src) {
		return r.src[r.pos]
	}
	return 0 // no JSON token begins with it
}

func (r *Reader) space() {
	for r.pos < len(r.src) {
		switch r.src[r.pos] {
		case ' ', '\t', '\r', '\n':
			r.pos++
		default:
			return
		}
	}
}

func (r *Reader) syntax(problem string) error {
	return &Error{Problem: problem, Offset: r.pos, Syntax: true}
}

func (r *Reader) refuse(problem string) error {
	return &Error{Problem: problem, Offset: r.pos, path: slices.Clone(r.path[:r.depth])}
}

// ofName turns a fault in a member's name into a fault of its object, because the name cannot be given.
func ofName(err error) error {
	if e, ok := err.(*Error); ok && !e.Syntax {
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
