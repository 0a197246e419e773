package envelope

import "sync"

// Worker seals and opens as the functions [Seal], [Reseal] and [Open] do, and
// leaves it to Each when, and on which goroutines, the RSA operations of a
// message run: a sender of many messages bounds and orders them, and spreads the
// blocks of one message over idle cores. The zero Worker runs them in order.
type Worker struct {
	// Each calls f with every number from 0 to n-1, each once, in any order,
	// beside each other or not, and returns when all calls have. Where it
	// returns an error, calls may be missing and the message fails with that
	// error. Operations with the private part are a call for each block; those
	// with the public part, which take little time, are one call together.
	// nil: one after the other on the caller's goroutine.
	Each func(n int, f func(i int)) error
}

// each runs do for 0 to n-1, all of them, and gives the first error.
func (w Worker) each(n int, do func(i int) error) error {
	if w.Each == nil {
		var failed error
		for i := range n {
			if err := do(i); failed == nil {
				failed = err
			}
		}
		return failed
	}
	if n == 0 {
		return nil
	}
	var mu sync.Mutex
	var failed error
	err := w.Each(n, func(i int) {
		if err := do(i); err != nil {
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				failed = err
			}
		}
	})
	if err != nil {
		return err
	}
	return failed
}
