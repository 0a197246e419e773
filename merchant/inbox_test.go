package merchant_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/merchant"
)

// TestMemoryInbox: CheckInbox compares other inboxes with this one, and so a fault of it is seen where they are tested.
func TestMemoryInbox(t *testing.T) {
	countersigntest.CheckInbox(t, func() (a, b merchant.Inbox) {
		m := merchant.NewMemoryInbox()
		return m, m
	})
}

// TestCheckInboxChecks: the suite that other inboxes rely on must be able to
// say no.
func TestCheckInboxChecks(t *testing.T) {
	for name, inbox := range map[string]func() merchant.Inbox{
		"forgets":            func() merchant.Inbox { return forgetful{} },
		"no lease":           func() merchant.Inbox { return changed{merchant.NewMemoryInbox(), noLease} },
		"no blocks":          func() merchant.Inbox { return changed{merchant.NewMemoryInbox(), noBlocks} },
		"no transfers":       func() merchant.Inbox { return changed{merchant.NewMemoryInbox(), noTransfers} },
		"no content":         func() merchant.Inbox { return changed{merchant.NewMemoryInbox(), noContent} },
		"does not renew":     func() merchant.Inbox { return renewing{merchant.NewMemoryInbox(), false} },
		"renews for anybody": func() merchant.Inbox { return renewing{merchant.NewMemoryInbox(), true} },
		"settles everything": func() merchant.Inbox { return changed{merchant.NewMemoryInbox(), settles} },
	} {
		var verdict refusals
		func() {
			defer func() { _ = recover() }() // Fatalf
			countersigntest.CheckInbox(&verdict, func() (a, b merchant.Inbox) {
				in := inbox()
				return in, in
			})
		}()
		if verdict == 0 {
			t.Errorf("%s: passes", name)
		}
	}
}

type refusals int

func (*refusals) Helper()                     {}
func (r *refusals) Errorf(string, ...any)     { *r++ }
func (r *refusals) Fatalf(f string, _ ...any) { *r++; panic(f) }
func (*refusals) Cleanup(func())              {}

type forgetful struct{}

func (forgetful) Claim(context.Context, merchant.Entry) (merchant.Claimed, error) {
	return merchant.Claimed{State: merchant.StateClaimed, Seq: 1, Claim: 1}, nil
}

func (forgetful) Settle(_ context.Context, s merchant.Settlement) (merchant.Reply, error) {
	return s.Reply, nil
}

type changed struct {
	*merchant.MemoryInbox
	change func(*merchant.Entry)
}

func (c changed) Claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	c.change(&e)
	return c.MemoryInbox.Claim(ctx, e)
}

// renewing is wrong in Renew alone: it does nothing, or it also renews what the
// caller does not hold.
type renewing struct {
	*merchant.MemoryInbox
	forAnybody bool
}

func (r renewing) Renew(ctx context.Context, n merchant.Renewal) error {
	if !r.forAnybody {
		return nil
	}
	_ = r.MemoryInbox.Renew(ctx, n)
	return nil
}

func noLease(e *merchant.Entry)     { e.Lease = min(e.Lease, time.Nanosecond); e.At = time.Now() }
func noBlocks(e *merchant.Entry)    { e.Blocks = nil }
func noTransfers(e *merchant.Entry) { e.Transfer = merchant.Digest{} }
func noContent(e *merchant.Entry)   { e.Content = merchant.Digest{} }
func settles(e *merchant.Entry)     { e.Lease = 0 }

