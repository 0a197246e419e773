package db

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Common are the tables that both ends have, beside those of the audit log.
//
//go:embed migrations
var Common embed.FS

// step is one step of an end's schema.
type step struct {
	number int
	name   string // of its files
	text   string // without marks
	// oldest is the lowest number of a schema whose programs still work with this one,
	// beside newer ones. A file says so in its first line, "-- oldest: 18"; without
	// that line it is the file's own number. Of several files the highest counts.
	oldest int
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

// steps gives the migrations of an end in order, for d. Files of one number are one step, in
// the order of parts. Numbers run from 1 without gaps; a released migration never changes.
func steps(parts []fs.FS, d *Dialect) ([]step, error) {
	byNumber := map[int]step{}
	for _, files := range parts {
		entries, err := fs.ReadDir(files, "migrations")
		if err != nil {
			return nil, err
		}
		last := 0
		for _, e := range entries { // sorted by name
			digits, _, _ := strings.Cut(e.Name(), "_")
			number, err := strconv.Atoi(digits)
			if err != nil || number <= last {
				return nil, fmt.Errorf("migration %s has no number of its own", e.Name())
			}
			last = number
			text, err := fs.ReadFile(files, "migrations/"+e.Name())
			if err != nil {
				return nil, err
			}
			oldest, err := oldestOf(number, string(text))
			if err != nil {
				return nil, fmt.Errorf("migration %s: %w", e.Name(), err)
			}
			s := byNumber[number]
			s.number, s.oldest = number, max(s.oldest, oldest)
			s.name = strings.TrimPrefix(s.name+" "+e.Name(), " ")
			s.text += d.marks.Replace(string(text))
			byNumber[number] = s
		}
	}
	list := make([]step, len(byNumber))
	for i := range list {
		s, ok := byNumber[i+1]
		if !ok {
			return nil, fmt.Errorf("there is no migration with number %d", i+1)
		}
		list[i] = s
	}
	return list, nil
}
