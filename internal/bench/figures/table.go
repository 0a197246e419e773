package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"countersign/internal/bench"
)

// The table lies between these lines. Its rows are known by their first cell.
const (
	begin = "<!-- written by make figures -->\n"
	end   = "<!-- end of what make figures writes -->\n"
)

// rowOf is the row of a report: what, result, command, and when and where.
func rowOf(p part, c command, r *bench.Report) string {
	cells := []string{p.what + ", " + c.conditions(), p.result(r), "`" + c.shown(p.suite) + "`", circumstances(r)}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func circumstances(r *bench.Report) string {
	text := fmt.Sprintf("%s, %d cores", r.Started.Format("2006-01-02"), r.Cores)
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil && bytes.Contains(info, []byte("avx512ifma")) {
		text += " with IFMA"
	}
	if r.Moved > 0 {
		text += fmt.Sprintf(", busy (RSA alone moved %.0f %%)", 100*r.Moved)
	}
	return text
}

// put replaces the row of the table that has the same first cell, or adds it at the
// end.
func put(page []byte, row string) ([]byte, error) {
	from, to := bytes.Index(page, []byte(begin)), bytes.Index(page, []byte(end))
	if from < 0 || to < from {
		return page, errors.New(file + " has no table between its two marks")
	}
	from += len(begin)
	var table strings.Builder
	done := false
	for line := range strings.Lines(string(page[from:to])) {
		if firstCell(line) == firstCell(row) {
			line, done = row, true
		}
		table.WriteString(line)
	}
	if !done {
		table.WriteString(row)
	}
	return append(append(bytes.Clone(page[:from]), table.String()...), page[to:]...), nil
}

func firstCell(row string) string {
	cell, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), " |")
	return strings.TrimSpace(cell)
}

// number writes v with three significant digits, or with all before the point, in
// groups of three.
func number(v float64) string {
	digits := 0
	if v != 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	text := fmt.Sprintf("%.*f", digits, v)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return whole
}
