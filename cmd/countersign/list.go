package main

import (
	"fmt"
	"iter"
	"strings"
	"text/tabwriter"

	"countersign/client"
)

// listFlags say how a list is printed.
type listFlags struct {
	Limit int   `help:"Most lines." default:"${lines=100}"`
	JSON  *bool `name:"json" negatable:"" help:"Print a line of JSON for each entry, or with --no-json a table. Default: a table on a terminal, JSON elsewhere."`
}

// list prints a list as lines of JSON, or as a table whose titles a | divides and whose
// cells row gives; at most as many entries as the flags say.
func list[T any](std streams, o listFlags, all iter.Seq2[T, error], titles string, row func(T) []any) error {
	table := o.JSON == nil && isTerminal(std.out) || o.JSON != nil && !*o.JSON
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	if table {
		fmt.Fprintln(w, strings.ReplaceAll(titles, "|", "\t"))
	}
	n := 0
	for v, err := range all {
		if err != nil {
			return err
		}
		if n == o.Limit {
			fmt.Fprintf(std.err, "countersign: there are more; raise --limit\n")
			break
		}
		n++
		if !table {
			if err := printJSON(std.out, v, ""); err != nil {
				return err
			}
			continue
		}
		var cells []string
		for _, c := range row(v) {
			cells = append(cells, cell(c))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// cell gives the text of a cell, with a dash for nothing: on one line, and without
// what a terminal would act on.
func cell(v any) string {
	text := fmt.Sprint(v)
	if t, ok := v.(client.Time); ok && t == 0 {
		text = ""
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
	if text == "" {
		return "-"
	}
	return text
}

// feedFlags select a part of a feed.
type feedFlags struct {
	After int64 `help:"Only entries after this number." placeholder:"SEQ"`
	listFlags
}

// entries gives what a feed holds after a number, without waiting for more.
func entries[T any](after int64, part func(client.FeedOptions) ([]T, int64, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for o := (client.FeedOptions{After: after, Limit: 1000}); ; {
			list, next, err := part(o)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range list {
				if !yield(v, nil) {
					return
				}
			}
			if len(list) == 0 {
				return
			}
			o.After = next
		}
	}
}
