package gateway

import (
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/policy"
	"countersign/merchant"
)

// TestHoldWaits: with hold = "wait" a withdrawal is confirmed within one exchange,
// where its order arrives, or a person approves it, after the question. What nobody
// decides is told the provider's own code for a hold.
func TestHoldWaits(t *testing.T) {
	rules := &wordPolicy{}
	eachRig(t, func(c *Config) {
		rules.use(c)
		c.Callbacks.Profile = merchant.Profile{Hold: merchant.HoldWait, Wait: 90 * time.Second, HoldCode: 42}
	}, func(t *testing.T, r *rig) {
		rules.effect = policy.Allow
		// ask puts the question and gives what its answer was, once it is there.
		ask := func(n int) chan countersign.ErrCode {
			answer := make(chan countersign.ErrCode, 1)
			go func() { answer <- r.deliver(countersigntest.Withdrawal(n)) }()
			r.until("withdrawal "+countersigntest.Withdrawal(n).CallBackID+" is asked for", func() bool {
				entries, _, err := r.book.Entries(t.Context(), client.InboxFilter{ID: countersigntest.Withdrawal(n).CallBackID}, 1, 0)
				return err == nil && len(entries) == 1 && !entries[0].Settled
			})
			return answer
		}

		late := ask(1)
		r.order(1)
		if code := <-late; code != countersign.CodeAccepted {
			t.Errorf("the order came later: errCode %d\n%s", code, r.log)
		}

		rules.effect = policy.Ask
		r.order(2)
		held := ask(2)
		r.until("the order is held", func() bool {
			asked, err := r.book.AskedFor(t.Context(), countersigntest.Withdrawal(2).CallBackID, 1)
			return err == nil && asked.Order.State == client.OrderHeld
		})
		if _, err := r.client.ApproveOrder(t.Context(), countersigntest.Withdrawal(2).CallBackID, "looks right"); err != nil {
			t.Fatal(err)
		}
		if code := <-held; code != countersign.CodeAccepted {
			t.Errorf("approved: errCode %d\n%s", code, r.log)
		}

		r.order(3)
		held = ask(3)
		if _, err := r.client.DeclineOrder(t.Context(), countersigntest.Withdrawal(3).CallBackID, "no"); err != nil {
			t.Fatal(err)
		}
		if code := <-held; code != countersign.CodeRefusedPerson {
			t.Errorf("declined: errCode %d\n%s", code, r.log)
		}

		// Stopping answers what waits, and holds nothing open from then on.
		waits := ask(4)
		r.Stop()
		if code := <-waits; code != 42 {
			t.Errorf("stopped: errCode %d", code)
		}
		if code := <-ask(5); code != 42 {
			t.Errorf("after the stop: errCode %d", code)
		}
	})
}

// until waits for is, as long as the test run may take.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for end, ok := r.deadline(); !is(); time.Sleep(time.Millisecond) {
		if ok && time.Now().After(end) {
			r.t.Errorf("in vain: %s\n%s", what, r.log)
			return
		}
	}
}

// deadline is shortly before the end of the test run.
func (r *rig) deadline() (time.Time, bool) {
	t, ok := r.t.(*testing.T)
	if !ok {
		return time.Time{}, false
	}
	end, ok := t.Deadline()
	return end.Add(-10 * time.Second), ok
}
