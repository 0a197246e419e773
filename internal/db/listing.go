package db

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Place is the position of a row in a list of rows with an owner. Such lists are ordered by id, which sorts by time,
// and then by owner.
type Place struct{ ID, Owner string }

// Compare orders places, the oldest first.
func (p Place) Compare(q Place) int {
	return cmp.Or(strings.Compare(p.ID, q.ID), strings.Compare(p.Owner, q.Owner))
}

// Listing is a list, or a part of one, that is read by an index of Table. The index has the rows in the list's order
// and serves the conditions up to EndWalk. The table has the columns id and merchant, the owner.
type Listing struct {
	Conditions
	Table  string // with its alias, a letter
	Joins  string // for the columns and the filters
	Owner  string // the owner of all rows of the index; empty: any
	Sorted bool   // the index returns few rows, in another order; filters apply to all of them
	Since  string // no row with an id below it; empty: no bound
}

// Alias returns the alias of the table.
func (l *Listing) Alias() string { return l.Table[len(l.Table)-1:] }

// id returns the column id. In a sorted list it is an expression, so that the planner does not choose an index by it.
func (l *Listing) id() string {
	if l.Sorted {
		return l.Alias() + ".id || ''"
	}
	return l.Alias() + ".id"
}

// oneOwner reports whether the id alone orders the rows.
func (l *Listing) oneOwner() bool { return l.Owner != "" && !l.Sorted }

// Below makes the list continue after a place. Call it before EndWalk.
func (l *Listing) Below(p Place) {
	switch {
	case !l.oneOwner():
		l.Add("("+l.id()+", "+l.Alias()+".merchant) < (?, ?)", p.ID, p.Owner)
	case l.Owner < p.Owner:
		l.Add(l.id()+" <= ?", p.ID)
	default:
		l.Before(p.ID)
	}
}

// DownTo makes the list end at a place of the walk.
func (l *Listing) DownTo(p Place) {
	if l.oneOwner() {
		l.Add(l.id()+" >= ?", p.ID)
		return
	}
	l.Add("("+l.id()+", "+l.Alias()+".merchant) >= (?, ?)", p.ID, p.Owner)
}

// Before limits the walk to ids below id. Call it before EndWalk. If Below set a lower place, this bound is
// redundant, and the index can use only one.
func (l *Listing) Before(id string) { l.Add(l.id()+" < ?", id) }

// since adds the condition of Since to q.
func (l *Listing) since(q *Conditions) {
	if l.Since != "" {
		q.Add(l.id()+" >= ?", l.Since)
	}
}

func (l *Listing) order() string {
	if l.oneOwner() {
		return " ORDER BY " + l.id() + " DESC"
	}
	return " ORDER BY " + l.id() + " DESC, " + l.Alias() + ".merchant DESC"
}

// Bounded reports whether a page may end before it is full.
func (l *Listing) Bounded() bool { return l.Filtered() && !l.Sorted }

// EndText returns the query for the last place that a page reads.
func (l *Listing) EndText() (text string, args []any) {
	w, a := l.Walk(), l.Alias()
	l.since(&w)
	return fmt.Sprintf("SELECT %s.id, %s.merchant FROM %s%s%s LIMIT 1 OFFSET %d", a, a, l.Table, w.Where(), l.order(),
		PageRows-1), w.Args
}

// Text returns the query for the rows of the page and one more, which shows whether there is a next page.
func (l *Listing) Text(columns string, limit int) string {
	where := l.Where()
	return "SELECT " + columns + " FROM " + l.Table + l.Joins + where + l.order() + " LIMIT CAST(" + l.Arg(limit+1) +
		" AS BIGINT)"
}

// Placed is a row of a list with its place.
type Placed[T any] struct {
	Place
	Value T
}

// ReadListing returns a page of the list whose parts are ls. next is the place of its last row, or the zero Place at
// the end. A page may have fewer rows than limit, or none, and still have a next page.
func ReadListing[T any](ctx context.Context, q Querier, columns string, ls []Listing, limit int,
	scan func(Rows) (Placed[T], error)) (list []T, next Place, err error) {
	var found []Placed[T]
	var end *Place // the place below which some parts have not been read
	for i := range ls {
		l := &ls[i]
		if l.Bounded() {
			var p Place
			text, args := l.EndText()
			more, err := One(ctx, q, text, args, &p.ID, &p.Owner)
			if err != nil {
				return nil, Place{}, err
			}
			if more { // p is above Since, and the index can use only one bound
				l.DownTo(p)
				l.Since = ""
				if end == nil || end.Compare(p) < 0 {
					end = &p
				}
			}
		}
		l.since(&l.Conditions)
		part, err := List(ctx, q, l.Text(columns, limit), l.Args, scan)
		if err != nil {
			return nil, Place{}, err
		}
		found = append(found, part...)
	}
	slices.SortFunc(found, func(a, b Placed[T]) int { return b.Compare(a.Place) })
	for _, v := range found {
		if end != nil && v.Compare(*end) < 0 {
			break
		}
		if len(list) == limit {
			return list, next, nil
		}
		list, next = append(list, v.Value), v.Place
	}
	if end != nil {
		return list, *end, nil
	}
	return list, Place{}, nil
}

// Conditions builds the WHERE of a list.
type Conditions struct {
	Args []any // of the statement so far
	list []string

	walk, walkArgs int // the lengths of list and Args when EndWalk was called
}

// EndWalk says that the list's index serves the conditions so far. Later conditions are filters.
func (q *Conditions) EndWalk() { q.walk, q.walkArgs = len(q.list), len(q.Args) }

// Filtered reports whether there are filters.
func (q *Conditions) Filtered() bool { return len(q.list) > q.walk }

// Walk returns the conditions without the filters.
func (q *Conditions) Walk() Conditions {
	return Conditions{Args: q.Args[:q.walkArgs:q.walkArgs], list: q.list[:q.walk:q.walk]}
}

// Add adds a condition. Each ? in it stands for the next item of args.
func (q *Conditions) Add(condition string, args ...any) {
	for _, a := range args {
		condition = strings.Replace(condition, "?", q.Arg(a), 1)
	}
	q.list = append(q.list, condition)
}

// Arg adds an argument and returns its placeholder.
func (q *Conditions) Arg(a any) string {
	q.Args = append(q.Args, a)
	return fmt.Sprintf("$%d", len(q.Args))
}

// Where returns the WHERE clause. It returns "" without conditions.
func (q *Conditions) Where() string {
	if len(q.list) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(q.list, " AND ")
}

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
	return fmt.Sprintf("SELECT seq FROM %s%s ORDER BY seq DESC LIMIT 1 OFFSET %d", table, walk.Where(),
		PageRows-1), walk.Args
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
func NumbersBetween(ctx context.Context, q Querier, table, column string, since,
	until Millis) (from, below int64, err error) {
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
	ends := "SELECT COALESCE((SELECT seq FROM " + table + " ORDER BY seq LIMIT 1), 0), COALESCE((SELECT seq FROM " +
		table + " ORDER BY seq DESC LIMIT 1), 0)"
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
