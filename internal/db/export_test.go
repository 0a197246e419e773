package db

// What the tests of purges, which are in another package, need.
const (
	LeastRows = leastRows
	Calm      = calm
	Hurried   = hurried
)

var Pauses = (*Purger).pauses

// HeldBack returns why p cannot go on.
func HeldBack(p *Purger) string { return p.held }
