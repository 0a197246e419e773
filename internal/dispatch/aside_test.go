package dispatch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"countersign"
)

// TestAside: keys are made one at a time though cores are free, behind the deposits that came
// before and beside the withdrawals.
func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dispatcher{cores: newCores(0), longWork: make(chan struct{}, 1)} // one place in each lane
		var all sync.WaitGroup
		key := func() {
			all.Go(func() {
				if err := d.RunLong(t.Context(), func() { time.Sleep(time.Second) }); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		began := time.Now()
		ended := func(lane countersign.Lane) (at time.Duration) {
			if _, err := d.cores.each(t.Context(), lane, 1, func(int) { time.Sleep(time.Second) }); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		key()
		all.Go(func() {
			if at := ended(countersign.LaneNotify); at != 2*time.Second {
				t.Errorf("a deposit that waited for the key ended after %v", at)
			}
		})
		if at := ended(countersign.LaneWithdraw); at != time.Second {
			t.Errorf("a withdrawal beside the key ended after %v", at)
		}
		all.Wait()

		d.cores = newCores(8)
		start := time.Now()
		for range 8 {
			key()
		}
		all.Wait()
		if took := time.Since(start); took != 8*time.Second {
			t.Errorf("eight took %v", took)
		}
		key()
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := d.RunLong(gone, func() { t.Error("it ran for nobody") }); !errors.Is(err, context.Canceled) {
			t.Errorf("of who has left: %v", err)
		}
		all.Wait()
		if len(d.cores[countersign.LaneNotify]) != 0 || len(d.longWork) != 0 {
			t.Errorf("%d cores and %d places are taken", len(d.cores[countersign.LaneNotify]), len(d.longWork))
		}
	})
}
