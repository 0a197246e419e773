package client

import (
	"context"
	"iter"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// PageOptions selects a page of a list. The zero value is the first page of 100.
type PageOptions struct {
	Limit  int    // most entries of the page, 1 to 1,000; 0: 100
	Cursor string // the Next of the page before; empty: the first page
}

// FeedOptions selects a part of a feed.
type FeedOptions struct {
	After int64         // the last sequence number that the reader has; 0: none
	Limit int           // most entries, 1 to 1,000; 0: 100
	Wait  time.Duration // how long to wait where there is no entry, at most a minute; 0: not at all

	// Reader, in place of After, starts after this reader's cursor. Only the
	// gateway's feeds of deposits and events have cursors.
	Reader string
}

// Iterators read as many entries as one call allows. At the end of a feed one call
// waits this long.
const (
	most      = 1000
	followFor = 30 * time.Second
)

// List is a page of a list, or what an operation answers about several things, in the order of the request.
type List[T any] struct {
	Items []T     `json:"items" nullable:"false" doc:"the entries, in the order that the operation names"`
	Next  *string `json:"next,omitempty" doc:"the cursor of the next page; absent: there is none. A page may have fewer entries than limit, also none, and a next page: few entries pass the filter"`
}

// first returns the answer about the one thing that was asked for.
func first[T any](list List[T], err error) (one T, _ error) {
	if err == nil && len(list.Items) > 0 {
		one = list.Items[0]
	}
	return one, err
}

// Feed is a part of a feed.
type Feed[T any] struct {
	Items []T   `json:"items" nullable:"false" doc:"in the order of seq"`
	Next  int64 `json:"next" doc:"the value of after for the next request"`
}

// All returns every entry of a list that f selects, in the list's order. list is a method that returns one page of it,
// such as Service.Callbacks. The iterator ends after an error.
func All[F, T any](ctx context.Context, list func(context.Context, F, PageOptions) (List[T], error), f F) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for o := (PageOptions{Limit: most}); ; {
			p, err := list(ctx, f, o)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, v := range p.Items {
				if !yield(v, nil) {
					return
				}
			}
			if p.Next == nil {
				return
			}
			o.Cursor = *p.Next
		}
	}
}

// Follow returns the entries of a feed after a sequence number and waits at its end for new ones. feed is a method that
// returns one part of it, such as Service.Decisions. The iterator ends without an error when ctx ends, or after the
// first error.
func Follow[T any](ctx context.Context, feed func(context.Context, FeedOptions) (Feed[T], error), after int64) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for o := (FeedOptions{After: after, Limit: most, Wait: followFor}); ; {
			p, err := feed(ctx, o)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, v := range p.Items {
				if !yield(v, nil) {
					return
				}
			}
			o.After = p.Next
		}
	}
}

// Query returns the fields of filters and options as query parameters, without those that
// are zero. A parameter's name is the field's query tag, or else the field's name
// with a small first letter.
func Query(vs ...any) url.Values {
	q := url.Values{}
	for _, v := range vs {
		addQuery(q, reflect.ValueOf(v))
	}
	return q
}

func addQuery(q url.Values, v reflect.Value) {
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		if value.IsZero() || f.Tag.Get("query") == "-" {
			continue
		}
		name := f.Tag.Get("query")
		if name == "" {
			name = strings.ToLower(f.Name[:1]) + f.Name[1:]
		}
		switch d := value.Interface().(type) {
		case time.Duration:
			q.Set(name, d.String())
			continue
		case Time:
			q.Set(name, d.String())
			continue
		}
		switch {
		case value.Kind() == reflect.String:
			q.Set(name, value.String())
		case value.Kind() == reflect.Bool:
			q.Set(name, "true")
		default:
			q.Set(name, strconv.FormatInt(value.Int(), 10))
		}
	}
}
