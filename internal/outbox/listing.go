package outbox

import (
	"strings"

	"countersign/internal/db"
)

// look is a value by which people look rows up.
type look struct{ column, indexed, value string } // indexed: the condition of the column's index, with AND

// walkBy makes l read the index of the first of looks that has a value, and reports whether there is one.
func walkBy(l *db.Listing, looks []look) bool {
	for _, k := range looks {
		if k.value != "" {
			l.Add(k.indexed+k.column+" = ?", k.value)
			return true
		}
	}
	return false
}

// filterBy adds those of looks that l does not read by. COALESCE keeps the planner from using another index for them.
func filterBy(l *db.Listing, looks []look) {
	served := l.Where()
	for _, k := range looks {
		if k.value != "" && !strings.Contains(served, k.column+" = ") {
			l.Add("COALESCE("+k.column+", '') = ?", k.value)
		}
	}
}
