package dbtest

import "testing"

// NotRaced skips a test under the race detector if the detector finds nothing in it that it
// does not find elsewhere: the test runs other programs, or a command that does one thing after
// another.
func NotRaced(t testing.TB, why string) {
	t.Helper()
	if Race {
		t.Skip("-race: " + why)
	}
}

// Times is how often a test does something: fewer times under the race detector, which makes
// it several times slower and sees as much in few.
func Times(plain, raced int) int {
	if Race {
		return raced
	}
	return plain
}
