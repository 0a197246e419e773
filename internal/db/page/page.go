// Package page reads lists from a database, page by page, the newest first. Each page
// follows one index and costs about as much as any other, however few rows pass the
// filters of the list.
package page

import (
	"context"
	"fmt"

	"countersign/internal/db"
)

// Most is how many rows one page looks at. A list with a filter that its index does not
// have, and that few rows pass, gives short pages then.
const Most = 500

// Numbered reads the newest rows of a table that c selects, by their column seq, which
// number gives, down to the number from (0: all). next is the number to begin the next page below, 0 at the end. A page may
// have fewer than limit rows, also none, and a next one.
func Numbered[T any](ctx context.Context, q db.Querier, table, columns string, c *db.Conditions, from int64, limit int,
	number func(T) int64, scan func(db.Rows) (T, error)) (list []T, next int64, err error) {
	if c.Filtered() {
		text, args := NumberedEnd(table, c, from)
		more, err := db.One(ctx, q, text, args, &next)
		if err != nil {
			return nil, 0, err
		}
		if more {
			from = next // it is not below, and the index serves one bound alone
		}
	}
	if from > 0 {
		c.Add("seq >= ?", from)
	}
	list, err = db.List(ctx, q, NumberedText(table, columns, c, limit), c.Args, scan)
	if err != nil {
		return nil, 0, err
	}
	if len(list) > limit {
		list = list[:limit]
		next = number(list[limit-1])
	}
	return list, next, nil
}

// NumberedEnd finds the last row that a page of Numbered with filters looks at.
func NumberedEnd(table string, c *db.Conditions, from int64) (text string, args []any) {
	walk := c.Walk()
	if from > 0 {
		walk.Add("seq >= ?", from)
	}
	return fmt.Sprintf("SELECT seq FROM %s%s ORDER BY seq DESC LIMIT 1 OFFSET %d", table, walk.Where(), Most-1), walk.Args
}

// NumberedText reads the rows of a page of Numbered, and one more to know whether there
// are more.
func NumberedText(table, columns string, c *db.Conditions, limit int) string {
	where := c.Where()
	return "SELECT " + columns + " FROM " + table + where + " ORDER BY seq DESC LIMIT " + c.Arg(limit+1)
}
