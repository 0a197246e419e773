package db

import "time"

// World is what a database takes from its machine. The zero World is the real machine; the
// simulation gives another.
type World struct {
	// Elapsed is a monotonic clock that also counts while the machine sleeps. Nil: the
	// machine's.
	Elapsed func() time.Duration
	// Idle is how many times longer than elsewhere a background loop waits that nothing
	// wakes. Zero: once.
	Idle int
	// Write is called before each statement of SQLite's writer. Its error stands for one of
	// the disk: the statement is not run. Nil: it is not called.
	Write func() error
}

// Every is how long a background loop waits that waits usual elsewhere.
func (d *DB) Every(usual time.Duration) time.Duration {
	return usual * time.Duration(max(1, d.world.Idle))
}
