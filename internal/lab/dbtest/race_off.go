//go:build !race

package dbtest

// Race: the race detector watches this test binary.
const Race = false
