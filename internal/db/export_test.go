package db

// HeldBack returns why p cannot go on.
func HeldBack(p *Purger) string { return p.held }
