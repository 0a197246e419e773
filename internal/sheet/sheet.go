// Package sheet writes the entries of a list as CSV that a spreadsheet can open without running
// any of it.
package sheet

import (
	"bytes"
	"encoding"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"
)

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// Columns gives the members of an entry of type t in their order. The members of an object in it
// follow its name and a dot; arrays and maps are one column.
func Columns(t reflect.Type) []string { return columns(t, "", nil) }

func columns(t reflect.Type, prefix string, around []reflect.Type) (all []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() || name == "" && f.Anonymous { // the fields of an embedded struct come by themselves
			continue
		}
		if name == "" {
			name = f.Name
		}
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && !isValue(of) && len(around) < 4 {
			all = append(all, columns(of, prefix+name+".", append(around, t))...)
			continue
		}
		all = append(all, prefix+name)
	}
	return all
}

// isValue reports whether a struct is one value in JSON.
func isValue(t reflect.Type) bool {
	for _, is := range []reflect.Type{t, reflect.PointerTo(t)} {
		if is.Implements(marshaler) || is.Implements(textMarshaler) {
			return true
		}
	}
	return false
}

// Writer writes rows.
type Writer struct {
	w       *csv.Writer
	columns []string
}

// NewWriter writes the columns as the first row, which Flush sends.
func NewWriter(w io.Writer, columns []string) *Writer {
	s := &Writer{csv.NewWriter(w), columns}
	_ = s.w.Write(columns) // Flush gives the error
	return s
}

// Write adds an entry, an object of JSON. A member that it lacks is an empty cell.
func (s *Writer) Write(entry json.RawMessage) error {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(entry))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		return fmt.Errorf("reading an entry: %w", err)
	}
	row := make([]string, len(s.columns))
	for i, c := range s.columns {
		row[i] = cell(members, c)
	}
	return s.w.Write(row)
}

// Note adds a row with a text in its first cell, for people.
func (s *Writer) Note(text string) error {
	row := make([]string, len(s.columns))
	row[0] = harmless(text)
	return s.w.Write(row)
}

// Flush sends what was written.
func (s *Writer) Flush() error {
	s.w.Flush()
	return s.w.Error()
}

// cell gives the member at a path. Numbers keep their digits.
func cell(members map[string]any, path string) string {
	name, rest, deeper := strings.Cut(path, ".")
	switch v := members[name].(type) {
	case nil:
		return ""
	case string:
		return harmless(v)
	case map[string]any:
		if deeper {
			return cell(v, rest)
		}
		return asJSON(v)
	case []any:
		return asJSON(v)
	default:
		return fmt.Sprint(v)
	}
}

func asJSON(v any) string {
	b, _ := json.Marshal(v) // it was read from JSON
	return string(b)
}

// harmless makes a text that a spreadsheet would take for a formula a text there too, by an
// apostrophe before it. Some programs leave out white space at the beginning, and take the wide
// forms of the characters for them.
func harmless(text string) string {
	first := strings.TrimLeftFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
	if strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "\r") || strings.HasPrefix(text, "\n") || first != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(first)[0]) {
		return "'" + text
	}
	return text
}
