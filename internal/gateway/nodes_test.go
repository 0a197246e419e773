package gateway

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/policy"
)

// twoNodes are two gateways on one PostgreSQL.
func twoNodes(t *testing.T, service *countersigntest.Service, change func(*Config)) (a, b *rig) {
	t.Helper()
	url := dialects[1].url(t)
	return newRig(t, url, service, change), newRig(t, url, service, change)
}

// TestTwoWorkOnOneQuestion: a lease on a question may end while it is worked on.
// Whoever decides, at how many nodes at once, and whatever persons do meanwhile,
// the answers agree with each other and with what became of the order.
func TestTwoWorkOnOneQuestion(t *testing.T) {
	for _, rules := range []*wordPolicy{{effect: policy.Allow}, {effect: policy.Deny}, {effect: policy.Ask}} {
		a, b := twoNodes(t, newService(t, countersigntest.ServiceConfig{}), func(c *Config) {
			c.lease, c.Grace = time.Nanosecond, -1
			rules.use(c)
		})
		seen := map[countersign.ErrCode]int{}
		for n := range 15 {
			id := countersigntest.Withdrawal(n).CallBackID
			if n%5 > 0 { // else it comes while it is asked for
				a.order(n)
			}
			var work sync.WaitGroup
			codes := make([]countersign.ErrCode, 6)
			for i := range codes {
				r := []*rig{a, b}[i%2]
				w := *countersigntest.Withdrawal(n)
				work.Go(func() { codes[i] = r.deliver(&w) })
			}
			decide := []func(context.Context, string, string) (client.Order, error){a.client.CancelOrder, b.client.DeclineOrder, b.client.ApproveOrder}[n%3]
			work.Go(func() {
				if n%5 == 0 {
					_, _ = b.app.AddOrder(t.Context(), newOrder(n)) // may be too late
				}
				_, _ = decide(t.Context(), id, "") // may be too late
			})
			work.Wait()
			for _, r := range []*rig{a, b} {
				codes = append(codes, r.deliver(countersigntest.Withdrawal(n)))
			}
			final := codes[:0]
			for _, code := range codes {
				if class := code.Class(); class == countersign.ClassAccepted || class == countersign.ClassRefused {
					final = append(final, code) // a busy database may also have answered "failed, ask again"
				}
			}
			if len(final) == 0 {
				continue
			}
			want := map[string]countersign.ErrCode{"confirmed": 0, "cancelled": countersign.CodeOrderCancelled, "unknown": countersign.CodeUnknownOrder}
			o, err := a.client.Order(t.Context(), id)
			is, known := want[string(o.State)]
			if o.State == "declined" {
				is, known = countersign.CodeRefusedPerson, true
				if o.DecidedBy == byPolicy {
					is = countersign.CodeRefusedPolicy
				}
			}
			if err != nil || !known || slices.Min(final) != is || slices.Max(final) != is {
				t.Fatalf("order %d is %s (%s): errCodes %v, %v\n%s%s", n, o.State, o.DecidedBy, codes, err, a.log, b.log)
			}
			seen[is]++
		}
		t.Logf("policy %v: by errCode %v", rules.effect, seen)
	}
}
