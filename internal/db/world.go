package db

import "time"

// World is what a database takes from its machine. The zero World is the real machine; the
// simulation gives another.
type World struct {
	// Elapsed is a monotonic clock that also counts while the machine sleeps. Nil: the
	// machine's.
	Elapsed func() time.Duration
	// Every says how long a background loop waits that nothing wakes and that waits usual
	// elsewhere. Nil: usual.
	Every func(usual time.Duration) time.Duration
	// Write is called before each statement of SQLite's writer, with its text. Its error
	// stands for one of the disk: the statement is not run. Nil: it is not called.
	Write func(statement string) error
}

// Every is how long a background loop waits that waits usual elsewhere.
func (d *DB) Every(usual time.Duration) time.Duration {
	if d.world.Every == nil {
		return usual
	}
	return d.world.Every(usual)
}
