package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// cells returns the row of an entry, or without one the titles.
func cells(columns string, raw json.RawMessage) (all []string) {
	var e map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&e) // what is no object has no members
	for c := range strings.SplitSeq(columns, "|") {
		title, member, named := strings.Cut(c, "=")
		if !named {
			member = camel(title)
		}
		text := map[bool]string{true: title}[raw == nil]
		for m := range strings.SplitSeq(member, ",") {
			text = cmp.Or(text, textOf(e, m))
		}
		all = append(all, text)
	}
	return all
}

// camel turns TRACKING ID into trackingId.
func camel(title string) string {
	words := strings.Fields(strings.ToLower(title))
	for i := 1; i < len(words); i++ {
		words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
	}
	return strings.Join(words, "")
}

// textOf returns a member as text, or "" if it is absent. Dots lead into objects.
func textOf(e map[string]any, path string) string {
	name, rest, deeper := strings.Cut(path, ".")
	switch v := e[name].(type) {
	case nil:
		return ""
	case map[string]any:
		if deeper {
			return textOf(v, rest)
		}
		b, _ := json.Marshal(v)
		return string(b)
	case []any:
		b, _ := json.Marshal(v)
		return string(b)
	default:
		return fmt.Sprint(v)
	}
}

// cell returns text for a cell, with a dash for none. It is one line without characters that a terminal would act on.
func cell(text string) string { return cmp.Or(onTerminal(text), "-") }

// writeTable writes rows with aligned columns.
func writeTable(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = cell(row[i])
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// printJSON writes v and a line end. It leaves <, > and & as they are. Without indent it writes one line.
func printJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(jsonOnTerminal(b.Bytes()))
	return err
}

// onTerminal escapes what a terminal would act on or not show: control characters of both sets (including ESC and DEL),
// marks that change the direction of the text, characters of no width, spaces that look like another one, and bytes
// that are not UTF-8. Every text that others wrote and a person reads passes through it. The escapes are those of JSON
// strings; applied again, onTerminal leaves them as they are.
func onTerminal(text string) string {
	return escaped(text, unseen)
}

// jsonOnTerminal does the same for JSON, without changing its values: the only control characters below DEL in JSON are
// line ends and tabs, which are its layout.
func jsonOnTerminal(text []byte) []byte {
	return []byte(escaped(string(text), func(r rune) bool { return r > '~' && r != utf8.RuneError && unseen(r) }))
}

func escaped(text string, escape func(rune) bool) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case !escape(r):
			b.WriteRune(r)
		case r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// unseen reports whether a character is not shown as itself. unicode.IsPrint takes some characters without a width for
// letters and marks.
func unseen(r rune) bool {
	return !unicode.IsPrint(r) || r == utf8.RuneError || r == '\u2800' ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
