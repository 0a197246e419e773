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
