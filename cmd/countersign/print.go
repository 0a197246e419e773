package main

import (
	"bytes"
	"cmp"
	"context"
	"countersign/client"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// listFlags are the flags of every list.
type listFlags struct {
	Set   []string `arg:"" optional:"" name:"name=value" help:"Filter, such as merchant=shop, state=open or since=7d. countersign api OPERATION --members lists the parameters."`
	Limit int      `help:"Largest number of lines." default:"100" env:"-"`
	JSON  *bool    `name:"json" negatable:"" env:"-" help:"Print a line of JSON for each, or with --no-json a table. Default: a table on a terminal, JSON elsewhere."`
}

// mostEntries bounds the entries of a page.
const mostEntries = 1000

// list prints the entries of an operation page by page. columns are the columns of the table, separated by |. A title
// is also the name of its member (TRACKING ID of trackingId), unless TITLE=MEMBER names another. Of several members,
// separated by commas, the first that is present counts.
func (f connection) list(ctx context.Context, std streams, of end, operation, columns string, flags listFlags, is,
	what string) error {
	r, err := f.begin(std, of, operation, requestFlags{Set: flags.Set}, is, what)
	if err != nil {
		return err
	}
	_, paged := r.member("limit")
	if paged {
		r.query.Set("limit", strconv.Itoa(min(mostEntries, flags.Limit+1)))
	}
	table := isTerminal(std.out)
	if flags.JSON != nil {
		table = !*flags.JSON
	}
	var rows [][]string
	if table {
		rows = append(rows, cells(columns, nil))
	}
	for n := 0; ; {
		answer, err := r.send(ctx)
		if err != nil {
			return err
		}
		var page client.List[json.RawMessage]
		if err := json.Unmarshal(answer, &page); err != nil {
			return err
		}
		for _, e := range page.Items {
			if n++; paged && n > flags.Limit {
				fmt.Fprintf(std.err, "countersign: there are more; raise --limit\n")
				return writeTable(std.out, rows)
			}
			if table {
				rows = append(rows, cells(columns, e))
			} else if err := printJSON(std.out, e, ""); err != nil {
				return err
			}
		}
		if page.Next == nil {
			return writeTable(std.out, rows)
		}
		r.query.Set("cursor", *page.Next)
	}
}

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
