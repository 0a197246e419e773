package dbtest

import (
	"os"
	"testing"
)

// IsWhole reports whether this run includes every test: with COUNTERSIGN_WHOLE=1, as the whole
// check sets it, or COUNTERSIGN_WHOLE=soak, as it does with --soak. Without it, what kills or takes
// long is skipped or done less often.
func IsWhole() bool { whole := os.Getenv("COUNTERSIGN_WHOLE"); return whole == "1" || whole == "soak" }

// Times returns how often a test repeats something random that rarely shows a fault: soak times with
// COUNTERSIGN_WHOLE=soak, otherwise few times, and also under the race detector, which makes it several times slower.
func Times(soak, few int) int {
	if os.Getenv("COUNTERSIGN_WHOLE") == "soak" && !Race {
		return soak
	}
	return few
}

// Whole skips a test that only the whole check runs.
func Whole(t testing.TB, why string) {
	t.Helper()
	if !IsWhole() {
		t.Skip("COUNTERSIGN_WHOLE=1 runs it: " + why)
	}
}
