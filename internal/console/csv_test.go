package console

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/lab/dbtest"
)

type inner struct {
	Amount countersign.Amount `json:"amount"`
	Note   string             `json:"note,omitempty"`
}

type Embedded struct {
	Name string `json:"name"`
}

type entry struct {
	ID string `json:"id"`
	Embedded
	At     client.Time       `json:"at,omitzero"`
	Inner  *inner            `json:"inner,omitempty"`
	N      int64             `json:"n"`
	Labels map[string]string `json:"labels,omitempty"`
	List   []string          `json:"list"`
	On     bool              `json:"on"`
	hidden string
	Out    string `json:"-"`
}

// TestColumns: the columns are the members in their order, and what comes out is what went in.
func TestColumns(t *testing.T) {
	cols := columns(reflect.TypeFor[entry](), "", 0)
	want := []string{"id", "name", "at", "inner.amount", "inner.note", "n", "labels", "list", "on"}
	if !slices.Equal(cols, want) {
		t.Fatalf("columns %q, want %q", cols, want)
	}
	a := dbtest.Must(countersign.ParseAmount("123456789012345678901.987654321098765432"))(t)
	rows := [][]string{cols}
	for _, e := range []entry{
		{ID: "a,\"b\"\nc", Embedded: Embedded{"ü"}, At: 1, Inner: &inner{Amount: a, Note: "=1+1"}, N: -1, Labels: map[string]string{"k": "=v"}, List: []string{"x", "y"}, On: true, hidden: "h", Out: "o"},
		{ID: "+1", N: 9007199254740993},
	} {
		rows = append(rows, cells(e, cols))
	}
	wantRows := [][]string{want,
		{"a,\"b\"\nc", "ü", "1970-01-01T00:00:00.001Z", a.String(), "'=1+1", "-1", `{"k":"=v"}`, `["x","y"]`, "true"},
		{"'+1", "", "", "", "", "9007199254740993", "", "", "false"}}
	if !reflect.DeepEqual(rows, wantRows) {
		t.Errorf("rows %q\nwant %q", rows, wantRows)
	}
}

// TestHarmless: no text begins as a formula does.
func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "1": "1", "'=1": "'=1", "a=1": "a=1", "0xabc": "0xabc",
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(1)": "'@SUM(1)", "\tx": "'\tx", "\rx": "'\rx", "\nx": "'\nx",
		" =1": "' =1", "\u200b=1": "'\u200b=1", "\ufeff=1": "'\ufeff=1", "＝1": "'＝1", "\u00a0@x": "'\u00a0@x", "=": "'=",
		"a;=1": "a;'=1", "a|+1|-2": "a|'+1|'-2", "a\t@x": "a\t'@x", "a\n =1": "a\n' =1", "a;\"=1\"": "a;'\"=1\"", "a;b|c\td": "a;b|c\td", "a;": "a;", ";=": ";'=", "a;\u200b＝1": "a;'\u200b＝1",
	} {
		if got := harmless(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

type grain struct {
	N int `json:"n"`
}

// TestSheetIsBounded: a list that is longer than a file says so in the last row, one that is as
// long does not, and one whose reading fails later is cut off, so that it does not look whole.
func TestSheetIsBounded(t *testing.T) {
	c := &Console{Config: Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}}
	write := func(pages, rows int, fails bool) (body string, err error) {
		w := httptest.NewRecorder()
		v := &visit{c: c, w: w, r: httptest.NewRequest("GET", "/console/callbacks?format=csv", nil)}
		defer func() {
			body = w.Body.String()
			if p := recover(); p != nil {
				err, _ = p.(error)
			}
		}()
		n := 0
		return "", writeSheet(v, func(client.PageOptions) (part client.List[grain], err error) {
			n++
			if fails && n > 1 {
				return part, errors.New("away")
			}
			if part.Items = make([]grain, rows); n < pages {
				part.Next = new(string)
			}
			return part, nil
		})
	}
	for pages, lines := range map[int]int{1: 4, sheetPages: 3*sheetPages + 1, sheetPages + 1: 3*sheetPages + 2} {
		body, err := write(pages, 3, false)
		if got := strings.Count(body, "\n"); err != nil || got != lines || strings.Contains(body, "There may be more") != (pages > sheetPages) {
			t.Errorf("%d pages: %d lines, %v", pages, got, err)
		}
	}
	if body, err := write(2, 5, true); !errors.Is(err, http.ErrAbortHandler) || strings.Count(body, "\n") != 6 {
		t.Errorf("%v %q", err, body)
	}
}
