// Package steps reads the numbered migrations of a schema.
package steps

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Step is one step of the schema: 0001_name.sql, 0002_name.sql, … A
// released migration never changes.
type Step struct {
	Number int
	Name   string
	Text   string
	// Oldest is the lowest number of a schema whose programs still work with this one,
	// beside newer ones. A migration says so in its first line, "-- oldest: 18"; else it is
	// its own number.
	Oldest int
}

const oldestMark = "-- oldest: "

func oldestOf(number int, text string) (int, error) {
	line, _, _ := strings.Cut(text, "\n")
	digits, ok := strings.CutPrefix(line, oldestMark)
	if !ok {
		return number, nil
	}
	oldest, err := strconv.Atoi(digits)
	if err != nil || oldest < 1 || oldest > number {
		return 0, fmt.Errorf("%q is not a number up to its own", digits)
	}
	return oldest, nil
}

// Read gives the migrations for a dialect in order. Their numbers
// run from 1 without gaps.
func Read(files fs.FS, dialect string) ([]Step, error) {
	dir := path.Join("migrations", dialect)
	entries, err := fs.ReadDir(files, dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var list []Step
	for _, e := range entries {
		digits, _, _ := strings.Cut(e.Name(), "_")
		number, err := strconv.Atoi(digits)
		if err != nil || number != len(list)+1 {
			return nil, fmt.Errorf("migration %s is not number %d", e.Name(), len(list)+1)
		}
		text, err := fs.ReadFile(files, path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		oldest, err := oldestOf(number, string(text))
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", e.Name(), err)
		}
		list = append(list, Step{number, e.Name(), string(text), oldest})
	}
	return list, nil
}
