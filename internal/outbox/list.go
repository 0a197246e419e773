package outbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"countersign/internal/db"
)

// scanMost is how many rows one page of a list looks at. A list with a filter that its
// index does not have, and that few rows pass, gives short pages then, and each costs
// as little as any other.
const scanMost = 500

// place is where a row stands in a list. Lists are ordered by the part of the id after
// the merchant, which is time, and then by merchant, the newest first.
type place struct{ id, merchant string }

func (p place) compare(q place) int {
	return cmp.Or(strings.Compare(p.id, q.id), strings.Compare(p.merchant, q.merchant))
}

// cursor names the place to callers: the id of the row.
func (p place) cursor() string { return joinID(p.merchant, p.id) }

func placeOf(cursor string) (place, error) {
	merchant, id, err := splitID(cursor)
	if err != nil {
		return place{}, fmt.Errorf("cursor is %w", db.ErrInvalid)
	}
	return place{id, merchant}, nil
}

// listing reads a list, or a part of one, by an index of table. That index has the
// rows in the list's order and serves the conditions up to EndWalk.
type listing struct {
	db.Conditions
	table    string // with its alias, a letter
	joins    string // for the columns and the filters
	merchant string // all rows of the index are of this merchant; empty: of any
	sorted   bool   // the index gives few rows, in another order; filters are applied to all of them
}

func (l *listing) alias() string { return l.table[len(l.table)-1:] }

// from continues the list after a cursor, which is empty at the beginning. It precedes
// EndWalk.
func (l *listing) from(cursor string) error {
	if cursor == "" {
		return nil
	}
	p, err := placeOf(cursor)
	if err == nil {
		l.below(p)
	}
	return err
}

// below continues the list after a place.
func (l *listing) below(p place) {
	a := l.alias()
	switch {
	case l.sorted:
		l.Add("("+a+".id || '', "+a+".merchant) < (?, ?)", p.id, p.merchant)
	case l.merchant == "":
		l.Add("("+a+".id, "+a+".merchant) < (?, ?)", p.id, p.merchant)
	case l.merchant < p.merchant:
		l.Add(a+".id <= ?", p.id)
	default:
		l.Add(a+".id < ?", p.id)
	}
}

// downTo ends the list at a place of the walk, which is its last.
func (l *listing) downTo(p place) {
	a := l.alias()
	if l.merchant == "" {
		l.Add("("+a+".id, "+a+".merchant) >= (?, ?)", p.id, p.merchant)
		return
	}
	l.Add(a+".id >= ?", p.id)
}

func (l *listing) order() string {
	a := l.alias()
	switch {
	case l.sorted: // an expression: the planner must not take an index that has the order
		return " ORDER BY " + a + ".id || '' DESC, " + a + ".merchant DESC"
	case l.merchant != "":
		return " ORDER BY " + a + ".id DESC"
	}
	return " ORDER BY " + a + ".id DESC, " + a + ".merchant DESC"
}

// bounded reports whether a page may end before it is full.
func (l *listing) bounded() bool { return l.Filtered() && !l.sorted }

// boundText finds the last place that a page looks at.
func (l *listing) boundText() (text string, args []any) {
	w, a := l.Walk(), l.alias()
	return fmt.Sprintf("SELECT %s.id, %s.merchant FROM %s%s%s LIMIT 1 OFFSET %d", a, a, l.table, w.Where(), l.order(), scanMost-1), w.Args
}

// pageText reads the page, and one row more to know whether there are more.
func (l *listing) pageText(columns string, limit int) string {
	where := l.Where()
	return "SELECT " + columns + " FROM " + l.table + l.joins + where + l.order() + " LIMIT CAST(" + l.Arg(limit+1) + " AS BIGINT)"
}

// listed is a row of a list.
type listed[T any] struct {
	place
	row T
}

// readPage reads a page of the list whose parts are ls. next is empty at the end. A
// page may have fewer than limit rows, also none, and a next one.
func readPage[T any](ctx context.Context, o *Outbox, columns string, ls []listing, limit int, scan func(db.Rows) (listed[T], error)) (list []T, next string, err error) {
	var found []listed[T]
	var end *place // what is below has not been looked at in each part
	for i := range ls {
		l := &ls[i]
		if l.bounded() {
			var p place
			text, args := l.boundText()
			more, err := db.One(ctx, o, text, args, &p.id, &p.merchant)
			if err != nil {
				return nil, "", err
			}
			if more {
				l.downTo(p)
				if end == nil || end.compare(p) < 0 {
					end = &p
				}
			}
		}
		err := db.Each(ctx, o, l.pageText(columns, limit), l.Args, func(r db.Rows) error {
			v, err := scan(r)
			found = append(found, v)
			return err
		})
		if err != nil {
			return nil, "", err
		}
	}
	slices.SortFunc(found, func(a, b listed[T]) int { return b.compare(a.place) })
	for _, v := range found {
		if end != nil && v.compare(*end) < 0 {
			break
		}
		if len(list) == limit {
			return list, next, nil
		}
		list, next = append(list, v.row), v.cursor()
	}
	if end != nil {
		return list, end.cursor(), nil
	}
	return list, "", nil
}
