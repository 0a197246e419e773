package db

import (
	"fmt"
	"strings"
)

// Conditions builds the WHERE of a list.
type Conditions struct {
	Args []any // of the statement so far
	list []string
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
