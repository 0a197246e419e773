package console

import (
	"encoding"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"strings"
	"time"

	"countersign/client"
)

// The bounds on a list as CSV: the pages of the API read for it, which may be empty if few entries match the filter. A
// spreadsheet takes a million rows.
const (
	sheetPages = 1000
	sheetPage  = 1000 // entries
	sheetWrite = 30 * time.Second
)

// wantsSheet reports whether the address asks for the list as CSV.
func (v *visit) wantsSheet() bool { return v.query("format") == "csv" }

// CSV returns the address of this page's list as CSV, with the same filter.
func (f frame) CSV() string {
	q := f.v.r.URL.Query()
	q.Del("cursor")
	q.Del("did")
	q.Set("format", "csv")
	return f.Path + "?" + q.Encode()
}

// writeSheet answers with the entries of all pages of a list as CSV.
func writeSheet[T any](v *visit, read func(client.PageOptions) (client.List[T], error)) error {
	o := client.PageOptions{Limit: sheetPage}
	page, err := read(o)
	if err != nil {
		return err // nothing has gone out: a page says what is wrong
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-%s-%s.csv"`, v.c.end.name, path.Base(v.r.URL.Path),
		v.c.Now().UTC().Format("20060102T150405Z")))
	out := http.NewResponseController(v.w)
	cols := columns(reflect.TypeFor[T](), "", 0)
	w := csv.NewWriter(v.w)
	_ = w.Write(cols) // Flush returns its error
	for pages := 1; ; pages++ {
		for _, entry := range page.Items {
			_ = w.Write(cells(entry, cols))
		}
		next, full := page.Next, pages == sheetPages
		if next != nil && full {
			row := make([]string, len(cols))
			row[0] = fmt.Sprintf("There may be more: a file has at most %d pages of %d rows. Ask for a shorter time.",
				sheetPages, sheetPage)
			_ = w.Write(row)
		}
		_ = out.SetWriteDeadline(time.Now().Add(sheetWrite)) // a writer without deadlines is a test's
		w.Flush()
		if err = w.Error(); err == nil && next != nil && !full {
			_ = out.Flush() // the next write returns the error
			o.Cursor = *next
			if page, err = read(o); err == nil {
				continue
			}
		}
		if err != nil { // the file must not look whole
			v.c.Log.Warn("console", "page", v.r.Pattern, "error", strings.Join(sentences(err), " "))
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// columns returns the members of an entry of type t in their order. Members of an object are named by its name, a dot
// and their own. Arrays and maps are one column.
func columns(t reflect.Type, prefix string, deep int) (all []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() || name == "" &&
			f.Anonymous { // the fields of an embedded struct come by themselves
			continue
		}
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && !isValue(of) && deep < 4 {
			all = append(all, columns(of, prefix+name+".", deep+1)...)
		} else {
			all = append(all, prefix+name)
		}
	}
	return all
}

// isValue reports whether a struct is a single value in JSON.
func isValue(t reflect.Type) bool {
	t = reflect.PointerTo(t)
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// cells returns a row: the members of an entry in the order of columns, as in JSON. A missing member is an empty cell.
func cells(entry any, columns []string) []string {
	raw, _ := json.Marshal(entry) // the API's client has read it from JSON
	row := make([]string, len(columns))
	for i, c := range columns {
		at := raw
		for name := range strings.SplitSeq(c, ".") {
			var members map[string]json.RawMessage
			_ = json.Unmarshal(at, &members) // an absent object has no members
			at = members[name]
		}
		text := string(at)
		switch {
		case text == "null":
			text = ""
		case strings.HasPrefix(text, `"`):
			_ = json.Unmarshal(at, &text)
			text = harmless(text)
		case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
			text = harmless(text)
		}
		row[i] = text // numbers keep their digits
	}
	return row
}

// formula matches where a cell may begin like a formula. Depending on a country's settings, programs also split a cell
// at a semicolon, a tab, a bar or a line end. Some ignore leading quotes and white space, and treat wide forms as the
// characters themselves.
var formula = regexp.MustCompile("(^|[;\t|\r\n])([\"\\p{Z}\\p{Cf}\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\u009f]*[=+\\-@＝＋－＠])")

// harmless returns text with an apostrophe before any part that a spreadsheet would take for a formula.
func harmless(text string) string {
	safe := formula.ReplaceAllString(text, "$1'$2")
	if text != "" && strings.Contains("\t\r\n", text[:1]) {
		safe = "'" + safe
	}
	return safe
}
