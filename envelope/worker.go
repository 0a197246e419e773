package envelope

import "sync"

// Worker seals and opens as the functions [Seal] and [Open] do. Its
// Each decides when, and on which goroutines, the RSA operations of a message
// run. So a sender of many messages can bound them, order them, and spread the
// blocks of one message over idle cores. The zero Worker runs them in order.
type Worker struct {
	// Each calls f once with every number from 0 to n-1, in any order, concurrently or not, and returns when all calls
	// have returned. If it returns an error, it may have left out calls; the message fails with that error. Every
	// operation with the private part is a call of its own; those with the public part, which take little time, are one
	// call together. Nil: one after the other on the caller's goroutine.
	Each func(n int, f func(i int)) error
	// Most is the largest plaintext, in bytes, that is opened. A body with more blocks than Seal makes of it is
	// ErrTooLarge before any RSA operation. 0: only MaxBody is the bound.
	Most int
}

// each calls do for 0 to n-1, whatever fails, and returns the first error.
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
