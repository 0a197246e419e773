package store

import (
	"strconv"
	"strings"
)

// insertSizes are numbers of rows that one statement inserts: each size is a
// statement to be prepared.
var insertSizes = [...]int{100, 10, 1}

// insert is an INSERT of one row in the sizes of insertSizes.
type insert struct {
	n     int // parameters of a row
	texts [len(insertSizes)]string
}

// newInsert makes it of a statement whose VALUES have n parameters.
func newInsert(text string, n int) *insert {
	head, tail, _ := strings.Cut(text, "VALUES ")
	row, tail, _ := strings.Cut(tail, ")")
	in := &insert{n: n}
	for at, size := range insertSizes {
		rows := make([]string, size)
		for i := range rows {
			rows[i] = placeholder.ReplaceAllStringFunc(row, func(p string) string {
				k, _ := strconv.Atoi(p[1:])
				return "$" + strconv.Itoa(i*n+k)
			}) + ")"
		}
		in.texts[at] = head + "VALUES " + strings.Join(rows, ", ") + tail
	}
	return in
}

// statements inserts the rows that args holds one after the other, in as few
// statements as there are sizes for: each costs more than a row does.
func (in *insert) statements(args []any, row func(rows) error) []statement {
	var list []statement
	for at, size := range insertSizes {
		for k := size * in.n; len(args) >= k; args = args[k:] {
			list = append(list, statement{sql: in.texts[at], args: args[:k:k], row: row})
		}
	}
	return list
}
