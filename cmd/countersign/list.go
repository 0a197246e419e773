package main

import (
	"context"
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

// column is one column of a table.
type column[T any] struct {
	title string
	of    func(T) any
}

// list prints a list as lines of JSON or as a table, at most as many entries as the
// flags say.
func list[C, T any](std streams, f apiFlags, o listFlags, columns []column[T], newClient func(client.Config) (C, error),
	call func(context.Context, C) iter.Seq2[T, error]) error {
	return ask(f, newClient, func(ctx context.Context, api C) error {
		table := o.JSON == nil && isTerminal(std.out) || o.JSON != nil && !*o.JSON
		w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
		if table {
			titles := make([]string, len(columns))
			for i, c := range columns {
				titles[i] = c.title
			}
			fmt.Fprintln(w, strings.Join(titles, "\t"))
		}
		n := 0
		for v, err := range call(ctx, api) {
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
			for i, c := range columns {
				if i > 0 {
					fmt.Fprint(w, "\t")
				}
				fmt.Fprint(w, cell(c.of(v)))
			}
			fmt.Fprintln(w)
		}
		return w.Flush()
	})
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
