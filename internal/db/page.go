package db

import (
	"context"
	"fmt"
)

// PageRows is how many rows one page of a list reads at most. Each page follows one index and costs about the same,
// however few rows pass the filters. If few rows pass a filter that the index does not serve, the pages are short.
const PageRows = 500

// ReadNumbered returns the newest rows of a table that c selects, by their column seq, down to the number from; 0
// means all. number returns the seq of a row. The next page begins below next, which is 0 at the end. A page may have
// fewer rows than limit, or none, and still have a next page.
func ReadNumbered[T any](ctx context.Context, q Querier, table, columns string, c *Conditions, from int64, limit int,
	number func(T) int64, scan func(Rows) (T, error)) (list []T, next int64, err error) {
	if c.Filtered() {
		text, args := NumberedEnd(table, c, from)
		more, err := One(ctx, q, text, args, &next)
		if err != nil {
			return nil, 0, err
		}
		if more {
			from = next // it is not lower, and the index can use only one bound
		}
	}
	if from > 0 {
		c.Add("seq >= ?", from)
	}
	list, err = List(ctx, q, NumberedText(table, columns, c, limit), c.Args, scan)
	if err != nil {
		return nil, 0, err
	}
	if len(list) > limit {
		list = list[:limit]
		next = number(list[limit-1])
	}
	return list, next, nil
}

// NumberedEnd returns the query for the last row that a page of ReadNumbered with filters reads.
func NumberedEnd(table string, c *Conditions, from int64) (text string, args []any) {
	walk := c.Walk()
	if from > 0 {
		walk.Add("seq >= ?", from)
	}
	return fmt.Sprintf("SELECT seq FROM %s%s ORDER BY seq DESC LIMIT 1 OFFSET %d", table, walk.Where(), PageRows-1), walk.Args
}

// NumberedText returns the query for the rows of a page of ReadNumbered and one more, which shows whether there is a
// next page.
func NumberedText(table, columns string, c *Conditions, limit int) string {
	where := c.Where()
	return "SELECT " + columns + " FROM " + table + where + " ORDER BY seq DESC LIMIT " + c.Arg(limit+1)
}

// clockSlack is the most by which the times of rows may be out of the order of their numbers, in milliseconds. They
// can be, because nodes have clocks of their own.
const clockSlack Millis = 60_000

// NumbersBetween returns the numbers (seq) of the rows of a period: from is the first, and below is one after the
// last. The times in column must rise roughly with the numbers. A zero since or until means no bound, and its number
// is then zero. No index on the times is needed: the numbers are searched by bisection, about 30 rows a bound.
func NumbersBetween(ctx context.Context, q Querier, table, column string, since, until Millis) (from, below int64, err error) {
	if since > 0 {
		if from, err = firstAt(ctx, q, table, column, since-clockSlack); err != nil {
			return 0, 0, err
		}
	}
	if until > 0 {
		below, err = firstAt(ctx, q, table, column, until+clockSlack)
	}
	return from, below, err
}

// firstAt returns the number of the first row at or after a time, or the number after the last row if there is none.
func firstAt(ctx context.Context, q Querier, table, column string, at Millis) (int64, error) {
	var low, high int64
	ends := "SELECT COALESCE((SELECT seq FROM " + table + " ORDER BY seq LIMIT 1), 0), COALESCE((SELECT seq FROM " + table + " ORDER BY seq DESC LIMIT 1), 0)"
	if _, err := One(ctx, q, ends, nil, &low, &high); err != nil {
		return 0, err
	}
	next := "SELECT seq, " + column + " FROM " + table + " WHERE seq >= $1 ORDER BY seq LIMIT 1"
	for high++; low < high; {
		middle := low + (high-low)/2
		var seq int64
		var made Millis
		found, err := One(ctx, q, next, []any{middle}, &seq, &made)
		switch {
		case err != nil:
			return 0, err
		case !found || made >= at:
			high = middle
		default:
			low = seq + 1
		}
	}
	return low, nil
}