func TestMemoryInboxLimits(t *testing.T) {
	m := merchant.NewMemoryInbox()
	m.Limit(2, 2)
	ctx := context.Background()
	for n := range 2 {
		must(m.Claim(ctx, merchant.NewEntry(countersigntest.Deposit(n))))(t)
	}
	if _, err := m.Claim(ctx, merchant.NewEntry(countersigntest.Deposit(2))); !errors.Is(err, merchant.ErrInboxFull) {
		t.Errorf("a third entry: %v", err)
	}
	if c, err := m.Claim(ctx, merchant.NewEntry(countersigntest.Deposit(1))); err != nil || c.State != merchant.StateSettled {
		t.Errorf("a known entry in a full inbox: %v, %v", c.State, err)
	}
	// Of three blocks the oldest is forgotten.
	m = merchant.NewMemoryInbox()
	m.Limit(10, 2)
	see := func(n, block, body byte) merchant.State {
		e := merchant.NewEntry(countersigntest.Deposit(int(n)))
		e.Blocks = &merchant.Blocks{Body: merchant.BlockDigest{body},
			List: []merchant.Block{{Digest: merchant.BlockDigest{block}, Own: true}}}
		return must(m.Claim(ctx, e))(t).State
	}
	for n := byte(1); n <= 3; n++ {
		see(n, n, n)
	}
	if got := see(4, 3, 9); got != merchant.StateSpliced {
		t.Errorf("the newest: %v", got)
	}
	if got := see(4, 1, 9); got != merchant.StateTaken {
		t.Errorf("the forgotten: %v", got)
	}
	if got := see(5, 2, 9); got != merchant.StateTaken {
		t.Errorf("forgotten by now: %v", got)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := m.Claim(ended, merchant.NewEntry(countersigntest.Deposit(7))); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if _, err := m.Settle(ended, merchant.Settlement{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if _, err := m.Settle(ctx, merchant.Settlement{}); !errors.Is(err, merchant.ErrNotClaimed) {
		t.Errorf("settling nothing: %v", err)
	}
}

// TestInboxFaults: each call of the inbox fails in each way, once. The service
// is told 5000, asks again, and the function acts once all the same.
func TestInboxFaults(t *testing.T) {
	for _, call := range []string{"claim", "settle"} {
		for _, fault := range []inboxFault{
			notDone, doneButFails, panics,
		} {
			if call == "claim" && fault == doneButFails {
				continue // the claim is taken and nobody knows: see below
			}
			broken := true
			w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
				c.Inbox = &faultyInbox{c.Inbox.(*merchant.MemoryInbox), func(now string) inboxFault {
					if broken && now == call {
						return fault
					}
					return noFault
				}}
			})
			for _, cb := range []countersign.Callback{countersigntest.Deposit(1), countersigntest.Withdrawal(1), countersigntest.Notice(3, 1)} {
				broken = true
				w.refused(t, w.deliver(cb), 200, 5000, merchant.ReasonInbox)
				broken = false
				for range 2 {
					if r := w.deliver(cb); r.Err != nil {
						t.Errorf("%s, fault %d, type %d: %v", call, fault, cb.CallbackType(), r.Err)
					}
				}
			}
			questions := 3 // each is judged (PROTOCOL.md, I1)
			if call == "claim" {
				questions = 2 // the first did not come so far
			}
			if w.effects("deposit-1") != 1 || w.asked["order-1"] != questions || len(w.notices) != 1 {
				t.Errorf("%s, fault %d: %d deposits, %d questions, %d notices", call, fault,
					w.effects("deposit-1"), w.asked["order-1"], len(w.notices))
			}
		}
	}
}

// TestClaimLost: a claim that took effect and failed blocks its callback until
// the lease ends, as a process does that dies.
func TestClaimLost(t *testing.T) {
	synctest.Test(t, testClaimLost)
}

func testClaimLost(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	broken := true
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.Now = func() time.Time { return now }
		c.Inbox = &faultyInbox{c.Inbox.(*merchant.MemoryInbox), func(string) inboxFault {
			if broken {
				return doneButFails
			}
			return noFault
		}}
	})
	w.refused(t, w.deliver(countersigntest.Deposit(1)), 200, 5000, merchant.ReasonInbox)
	broken = false
	w.refused(t, w.deliver(countersigntest.Deposit(1)), 200, 5000, merchant.ReasonBusy)
	now = now.Add(time.Minute)
	w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonAccepted)
	if n := w.effects("deposit-1"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

type stateless struct{ merchant.Inbox }

func (stateless) Claim(context.Context, merchant.Entry) (merchant.Claimed, error) {
	return merchant.Claimed{}, nil
}

func TestZeroState(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) { c.Inbox = stateless{} })
	w.refused(t, w.deliver(countersigntest.Deposit(1)), 200, 5000, merchant.ReasonInbox)
	if w.total() != 0 {
		t.Error("the zero State lets a function act")
	}
}
