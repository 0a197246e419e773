package dbtest

import (
	"os"
	"testing"
)

// IsWhole reports whether this run includes every test: with COUNTERSIGN_WHOLE=1, as the whole
// check sets it. Without it, what kills, soaks or takes long is skipped or done less often.
func IsWhole() bool { return os.Getenv("COUNTERSIGN_WHOLE") == "1" }

// Whole skips a test that only the whole check runs.
func Whole(t testing.TB, why string) {
	t.Helper()
	if !IsWhole() {
		t.Skip("COUNTERSIGN_WHOLE=1 runs it: " + why)
	}
}
