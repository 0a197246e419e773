package db

import (
	"slices"
	"strconv"
	"strings"
)

// Insert is an INSERT of one row, for inserting many: a statement costs more than
// a row does. Each size is a statement that stays prepared.
type Insert struct {
	params int // of a row
	sizes  []int
	texts  []string // by size
}

// NewInsert makes it of an INSERT of one row whose parameters are all in VALUES,
// in order. sizes are numbers of rows that one statement inserts, beside one, from
// the largest down.
func NewInsert(text string, sizes ...int) *Insert {
	head, tail, _ := strings.Cut(text, "VALUES ")
	row, tail, _ := strings.Cut(tail, ")")
	in := &Insert{params: strings.Count(row, "$"), sizes: append(slices.Clone(sizes), 1)}
	for _, size := range in.sizes {
		rows := make([]string, size)
		for i := range rows {
			rows[i] = placeholder.ReplaceAllStringFunc(row, func(p string) string {
				k, _ := strconv.Atoi(p[1:])
				return "$" + strconv.Itoa(i*in.params+k)
			}) + ")"
		}
		in.texts = append(in.texts, head+"VALUES "+strings.Join(rows, ", ")+tail)
	}
	return in
}

// Statements inserts the rows that args holds one after the other, in as few
// statements as there are sizes for.
func (in *Insert) Statements(args []any, row func(Rows) error) []Statement {
	var list []Statement
	for at, size := range in.sizes {
		for k := size * in.params; len(args) >= k; args = args[k:] {
			list = append(list, Statement{SQL: in.texts[at], Args: args[:k:k], Row: row})
		}
	}
	return list
}
