package merchant_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/merchant"
)

// holding is a merchant that holds every withdrawal until it decides.
type holding struct {
	*world
	decided atomic.Bool
	asked   atomic.Int64  // calls of OnWithdrawal
	waits   chan struct{} // gets a value when an exchange begins to wait
	wake    chan struct{} // ends a wait
}

func newHolding(t *testing.T, p merchant.Profile) *holding {
	h := &holding{waits: make(chan struct{}, 10), wake: make(chan struct{})}
	h.world = newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.Profile = p
		c.OnWithdrawal = func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			h.asked.Add(1)
			if !h.decided.Load() {
				return merchant.Hold(countersign.CodeAwaitingApproval, ""), nil
			}
			o, _ := countersigntest.SampleOrders(w.CallBackID)
			return merchant.Confirm(w.TenantUserID, o), nil
		}
		c.OnHeld = func(ctx context.Context, _ countersign.WithdrawalRequest) {
			h.waits <- struct{}{}
			select {
			case <-h.wake:
			case <-ctx.Done():
			}
		}
	})
	return h
}

func (h *holding) ask(ctx context.Context, n int) chan countersigntest.Result {
	result := make(chan countersigntest.Result, 1)
	go func() { result <- h.service.Deliver(ctx, h.to, countersigntest.Withdrawal(n)) }()
	return result
}

// TestHoldWait: the exchange stays open until the merchant decides, however often
// it is woken before; a hold that nobody asked to keep open is answered at once.
func TestHoldWait(t *testing.T) {
	h := newHolding(t, merchant.Profile{Hold: merchant.HoldWait, Wait: 90 * time.Second, MaxWaiting: 1})
	first := h.ask(t.Context(), 1)
	<-h.waits
	h.wake <- struct{}{} // nothing has changed
	<-h.waits
	// One exchange waits; another is not kept open beside it.
	h.refused(t, <-h.ask(t.Context(), 2), http.StatusOK, countersign.CodeAwaitingApproval, merchant.ReasonHold)
	h.decided.Store(true)
	h.wake <- struct{}{}
	if r := <-first; r.Err != nil || h.asked.Load() != 4 {
		t.Errorf("%v after %d calls", r.Err, h.asked.Load())
	}

	ask := newHolding(t, merchant.Profile{})
	ask.refused(t, <-ask.ask(t.Context(), 1), http.StatusOK, countersign.CodeAwaitingApproval, merchant.ReasonHold)
	if ask.asked.Load() != 1 || len(ask.waits) != 0 {
		t.Error("an exchange waited without being told to")
	}
}

// TestHoldEach: a question that is posted again and again does not take all places.
func TestHoldEach(t *testing.T) {
	h := newHolding(t, merchant.Profile{Hold: merchant.HoldWait, Wait: 90 * time.Second})
	var open []chan countersigntest.Result
	for range 4 {
		open = append(open, h.ask(t.Context(), 1))
		<-h.waits
	}
	h.refused(t, <-h.ask(t.Context(), 1), http.StatusOK, countersign.CodeAwaitingApproval, merchant.ReasonHold)
	open = append(open, h.ask(t.Context(), 2))
	<-h.waits
	h.handler.Stop()
	for _, result := range open {
		if r := <-result; r.Code() != countersign.CodeAwaitingApproval {
			t.Errorf("errCode %d", r.Code())
		}
	}
}

// TestHoldEnds: the time is over, the service goes away, or the process stops.
func TestHoldEnds(t *testing.T) {
	short := newHolding(t, merchant.Profile{Hold: merchant.HoldWait, Wait: time.Millisecond})
	short.refused(t, <-short.ask(t.Context(), 1), http.StatusOK, countersign.CodeAwaitingApproval, merchant.ReasonHold)

	h := newHolding(t, merchant.Profile{Hold: merchant.HoldWait, Wait: 90 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	gone := h.ask(ctx, 1)
	<-h.waits
	cancel()
	<-gone
	stays := h.ask(t.Context(), 2)
	<-h.waits
	h.handler.Stop()
	h.refused(t, <-stays, http.StatusOK, countersign.CodeAwaitingApproval, merchant.ReasonHold)
	h.refused(t, <-h.ask(t.Context(), 3), http.StatusOK, countersign.CodeAwaitingApproval, merchant.ReasonHold)
}

// TestHoldWithoutOnHeld: the merchant's function is asked again.
func TestHoldWithoutOnHeld(t *testing.T) {
	var asked atomic.Int64
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.Profile = merchant.Profile{Hold: merchant.HoldWait, Wait: 90 * time.Second}
		answer := c.OnWithdrawal
		c.OnWithdrawal = func(ctx context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			if asked.Add(1) == 1 {
				return merchant.Hold(countersign.CodeNotKnownYet, ""), nil
			}
			return answer(ctx, w)
		}
	})
	if r := w.deliver(countersigntest.Withdrawal(1)); r.Err != nil || asked.Load() != 2 {
		t.Errorf("%v after %d calls", r.Err, asked.Load())
	}
}
