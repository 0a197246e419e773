package merchant_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign"
	"countersign/countersigntest"
	"countersign/merchant"
)

// TestConfirmedStaysBelowTheLimit: an application that knows its orders is asked in any order of
// questions, repetitions, cancels, types 3, 5, 6 and 7, restarts, losses of the whole inbox, and
// failures to record. What was confirmed and has not ended is never above its limit, and no order
// is confirmed that has ended.
func TestConfirmedStaysBelowTheLimit(t *testing.T) {
	t.Parallel()
	const limit, orders = 10, 4
	service := newService(t, countersigntest.ServiceConfig{})
	rapid.Check(t, func(rt *rapid.T) {
		// What the application knows, and what the service was told.
		counted, over, confirmed := map[string]int{}, map[string]bool{}, map[string]int{}
		amounts := map[string]int{}
		for n := range orders {
			amounts[fmt.Sprint("order-", n)] = 2 + n
		}
		sum := func(of map[string]int) (all int) {
			for _, amount := range of {
				all += amount
			}
			return all
		}
		fault := noFault
		inbox := &faultyInbox{MemoryInbox: merchant.NewMemoryInbox()}
		inbox.fault = func(call string) inboxFault {
			if call == "claim" && fault != noFault {
				return noFault // a claim that is lost blocks its callback for a lease
			}
			return fault
		}
		var clock atomic.Int64
		c := service.MerchantConfig()
		c.Inbox, c.Log = inbox, slog.New(slog.DiscardHandler)
		c.Now = func() time.Time { return time.Unix(clock.Add(3600), 0) } // leases have ended
		c.OnWithdrawal = func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			id := w.CallBackID
			switch {
			case over[id]:
				return merchant.Refuse(countersign.CodeOrderCancelled, ""), nil
			case counted[id] == 0 && sum(counted)+amounts[id] > limit:
				return merchant.Hold(countersign.CodeAwaitingApproval, ""), nil
			}
			counted[id] = amounts[id]
			d := countersigntest.Order(1)
			d.Amount, _ = countersign.ParseAmount(fmt.Sprint(amounts[id]))
			return merchant.Confirm(w.TenantUserID, d), nil
		}
		executed := map[string]bool{}
		c.OnNotice = func(_ context.Context, cb countersign.Callback) error {
			switch id := cb.OrderID(); cb.CallbackType().Effect() {
			case countersign.EffectExecuted:
				over[id], executed[id], counted[id] = true, true, amounts[id]
			case countersign.EffectEnded:
				if over[id] = true; !executed[id] {
					delete(counted, id)
				}
			}
			return nil
		}
		var to countersigntest.Endpoint
		start := func() {
			to = countersigntest.ToHandler(must(merchant.New(c))(rt))
		}
		start()
		id := func(rt *rapid.T) string { return fmt.Sprint("order-", rapid.IntRange(0, orders-1).Draw(rt, "n")) }
		failing := func(rt *rapid.T) {
			fault = rapid.SampledFrom([]inboxFault{noFault, noFault,
				notDone, doneButFails, panics}).Draw(rt, "fault")
		}
		ask := func(rt *rapid.T) {
			failing(rt)
			w := countersigntest.Withdrawal(1)
			w.CallBackID = id(rt)
			w.TrackingID = "w-" + w.CallBackID
			result := service.Deliver(context.Background(), to, w)
			var refused *countersigntest.Refusal
			if result.Err != nil && !errors.As(result.Err, &refused) {
				rt.Fatal(result.Err)
			}
			if result.Err != nil {
				return
			}
			if over[w.CallBackID] {
				rt.Fatalf("%s is confirmed, and it has ended", w.CallBackID)
			}
			if confirmed[w.CallBackID] = amounts[w.CallBackID]; sum(confirmed) > limit {
				rt.Fatalf("%v are confirmed and have not ended, the limit is %d", confirmed, limit)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"ask": ask, "ask again": ask,
			"cancel": func(rt *rapid.T) { over[id(rt)] = true },
			"notice": func(rt *rapid.T) {
				failing(rt)
				cb := report(rapid.SampledFrom([]countersign.Type{3, 5, 6, 7}).Draw(rt, "type"), id(rt), rapid.IntRange(0, 1).Draw(rt, "again"))
				service.Deliver(context.Background(), to, cb)
				if cb.CallbackType() == countersign.TypeInvalidAddress && counted[cb.OrderID()] == 0 {
					delete(confirmed, cb.OrderID()) // its funds are free
				}
			},
			"restart": func(*rapid.T) { start() },
			"lose":    func(*rapid.T) { inbox.MemoryInbox = merchant.NewMemoryInbox(); start() },
		})
	})
}

// report is what the service says of the withdrawal id; n tells two reports of a type apart.
func report(typ countersign.Type, id string, n int) countersign.Callback {
	head := countersign.Head{TrackingID: fmt.Sprint("w-", id, "-", n), TenantUserID: countersigntest.Withdrawal(1).TenantUserID}
	switch cb := countersigntest.Notice(typ, 1).(type) {
	case *countersign.WithdrawalDone:
		cb.Head, cb.CallBackID = head, id
		return cb
	case *countersign.WithdrawalEnded:
		cb.Head, cb.CallBackID = head, id
		return cb
	case *countersign.WithdrawalNotice:
		cb.Head, cb.CallBackID = head, id
		return cb
	}
	return nil
}
