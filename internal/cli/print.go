package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/sheet"
)

// list says how an operation answers a list: whole, page by page, or as a feed.
type list struct {
	entries    string // the member that has them
	entry      reflect.Type
	page, feed bool
}

// listOf returns nil if o does not answer a list: one member that is an array of objects, and
// next where there may be more.
func listOf(o *api.Operation) *list {
	if o.Out == nil || o.Out.Kind() != reflect.Struct {
		return nil
	}
	l := &list{}
	for _, f := range reflect.VisibleFields(o.Out) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct && l.entries == "":
			l.entries, l.entry = name, f.Type.Elem()
		case name != "next":
			return nil
		}
	}
	for _, m := range membersOf(o.Query, inQuery) {
		l.page = l.page || m.path[0] == "cursor"
		l.feed = l.feed || m.path[0] == "after"
	}
	if l.entries == "" {
		return nil
	}
	return l
}

func (l *list) paged() bool { return l.page || l.feed }

// pages says whether a parameter of the query selects only the part that is read next.
func (l *list) pages(name string) bool {
	return l.page && name == "cursor" || l.paged() && name == "limit" || l.feed && name == "wait"
}

// The most entries of a call, and how long one waits for more.
const (
	mostEntries = 1000
	waitForMore = "30s"
)

// each calls do with the entries of a list until do gives false, and part after each page.
func (l *list) each(ctx context.Context, client *client.Service, r request, follow bool, do func(json.RawMessage) bool, part func() error) error {
	if l.paged() {
		r.query.Set("limit", strconv.Itoa(mostEntries))
	}
	if follow {
		r.query.Set("wait", waitForMore)
	}
	for {
		answer, err := client.Call(ctx, r.op.Method, r.path+encoded(r.query), r.body)
		if err != nil {
			return err
		}
		var members map[string]json.RawMessage
		var entries []json.RawMessage
		if err := errors.Join(json.Unmarshal(answer, &members), json.Unmarshal(members[l.entries], &entries)); err != nil {
			return fmt.Errorf("reading the answer: %w", err)
		}
		for _, e := range entries {
			if !do(e) {
				return nil
			}
		}
		if err := part(); err != nil {
			return err
		}
		next := strings.Trim(string(members["next"]), `"`)
		switch {
		case l.feed && (follow || len(entries) > 0):
			r.query.Set("after", next)
			r.query.Del("reader")
		case l.page && next != "null" && next != "":
			r.query.Set("cursor", next)
		default:
			return nil
		}
	}
}

// printList prints a list as a table, as CSV, as lines of JSON or as an array.
func (k *Call) printList(ctx context.Context, client *client.Service, std Streams, r request) error {
	most, follow := 0, false
	if f := k.at.FieldByName("Limit"); f.IsValid() {
		most = int(f.Int())
	}
	if f := k.at.FieldByName("Follow"); f.IsValid() {
		follow = f.Bool()
	}
	table := k.asTable(std)
	columns := k.columns()
	w := tabwriter.NewWriter(std.Out, 0, 0, 2, ' ', 0)
	flush := w.Flush
	var csv *sheet.Writer
	if f := k.at.FieldByName("CSV"); f.IsValid() && f.Bool() {
		table, csv = false, sheet.NewWriter(std.Out, sheet.Columns(k.list.entry))
		csv.Terminal, flush = std.Terminal, csv.Flush
	}
	if table {
		titles := make([]string, len(columns))
		for i, c := range columns {
			titles[i] = c.title
		}
		fmt.Fprintln(w, strings.Join(titles, "\t"))
	}
	array := []json.RawMessage{}
	n := 0
	var failed error
	err := k.list.each(ctx, client, r, follow, func(e json.RawMessage) bool {
		if k.list.paged() && n == most && !follow {
			fmt.Fprintf(std.Err, "countersign: there are more; raise --limit\n")
			return false
		}
		n++
		switch {
		case table:
			fmt.Fprintln(w, strings.Join(cells(columns, entryOf(e)), "\t"))
		case csv != nil:
			failed = csv.Write(e)
		case k.c.Array:
			array = append(array, e)
		default:
			failed = printJSON(std.Out, e, "")
		}
		return failed == nil
	}, flush)
	if err == nil && k.c.Array && !table && csv == nil {
		b, _ := json.Marshal(array)
		return printJSON(std.Out, b, "  ")
	}
	return errors.Join(err, failed, flush())
}

