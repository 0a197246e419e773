package book

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

func testOrder(id string, amount string) client.NewOrder {
	a, err := countersign.ParseAmount(amount)
	if err != nil {
		panic(err)
	}
	return client.NewOrder{CallBackID: id, TenantUserID: "7", Labels: map[string]string{"tier": "gold"},
		Address: "T", ChainName: "TRON", Symbol: "USDT", Amount: a}
}

// TestOrderRaces lets confirmations, refusals and cancellations of one order
// meet. One wins, and the feed of events tells of that one alone.
func TestOrderRaces(t *testing.T) {
	eachPair(t, func(t *testing.T, ends []*Book) {
		for round := range 15 {
			id := fmt.Sprint("o", round)
			if _, _, err := ends[0].AddOrder(ctx, testOrder(id, "1"), "", 1); err != nil {
				t.Fatal(err)
			}
			var won atomic.Int64
			var work sync.WaitGroup
			for i := range 8 {
				work.Go(func() {
					end := ends[i%2]
					var err error
					switch i % 4 {
					case 0:
						_, err = end.ChangeOrder(ctx, OrderChange{CallBackID: id, TenantUserID: "7", From: client.OrderOpen, To: client.OrderConfirmed}, 2)
					case 1:
						_, err = end.ChangeOrder(ctx, OrderChange{CallBackID: id, From: client.OrderOpen, To: client.OrderDeclined, By: "policy"}, 2)
					case 2:
						_, err = end.ChangeOrder(ctx, OrderChange{CallBackID: id, From: client.OrderOpen, To: client.OrderExpired, OtherUser: true}, 2)
					case 3:
						_, err = end.CancelOrder(ctx, id, "tok", "", 2)
						if err == nil && i != 3 {
							return // the same again changes nothing
						}
					}
					switch {
					case err == nil:
						won.Add(1)
					case !errors.Is(err, ErrChanged) && !errors.Is(err, db.ErrConflict):
						t.Error(err)
					}
				})
			}
			work.Wait()
			o, err := ends[0].Order(ctx, id)
			if err != nil || o.State == client.OrderOpen || o.Labels["tier"] != "gold" {
				t.Fatalf("%+v, %v", o, err)
			}
			if o.State != client.OrderCancelled && won.Load() != 1 {
				t.Fatalf("%d changes were made", won.Load())
			}
		}
		events, err := ends[0].Events(ctx, 0, 100)
		if err != nil || len(events) != 15 {
			t.Fatalf("%d events, %v", len(events), err)
		}
	})
}

// TestExpireOrders ends undecided ones at their time.
func TestExpireOrders(t *testing.T) {
	eachBook(t, func(t *testing.T, end *Book) {
		for i := range 5 {
			o := testOrder(fmt.Sprint("o", i), "1")
			o.ExpiresAt = db.Millis(100 + i)
			if i == 4 {
				o.ExpiresAt = db.Never
			}
			if _, _, err := end.AddOrder(ctx, o, "", 1); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := end.CancelOrder(ctx, "o0", "", "", 2); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{1, 1, 0} { // o1 and o2
			if n, err := end.ExpireOrders(ctx, 102, 1); err != nil || n != want {
				t.Fatalf("%d, %v; want %d", n, err, want)
			}
		}
		// At its end an order is not confirmed any more, expired or not.
		c := OrderChange{CallBackID: "o3", TenantUserID: "7", From: client.OrderOpen, To: client.OrderConfirmed}
		if _, err := end.ChangeOrder(ctx, c, 103); !errors.Is(err, ErrChanged) {
			t.Fatalf("at its end: %v", err)
		}
		if _, err := end.ChangeOrder(ctx, c, 102); err != nil {
			t.Fatal(err)
		}
		st, err := end.Stats(ctx)
		if err != nil || fmt.Sprint(st.Orders) != "map[cancelled:1 confirmed:1 expired:2 open:1]" || st.Events != 4 {
			t.Fatalf("%+v, %v", st, err)
		}
	})
}
