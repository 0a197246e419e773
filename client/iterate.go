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

// all iterates over a list page by page. It ends after an error.
func all[T any](page func(PageOptions) ([]T, *string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for o := (PageOptions{Limit: most}); ; {
			list, next, err := page(o)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, v := range list {
				if !yield(v, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			o.Cursor = *next
		}
	}
}

// follow iterates over a feed and waits at its end for new entries. It ends without
// an error when ctx ends, or after the first error.
func follow[T any](ctx context.Context, after int64, part func(FeedOptions) ([]T, int64, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for o := (FeedOptions{After: after, Limit: most, Wait: followFor}); ; {
			list, next, err := part(o)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, v := range list {
				if !yield(v, nil) {
					return
				}
			}
			o.After = next
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

// withQuery adds Query to a path.
func withQuery(path string, vs ...any) string {
	q := Query(vs...)
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
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
