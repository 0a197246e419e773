package web

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// JSONError says why a text was refused and where. It never holds a value.
type JSONError struct {
	// Problem is "no colon" where Syntax is true, else a predicate of the
	// value, such as "occurs twice".
	Problem string
	// Offset is the byte at fault, -1 for a fault of the whole text.
	Offset int
	// Syntax means that the text is not JSON at all or too long; otherwise it
	// is JSON that readers disagree on.
	Syntax bool

	path []step
}

func (e *JSONError) Error() string {
	switch {
	case !e.Syntax:
		return e.Where("the value") + " " + e.Problem
	case e.Offset < 0:
		return e.Problem
	}
	return fmt.Sprintf("%s at byte %d", e.Problem, e.Offset)
}

// Where names the value at fault, such as "body.labels.a" or "body[3].amount"
// where root is "body".
func (e *JSONError) Where(root string) string { return where(root, e.path) }

// Member returns the name of the innermost member at fault, "" where the fault
// lies in no member.
func (e *JSONError) Member() string {
	for i := len(e.path) - 1; i >= 0; i-- {
		if !e.path[i].inArray {
			return e.path[i].name
		}
	}
	return ""
}

// step leads from a value to one inside it.
type step struct {
	name    string // of a member
	index   int    // of an element
	inArray bool
}

func where(root string, path []step) string {
	var b strings.Builder
	b.WriteString(root)
	for _, s := range path {
		if s.inArray {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		} else {
			b.WriteString("." + Printable(s.name))
		}
	}
	return b.String()
}

// Printable makes a name that the sender chose safe to show: at most 64 bytes, with question marks for what is not
// printable.
func Printable(name string) string {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, name)
}
