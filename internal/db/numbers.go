package db

import (
	"context"
)

// clockSlack is how far the times of rows may be out of the order of their numbers, in
// milliseconds: nodes have clocks of their own.
const clockSlack Millis = 60_000

// NumbersBetween finds the numbers (seq) of the rows of a time: from is the first, below
// the first after the last. The times in column must rise about as the numbers do. A zero
// since or until means no bound, and gives a zero number. It needs no index on the times:
// it searches the numbers by bisection, about 30 rows a bound.
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

// firstAt gives the number of the first row at or after a time. If there is none, it gives
// the number after the last row.
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
