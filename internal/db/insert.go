package db

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Insert inserts many rows with few statements, because a statement costs more than a row. It has one prepared
// statement for each size.
type Insert struct {
	params int // of a row
	sizes  []int
	texts  func() []string // by size
}

// NewInsert returns an Insert for text, an INSERT of one row whose parameters are all in VALUES, in order. sizes are
// the other numbers of rows that one statement inserts, the largest first. The texts are made when rows are first
// inserted, so a command that inserts nothing starts without them.
func NewInsert(text string, sizes ...int) *Insert {
	head, tail, _ := strings.Cut(text, "VALUES ")
	row, tail, _ := strings.Cut(tail, ")")
	in := &Insert{params: strings.Count(row, "$"), sizes: append(slices.Clone(sizes), 1)}
	in.texts = sync.OnceValue(func() (texts []string) {
		for _, size := range in.sizes {
			rows := make([]string, size)
			for i := range rows {
				rows[i] = placeholder.ReplaceAllStringFunc(row, func(p string) string {
					k, _ := strconv.Atoi(p[1:])
					return "$" + strconv.Itoa(i*in.params+k)
				}) + ")"
			}
			texts = append(texts, head+"VALUES "+strings.Join(rows, ", ")+tail)
		}
		return texts
	})
	return in
}

// Statements returns as few statements as the sizes allow that insert the rows. args holds the parameters of all
// rows, one row after another.
func (in *Insert) Statements(args []any, row func(Rows) error) []Statement {
	var list []Statement
	for at, size := range in.sizes {
		for k := size * in.params; len(args) >= k; args = args[k:] {
			list = append(list, Statement{SQL: in.texts()[at], Args: args[:k:k], Row: row})
		}
	}
	return list
}
