package db

import (
	"fmt"
	"strings"
)

// Conditions builds the WHERE of a list.
type Conditions struct {
	Args []any // of the statement so far
	list []string

	walk, walkArgs int // the lengths of list and Args when EndWalk was called
}

// EndWalk marks the conditions so far as those that the list's index serves. Later ones
// are filters, which it does not serve.
func (q *Conditions) EndWalk() { q.walk, q.walkArgs = len(q.list), len(q.Args) }

// Filtered reports whether there are filters.
func (q *Conditions) Filtered() bool { return len(q.list) > q.walk }

// Walk gives the conditions without the filters.
func (q *Conditions) Walk() Conditions {
	return Conditions{Args: q.Args[:q.walkArgs:q.walkArgs], list: q.list[:q.walk:q.walk]}
}

// Add adds a condition. Each ? in it stands for the next of args.
func (q *Conditions) Add(condition string, args ...any) {
	for _, a := range args {
		condition = strings.Replace(condition, "?", q.Arg(a), 1)
	}
	q.list = append(q.list, condition)
}

// Arg adds an argument and gives its placeholder.
func (q *Conditions) Arg(a any) string {
	q.Args = append(q.Args, a)
	return fmt.Sprintf("$%d", len(q.Args))
}

// Where gives the clause, empty without conditions.
func (q *Conditions) Where() string {
	if len(q.list) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(q.list, " AND ")
}
