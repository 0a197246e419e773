package merchant_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"countersign/countersigntest"
	"countersign/merchant"
)

// TestOpeningIsBounded: while the private part is busy, requests wait; beyond the
// bound, after the time-out and when the service has gone they are refused
// without any RSA, and nothing is left behind.
func TestOpeningIsBounded(t *testing.T) {
	own := mustKey(1024)
	for _, c := range []struct {
		name     string
		most     int // blocks that may wait
		hangUp   time.Duration
		occupied time.Duration
		status   int
		took     time.Duration
	}{
		{"free", 1, 0, 0, 200, 0},
		{"waits", 8, 0, 3 * time.Second, 200, 3 * time.Second},
		{"default bound", 0, 0, 3 * time.Second, 200, 3 * time.Second},
		{"queue is full", 4, 0, 3 * time.Second, 503, 0}, // a deposit has five blocks
		{"waits too long", 8, 0, time.Minute, 503, merchant.DefaultTimeout},
		{"the service hangs up", 8, 2 * time.Second, time.Minute, 503, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, countersigntest.ServiceConfig{RequestKey: own.Public()}, func(mc *merchant.Config) {
					mc.Key, mc.MaxOpening, mc.MaxWaitingBlocks = own, 1, c.most
				})
				if c.occupied > 0 {
					release := w.handler.Occupy()
					time.AfterFunc(c.occupied, release)
				}
				ctx := context.Background()
				if c.hangUp > 0 {
					var hangUp context.CancelFunc
					ctx, hangUp = context.WithTimeout(ctx, c.hangUp)
					defer hangUp()
				}
				began := time.Now()
				r := w.service.Deliver(ctx, w.to, countersigntest.Deposit(1))
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				if c.status == 200 {
					w.accepted(t, r, merchant.ReasonAccepted)
				} else {
					w.refused(t, r, 503, 5000, merchant.ReasonOverload)
					if got := r.Header.Get("Retry-After"); got != "1" {
						t.Errorf("Retry-After %q", got)
					}
					if w.total() != 0 {
						t.Error("it was taken")
					}
				}
				time.Sleep(2 * time.Minute)
				if n := w.handler.Waiting(); n != 0 {
					t.Errorf("%d blocks still wait", n)
				}
				w.accepted(t, w.deliver(countersigntest.Deposit(2)), merchant.ReasonAccepted)
			})
		})
	}
}
