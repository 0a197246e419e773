package book

import (
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/merchant"
)

// TestEndedBeforeSettled: an order that ends between its confirmation and the moment the answer is
// kept is not confirmed, however the answer comes: kept now, or kept by another process before.
func TestEndedBeforeSettled(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			b := New(openAt(t, d.url(t)), Config{})
			o := testOrder("W", "1")
			if _, _, err := b.AddOrder(ctx, o, "", 1); err != nil {
				t.Fatal(err)
			}
			q := question("W")
			r, err := b.Claim(ctx, q)
			if err != nil || r.State != merchant.StateClaimed {
				t.Fatalf("%+v, %v", r, err)
			}
			change := OrderChange{CallBackID: "W", TenantUserID: o.TenantUserID, From: client.OrderOpen, To: client.OrderConfirmed}
			if _, err := b.ChangeOrder(ctx, change, 2); err != nil {
				t.Fatal(err)
			}
			s := merchant.Settlement{Type: countersign.TypeRequestWithdraw, ID: "W", Claim: r.Claim, Final: true, At: q.At, Reply: merchant.Reply{Details: o.Details()}}
			if kept, err := b.Settle(ctx, s); err != nil || kept != s.Reply {
				t.Fatalf("while it is confirmed: %+v, %v", kept, err)
			}
			endOrder(t, b, o, 3)
			over := merchant.Reply{Code: countersign.CodeOrderCancelled, Message: countersign.CodeOrderCancelled.Message()}
			for range 2 {
				if kept, err := b.Settle(ctx, s); err != nil || kept != over {
					t.Fatalf("after the end: %+v, %v", kept, err)
				}
			}
			q.At = q.At.Add(time.Hour)
			if r, err := b.Claim(ctx, q); err != nil || r.State != merchant.StateSettled || r.Reply != over {
				t.Fatalf("asked again: %+v, %v", r, err)
			}
			list, err := b.StandingAlarms(ctx, client.AlarmEndedAgain)
			if err != nil || len(list) != 1 || list[0].Subject != "W" || list[0].Number != 1 {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}
