package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAside: a key is made behind the withdrawals that wait for a core, one at a time though
// cores are free, and beyond those that have a place none waits.
func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dispatcher{cores: newCores(1), aside: newAside()}
		d.cores.most = 1
		var order []string // the core is one
		var all sync.WaitGroup
		work := func(name string) func() {
			return func() {
				time.Sleep(time.Second)
				order = append(order, name)
			}
		}
		withdrawal := func(name string) {
			all.Go(func() {
				f := work(name)
				if _, err := d.cores.each(t.Context(), new(account), turnWithdrawSeal, 1, func(int) { f() }); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		key := func() {
			all.Go(func() {
				if err := d.Aside(t.Context(), work("key")); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		withdrawal("first")
		key()
		withdrawal("second")
		withdrawal("third")
		all.Wait()
		if want := []string{"first", "second", "third", "key"}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}

		d.cores = newCores(8)
		start := time.Now()
		for range asideMost {
			key()
		}
		if err := d.Aside(t.Context(), func() { t.Error("one more ran") }); !errors.Is(err, ErrAsideFull) {
			t.Errorf("one more: %v", err)
		}
		all.Wait()
		if took := time.Since(start); took != asideMost*time.Second {
			t.Errorf("%d took %v", asideMost, took)
		}
		key()
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := d.Aside(gone, func() { t.Error("it ran for nobody") }); !errors.Is(err, context.Canceled) {
			t.Errorf("of who has left: %v", err)
		}
		all.Wait()
		if d.cores.busy != 0 || len(d.aside.places) != 0 {
			t.Errorf("%d cores and %d places are taken", d.cores.busy, len(d.aside.places))
		}
	})
}
