package merchant_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"countersign"
	"countersign/countersigntest"
	"countersign/merchant"
)

// model is what must hold whatever happens.
type model struct {
	mu        sync.Mutex
	effects   map[string]int // OnDeposit that succeeded
	confirmed map[string]countersign.Details
	refused   map[string]bool
	wrong     []string
}

func (m *model) complain(format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// judge looks at one result.
func (m *model) judge(r countersigntest.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch sent := r.Sent.(type) {
	case *countersign.Deposit:
		if r.Err == nil && m.effects[sent.TrackingID] != 1 {
			m.complain("%s was accepted with %d effects", sent.TrackingID, m.effects[sent.TrackingID])
		}
	case *countersign.WithdrawalRequest:
		id := sent.CallBackID
		var refusal *countersigntest.Refusal
		if errors.As(r.Err, &refusal) && refusal.Code == countersign.CodeRefusedPerson {
			m.refused[id] = true
		}
		if r.Err != nil {
			return
		}
		before, ok := m.confirmed[id]
		if ok && before != r.Details() {
			m.complain("%s was confirmed as %v and as %v", id, before, r.Details())
		}
		if m.refused[id] {
			m.complain("%s was refused for good and then confirmed", id)
		}
		m.confirmed[id] = r.Details()
	}
}

// TestAnySequence delivers random callbacks in random order, several at once,
// through a service, a store and functions of the merchant that all fail at
// random, and then checks that each deposit had its effect exactly once and no
// withdrawal two answers.
func TestAnySequence(t *testing.T) {
	t.Parallel()
	service := newService(t, countersigntest.ServiceConfig{})
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{effects: map[string]int{}, confirmed: map[string]countersign.Details{}, refused: map[string]bool{}}
		// Random choices that goroutines make are drawn beforehand: rapid's
		// own source is for one goroutine.
		choices := rapid.SliceOfN(rapid.IntRange(0, 99), 200, 200).Draw(rt, "choices")
		var at int
		next := func() int { // under m.mu
			at++
			return choices[at%len(choices)]
		}
		healthy := false
		inbox := &faultyInbox{MemoryInbox: merchant.NewMemoryInbox()}
		// Only "not done" of claim: one that is done and lost blocks its
		// callback for a lease, which TestClaimLost covers.
		inbox.fault = func(call string) inboxFault {
			m.mu.Lock()
			defer m.mu.Unlock()
			switch n := next(); {
			case healthy || n >= 30:
				return noFault
			case call == "claim" || n < 10:
				return notDone
			case n < 20:
				return panics
			}
			return doneButFails
		}
		c := service.MerchantConfig()
		c.Inbox, c.Log = inbox, slog.New(slog.NewTextHandler(io.Discard, nil))
		c.Timeout, c.BodyTimeout = patience, patience
		c.OnDeposit = func(_ context.Context, d merchant.Deposit) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			switch n := next(); {
			case healthy || n >= 40:
			case n < 10:
				panic("deposit")
			default:
				return &merchant.CodeError{Code: countersign.ErrCode(2000 + 1000*(n%3))}
			}
			if m.effects[d.TrackingID]++; m.effects[d.TrackingID] > 1 {
				m.complain("%s had %d effects", d.TrackingID, m.effects[d.TrackingID])
			}
			return nil
		}
		c.OnPossibleDuplicate = merchant.KeepForReview
		c.OnWithdrawal = func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			switch n := next(); {
			case n < 10:
				panic("withdrawal")
			case n < 20:
				return merchant.Answer{}, errors.New("no")
			case n < 30:
				return merchant.Hold(countersign.CodeAwaitingApproval, ""), nil
			case n < 40:
				return merchant.Refuse(countersign.CodeRefusedPerson, ""), nil
			default: // of two minds, every time
				return merchant.Confirm(w.TenantUserID, countersigntest.Order(n)), nil
			}
		}
		h := must(merchant.New(c))(rt)
		to := countersigntest.ToHandler(h)
		deliver := func(cb countersign.Callback) { m.judge(service.Deliver(context.Background(), to, cb)) }
		callback := rapid.Custom(func(rt *rapid.T) countersign.Callback {
			n := rapid.IntRange(0, 2).Draw(rt, "n")
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				d := countersigntest.Deposit(n)
				d.Amount = countersigntest.Deposit(n + 1).Amount // the same deposit with other content
				return d
			case 1:
				return countersigntest.Withdrawal(n)
			}
			return countersigntest.Deposit(n)
		})
		rt.Repeat(map[string]func(*rapid.T){
			"one": func(rt *rapid.T) { deliver(callback.Draw(rt, "callback")) },
			"many": func(rt *rapid.T) {
				var wg sync.WaitGroup
				for _, cb := range rapid.SliceOfN(callback, 2, 6).Draw(rt, "callbacks") {
					wg.Go(func() { deliver(cb) })
				}
				wg.Wait()
			},
			"": func(rt *rapid.T) {
				if len(m.wrong) > 0 {
					rt.Fatalf("%v", m.wrong)
				}
			},
		})
		// Once nothing fails any more, everything comes to its end.
		healthy = true
		for n := range 3 {
			for range 2 {
				first, second := countersigntest.Deposit(n), countersigntest.Deposit(n)
				second.Amount = countersigntest.Deposit(n + 1).Amount
				deliver(first)
				deliver(second)
				deliver(countersigntest.Withdrawal(n))
			}
			if e := m.effects[countersigntest.Deposit(n).TrackingID]; e != 1 {
				rt.Fatalf("deposit %d had %d effects", n, e)
			}
		}
		if len(m.wrong) > 0 {
			rt.Fatalf("%v", m.wrong)
		}
		ok(rt, h.Wait(context.Background()))
	})
}
