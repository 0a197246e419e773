package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign/client"
)

func TestStopLetsExchangesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.d.post = func(ctx context.Context, q request) Response {
			time.Sleep(10 * time.Second)
			return r.honest(ctx, q)
		}
		r.start(t)
		id := r.addDeposit("m1", 1)
		time.Sleep(time.Second)
		start := time.Now()
		r.cancel()
		synctest.Wait()
		after := r.addDeposit("m1", 2) // nobody takes this one
		<-r.done
		if took := time.Since(start); took != 9*time.Second {
			t.Errorf("stopped after %v", took)
		}
		if c := r.callback(id); c.State != client.CallbackAccepted {
			t.Errorf("%+v", c)
		}
		if c := r.callback(after); c.State != client.CallbackPending || c.Attempt != 0 {
			t.Errorf("%+v", c)
		}
		if err := r.d.Run(t.Context()); err == nil {
			t.Error("ran twice")
		}
	})
}

// takeCores takes every place there is for RSA, until free is called.
func takeCores(c *cores) (free func()) {
	for _, places := range c {
		for len(places) < cap(places) {
			places <- struct{}{}
		}
	}
	return func() {
		for _, places := range c {
			for range cap(places) {
				<-places
			}
		}
	}
}

func TestStopGivesBackWhatWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config, _ *rig) { c.RSA = 1 })
		var sent atomic.Int64
		post := r.d.post
		r.d.post = func(ctx context.Context, q request) Response {
			sent.Add(1)
			return post(ctx, q)
		}
		free := takeCores(r.d.cores) // everything waits for its seal
		for i := range 10 {
			r.addDeposit("m1", i)
		}
		r.addWithdrawal("m1", 1, time.Hour, true)
		r.start(t)
		time.Sleep(time.Second)
		r.stop()
		free()
		if sent.Load() != 0 || r.returned != 11 || len(r.settled) != 0 {
			t.Errorf("%d sent, %d given back, %d settled", sent.Load(), r.returned, len(r.settled))
		}
		list, _, err := r.Callbacks(t.Context(), nil, client.CallbackFilter{}, 100, "")
		ok(err)
		for _, c := range list {
			if c.State != client.CallbackPending || c.Failed != 0 {
				t.Errorf("%+v", c)
			}
		}
	})
}

// Waiting too long for a core leaves too little of the lease for an exchange.
func TestShortLeaseIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config, _ *rig) { c.RSA = 1 })
		free := takeCores(r.d.cores)
		id := r.addDeposit("m1", 1)
		r.start(t)
		time.Sleep(40 * time.Second)
		free()
		time.Sleep(time.Second)
		if c := r.callback(id); r.returned != 1 || c.State != client.CallbackAccepted || c.Attempt != 2 || c.Failed != 0 {
			t.Errorf("%d given back, %+v", r.returned, c)
		}
		r.stop()
	})
}

func TestStopWithADeadDatabaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.start(t)
		synctest.Wait()
		r.mu.Lock()
		r.fault = func(m string, _ bool) bool { return m == "settle" || m == "giveback" }
		r.mu.Unlock()
		r.addDeposit("m1", 1)
		time.Sleep(time.Second)
		start := time.Now()
		r.stop()
		if took := time.Since(start); took > 25*time.Second {
			t.Errorf("stopped after %v", took)
		}
	})
}
