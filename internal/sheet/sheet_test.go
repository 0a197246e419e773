package sheet

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
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

// TestSheet: the columns are the members in their order, and what comes out is what went in.
func TestSheet(t *testing.T) {
	columns := Columns(reflect.TypeFor[entry]())
	want := []string{"id", "name", "at", "inner.amount", "inner.note", "n", "labels", "list", "on"}
	if !slices.Equal(columns, want) {
		t.Fatalf("columns %q, want %q", columns, want)
	}
	a, err := countersign.ParseAmount("123456789012345678901.987654321098765432")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := NewWriter(&b, columns)
	for _, e := range []entry{
		{ID: "a,\"b\"\nc", Embedded: Embedded{"ü"}, At: 1, Inner: &inner{Amount: a, Note: "=1+1"}, N: -1, Labels: map[string]string{"k": "=v"}, List: []string{"x", "y"}, On: true, hidden: "h", Out: "o"},
		{ID: "+1", N: 9007199254740993},
	} {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Note("more"); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	wantRows := [][]string{want,
		{"a,\"b\"\nc", "ü", "1970-01-01T00:00:00.001Z", a.String(), "'=1+1", "-1", `{"k":"=v"}`, `["x","y"]`, "true"},
		{"'+1", "", "", "", "", "9007199254740993", "", "", "false"},
		{"more", "", "", "", "", "", "", "", ""}}
	if !reflect.DeepEqual(rows, wantRows) {
		t.Errorf("rows %q\nwant %q", rows, wantRows)
	}
	if err := w.Write(json.RawMessage(`[1]`)); err == nil {
		t.Error("an array was taken for an entry")
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

// TestPrintable: nothing that others wrote steers a terminal, turns its text round or is not seen.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "Zürich 東京 120.5": "Zürich 東京 120.5", `a\b`: `a\b`,
		"a\tb\nc":                               `a\u0009b\u000ac`,
		"\x1b[2Jx\u009b1m\x7f":                  `\u001b[2Jx\u009b1m\u007f`,
		"\u202etxt.exe\u2066":                   `\u202etxt.exe\u2066`,
		"U\u200bS\u200d\u00ad\ufeff\u2060":      `U\u200bS\u200d\u00ad\ufeff\u2060`,
		"a\u00a0b\u2009c\u3164\ufe0f\U000e0041": `a\u00a0b\u2009c\u3164\ufe0f\udb40\udc41`,
		"\xff\u2028":                            `\xff\u2028`,
	} {
		got := Printable(text)
		if got != want || Printable(got) != got {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
	raw := "{\n\t\"a\": \"\u202e\u009b\x7f\U000e0041 ü\"\n}"
	got := PrintableJSON([]byte(raw))
	var before, after any
	if json.Unmarshal([]byte(raw), &before) != nil || json.Unmarshal(got, &after) != nil || !reflect.DeepEqual(before, after) || strings.ContainsAny(string(got), "\u202e\u009b\x7f") {
		t.Errorf("%q becomes %q", raw, got)
	}
}

// TestSheetOnATerminal: the cells that a person sees on a terminal are shown, those of a file keep
// every character.
func TestSheetOnATerminal(t *testing.T) {
	for terminal, want := range map[bool]string{false: "id\n\u202ea\u009b\n", true: "id\n\\u202ea\\u009b\n"} {
		var b bytes.Buffer
		w := NewWriter(&b, []string{"id"})
		w.Terminal = terminal
		if err := errors.Join(w.Write(json.RawMessage("{\"id\":\"\u202ea\u009b\"}")), w.Flush()); err != nil || b.String() != want {
			t.Errorf("on a terminal %v: %q, %v", terminal, b.String(), err)
		}
	}
}
