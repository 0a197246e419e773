// Package sheet writes what others wrote for people: the entries of a list as CSV that a
// spreadsheet can open without running any of it, and texts that cannot steer a terminal.
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

// Columns returns the members of an entry of type t in their order. The members of an object in it
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
	// Terminal has the cells shown on one: see Printable. False: they keep every character.
	Terminal bool

	w       *csv.Writer
	columns []string
}

// NewWriter writes the columns as the first row, which Flush sends.
func NewWriter(w io.Writer, columns []string) *Writer {
	s := &Writer{w: csv.NewWriter(w), columns: columns}
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
		if row[i] = cell(members, c); s.Terminal {
			row[i] = Printable(row[i])
		}
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

// cell returns the member at a path. Numbers keep their digits.
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
	return harmless(string(b))
}

// harmless makes a text that a spreadsheet would take for a formula a text there too, by an
// apostrophe before it. Programs also cut a cell at a semicolon, a tab, a bar or the end of a line,
// as their country's settings say, so every piece begins a cell. Some leave out quotes and white
// space at the beginning, and take the wide forms of the characters for them.
func harmless(text string) string {
	var b strings.Builder
	for from := 0; from <= len(text); {
		end := len(text)
		if i := strings.IndexAny(text[from:], ";\t|\r\n"); i >= 0 {
			end = from + i + 1
		}
		piece := text[from:end]
		first := strings.TrimLeftFunc(piece, func(r rune) bool {
			return r == '"' || unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
		})
		if first != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(first)[0]) || from == 0 && piece != "" && strings.Contains("\t\r\n", piece[:1]) {
			b.WriteByte('\'')
		}
		b.WriteString(piece)
		if end == len(text) {
			break
		}
		from = end
	}
	return b.String()
}
