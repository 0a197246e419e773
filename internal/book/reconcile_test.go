package book

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestReconcileWhileDepositsArrive: what arrives while a restored book is reconciled counts, or
// is decided on. Nothing stays held for an epoch that has ended.
func TestReconcileWhileDepositsArrive(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d := openAt(t, url)
		b, node := New(d, Config{}), New(d, Config{})
		if d.Dialect().Shared {
			node = New(openAt(t, url), Config{})
		}
		if _, err := b.Restored(ctx, 0, 1); err != nil {
			t.Fatal(err)
		}
		var taken atomic.Int64
		var ended atomic.Bool
		var arriving sync.WaitGroup
		for w := range 4 {
			arriving.Go(func() {
				for i := 0; !ended.Load(); i++ {
					id := fmt.Sprint("d", w, "-", i)
					if _, err := node.Claim(ctx, inboxDeposit(id, "tx"+id, -1)); err != nil {
						t.Error(err)
						return
					}
					taken.Add(1)
				}
			})
		}
		for taken.Load() < 40 && !t.Failed() { // all of them are held
			time.Sleep(time.Millisecond)
		}
		if open, err := b.Reconcile(ctx, Said{func(string) bool { return false }, func(string, int64) bool { return false }}, 2); err != nil || !open {
			t.Errorf("%v, %v", open, err)
		}
		for at := taken.Load(); taken.Load() < at+20 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		ended.Store(true)
		arriving.Wait()
		if s, err := b.Stats(ctx); err != nil || s.DepositsHeld != 0 {
			t.Errorf("%d of %d are held, %v", s.DepositsHeld, taken.Load(), err)
		}
	})
}
