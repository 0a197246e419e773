//go:build race

package conformance_test

// raceDetector: the race detector is on, and RSA takes several times as long.
const raceDetector = true
