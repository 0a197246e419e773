package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/sheet"
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
	for _, own := range []string{"cursor", "did", "after", "saved"} {
		q.Del(own)
	}
	q.Set("format", "csv")
	return (&url.URL{Path: f.v.r.URL.Path, RawQuery: q.Encode()}).String()
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
	w := sheet.NewWriter(v.w, sheet.Columns(t.Field(entries).Type.Elem()))
	rows := 0
	for pages := 1; ; pages++ {
		list := reflect.ValueOf(part).Field(entries)
		for i := 0; i < list.Len() && rows < sheetRows && err == nil; i++ {
			rows++
			var entry json.RawMessage
			if entry, err = json.Marshal(list.Index(i).Interface()); err == nil {
				err = w.Write(entry)
			}
		}
		full := rows == sheetRows || pages == sheetPages
		if err == nil && more && full {
			err = w.Note(fmt.Sprintf("There may be more: a file has at most %d rows of %d pages. Ask for a shorter time.", sheetRows, sheetPages))
		}
		_ = out.SetWriteDeadline(time.Now().Add(sheetWrite)) // a writer without deadlines is a test's
		if err == nil {
			err = w.Flush()
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
