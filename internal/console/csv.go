package console

import (
	"bytes"
	"encoding"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"strings"
	"time"
	"unicode"

	"countersign/client"
)

// The bounds of a list as CSV: its rows, and how many pages of the API are read for them; where
// few entries pass the filter, pages may be empty.
const (
	sheetRows  = 100_000
	sheetPages = 2000
	sheetPage  = 1000 // entries
	sheetWrite = 30 * time.Second
)

// wantsSheet says whether the address asks for the list as CSV.
func (v *visit) wantsSheet() bool { return v.query("format") == "csv" }

// CSV is the address of this page's list as CSV, with the same filter.
func (f frame) CSV() string {
	q := f.v.r.URL.Query()
	q.Del("cursor")
	q.Del("did")
	q.Set("format", "csv")
	return f.Path + "?" + q.Encode()
}

// readList reads the page of a list that the address asks for. If it asks for CSV, all pages go
// out and done is true. P is a page of the API: one slice of entries, and Next.
func readList[P any](v *visit, read func(client.PageOptions) (P, error)) (page P, done bool, err error) {
	if !v.wantsSheet() {
		page, err = read(client.PageOptions{Limit: pageSize, Cursor: v.query("cursor")})
		return page, false, err
	}
	o := client.PageOptions{Limit: sheetPage}
	err = writeSheet(v, func() (P, bool, error) {
		part, err := read(o)
		next := nextOf(part)
		if next != nil {
			o.Cursor = *next
		}
		return part, next != nil, err
	})
	return page, true, err
}

// nextOf returns the cursor of the page after a page of the API; nil: there is none.
func nextOf(page any) *string {
	next := reflect.ValueOf(page).FieldByName("Next")
	if !next.IsValid() { // a list that has one page
		return nil
	}
	return next.Interface().(*string)
}

// entriesOf returns the number of the field of a page of the API that has its entries; -1: none has.
func entriesOf(page reflect.Type) int {
	for i := range page.NumField() {
		if f := page.Field(i).Type; f.Kind() == reflect.Slice && f.Elem().Kind() == reflect.Struct {
			return i
		}
	}
	return -1
}

// writeSheet answers with the entries of all parts of a list as CSV.
func writeSheet[P any](v *visit, read func() (part P, more bool, err error)) error {
	t := reflect.TypeFor[P]()
	entries := entriesOf(t)
	part, more, err := read()
	if err != nil {
		return err // nothing has gone out: a page says what is wrong
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-%s-%s.csv"`, v.c.end.name, path.Base(v.r.URL.Path), v.c.Now().UTC().Format("20060102T150405Z")))
	out := http.NewResponseController(v.w)
	w, cols := csv.NewWriter(v.w), columns(t.Field(entries).Type.Elem(), "", nil)
	err = w.Write(cols)
	rows := 0
	for pages := 1; ; pages++ {
		list := reflect.ValueOf(part).Field(entries)
		for i := 0; i < list.Len() && rows < sheetRows && err == nil; i++ {
			rows++
			var row []string
			if row, err = cells(list.Index(i).Interface(), cols); err == nil {
				err = w.Write(row)
			}
		}
		full := rows == sheetRows || pages == sheetPages
		if err == nil && more && full {
			row := make([]string, len(cols))
			row[0] = fmt.Sprintf("There may be more: a file has at most %d rows of %d pages. Ask for a shorter time.",
				sheetRows, sheetPages)
			err = w.Write(row)
		}
		_ = out.SetWriteDeadline(time.Now().Add(sheetWrite)) // a writer without deadlines is a test's
		if err == nil {
			w.Flush()
			err = w.Error()
		}
		if err == nil && more && !full {
			_ = out.Flush() // the next writing gives the error
			part, more, err = read()
		} else if err == nil {
			return nil
		}
		if err != nil {
			// The file must not look whole.
			v.c.Log.Warn("console", "page", v.r.Pattern, "error", strings.Join(sentences(err), " "))
			panic(http.ErrAbortHandler)
		}
	}
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// columns returns the members of an entry of type t in their order. The members of an object in it
// follow its name and a dot; arrays and maps are one column.
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

// cells returns a row: the members of an entry in the order of columns. A member that it lacks is
// an empty cell.
func cells(entry any, columns []string) ([]string, error) {
	raw, err := json.Marshal(entry)
	if err != nil {
		return nil, err
	}
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		return nil, err
	}
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = cell(members, c)
	}
	return row, nil
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
