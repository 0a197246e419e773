package bench

import "testing"

// The gateway runs as a process of its own, on one core.
func TestGatewayOnOneCore(t *testing.T) {
	c := quick(t, "gateway")
	report, printed := runBench(t, c)
	checkFigures(t, report, printed, "gateway")
}