// column is a column of a table.
type column struct {
	title   string
	members []string           // the first that is there
	cell    func(Entry) string // in place of them
}

// mostColumns is how many members are columns where none are named, those that hold no others.
const mostColumns = 7

func (k *Call) columns() (all []column) {
	if k.c.Columns == "" {
		for _, m := range membersOf(k.list.entry, inBody) {
			if len(all) < mostColumns && len(m.path) == 1 && placeholder(m) != "JSON" {
				all = append(all, column{title: strings.ToUpper(strings.ReplaceAll(m.flag, "-", " ")), members: m.path})
			}
		}
		return all
	}
	for c := range strings.SplitSeq(k.c.Columns, "|") {
		title, member, named := strings.Cut(c, "=")
		if !named {
			member = camel(title)
		}
		if c := (column{title, strings.Split(member, ","), k.c.Cells[title]}); c.cell != nil || k.list.has(c.members) {
			all = append(all, c)
		}
	}
	return all
}

// has says whether entries have one of the members: those of the two ends differ.
func (l *list) has(members []string) bool {
	return slices.ContainsFunc(reflect.VisibleFields(l.entry), func(f reflect.StructField) bool {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return slices.ContainsFunc(members, func(m string) bool { return m == name || strings.HasPrefix(m, name+".") })
	})
}

// camel writes TRACKING ID as trackingId.
func camel(title string) string {
	words := strings.Fields(strings.ToLower(title))
	for i := 1; i < len(words); i++ {
		words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
	}
	return strings.Join(words, "")
}

func cells(columns []column, e Entry) []string {
	list := make([]string, len(columns))
	for i, c := range columns {
		text := ""
		for _, m := range c.members {
			text = cmp.Or(text, e.Text(m))
		}
		if c.cell != nil {
			text = c.cell(e)
		}
		list[i] = Cell(text)
	}
	return list
}

// Entry is an object of an answer.
type Entry map[string]any

func entryOf(raw json.RawMessage) (e Entry) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&e) // what is no object has no members
	return e
}

// Text returns a member as text, nothing if it is absent. Dots lead into objects.
func (e Entry) Text(path string) string {
	name, rest, deeper := strings.Cut(path, ".")
	switch v := e[name].(type) {
	case nil:
		return ""
	case map[string]any:
		if deeper {
			return Entry(v).Text(rest)
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

// Cell returns the text of a cell, with a dash for nothing: on one line, and without what a
// terminal would act on.
func Cell(text string) string { return cmp.Or(sheet.Printable(text), "-") }

// printMembers prints an answer, a line each member; those of objects in it with their names.
func printMembers(w io.Writer, raw json.RawMessage) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if err := members(t, "", raw); err != nil {
		return err
	}
	return t.Flush()
}

func members(w io.Writer, name string, raw json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	first, err := d.Token()
	if err != nil {
		return err
	}
	delim, nested := first.(json.Delim)
	if !nested {
		_, err := fmt.Fprintf(w, "%s\t%s\n", Cell(name), Cell(text(first)))
		return err
	}
	for i := 1; d.More(); i++ {
		at := strconv.Itoa(i)
		if delim == '{' {
			token, err := d.Token()
			if err != nil {
				return err
			}
			at = fmt.Sprint(token)
		}
		var inner json.RawMessage
		if err := d.Decode(&inner); err != nil {
			return err
		}
		if err := members(w, strings.TrimPrefix(name+"."+at, "."), inner); err != nil {
			return err
		}
	}
	return nil
}

func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// printJSON writes an answer and a line end, on one line if indent is empty.
func printJSON(w io.Writer, raw json.RawMessage, indent string) error {
	var b bytes.Buffer
	write := func() error { return json.Indent(&b, raw, "", indent) }
	if indent == "" {
		write = func() error { return json.Compact(&b, raw) }
	}
	if err := write(); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	_, err := fmt.Fprintf(w, "%s\n", sheet.PrintableJSON(bytes.TrimSpace(b.Bytes())))
	return err
}
