package book

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/merchant"
)

// eachRestored runs test on a book of each database, whose restore is not reconciled.
func eachRestored(t *testing.T, test func(t *testing.T, b *Book)) {
	eachBook(t, func(t *testing.T, b *Book) {
		must(b.Restored(ctx, 0, 1))(t)
		test(t, b)
	})
}

// TestReconcileWhileDepositsArrive: what arrives while a restored book is reconciled counts, or
// is decided on. Nothing stays held for an epoch that has ended.
func TestReconcileWhileDepositsArrive(t *testing.T) {
	eachPair(t, func(t *testing.T, ends []*Book) {
		b, node := ends[0], ends[1]
		must(b.Restored(ctx, 0, 1))(t)
		var taken atomic.Int64
		var ended atomic.Bool
		var arriving sync.WaitGroup
		for w := range 4 {
			arriving.Go(func() {
				for i := 0; !ended.Load(); i++ {
					id := fmt.Sprint("d", w, "-", i)
					if _, err := node.Claim(ctx, inboxDeposit(id, "tx"+id, -1)); err != nil {
						t.Error(err)
						return
					}
					taken.Add(1)
				}
			})
		}
		for taken.Load() < 40 && !t.Failed() { // all of them are held
			time.Sleep(time.Millisecond)
		}
		if open, err := b.Reconcile(ctx, Said{func(string) bool { return false }, func(string, string, int64) bool { return false }}, 2); err != nil || !open {
			t.Errorf("%v, %v", open, err)
		}
		for at := taken.Load(); taken.Load() < at+20 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		ended.Store(true)
		arriving.Wait()
		if s, err := b.Stats(ctx); err != nil || s.DepositsHeld != 0 {
			t.Errorf("%d of %d are held, %v", s.DepositsHeld, taken.Load(), err)
		}
	})
}

// TestExecutedByBooks: the application's books said that an order is executed, without the
// transaction. The first that the service names is that transaction, and another one is a second.
func TestExecutedByBooks(t *testing.T) {
	eachRestored(t, func(t *testing.T, b *Book) {
		o := testOrder("o", "1.50")
		if adopted, err := b.AdoptOrder(ctx, Became{NewOrder: o, State: client.OrderExecuted, Confirmed: 1}, 2); err != nil || !adopted {
			t.Fatal(adopted, err)
		}
		for i, tx := range []string{"tx", "", "tx", "other"} {
			done := &countersign.WithdrawalDone{Head: countersign.Head{RequestUUID: fmt.Sprint("r", i), TrackingID: fmt.Sprint("t", i), TenantUserID: o.TenantUserID},
				CallBackID: "o", TxID: tx, ToAddress: o.Address, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount}
			e := merchant.NewEntry(done)
			e.At = time.UnixMilli(int64(10 + i))
			if r, err := b.Claim(ctx, e); err != nil || r.State != merchant.StateTaken {
				t.Fatalf("%q: %+v, %v", tx, r, err)
			}
			if o, err := b.Order(ctx, "o"); err != nil || o.State != client.OrderExecuted || o.TxID != "tx" {
				t.Errorf("%q: %+v, %v", tx, o, err)
			}
			list, err := endtest.Alarms(ctx, b)
			list = slices.DeleteFunc(list, func(a client.Alarm) bool { return a.Kind == client.AlarmRestored })
			if twice := len(list) == 1 && list[0].Kind == client.AlarmExecutedTwice; err != nil || twice != (tx == "other") || !twice && len(list) > 0 {
				t.Errorf("%q: alarms %+v, %v", tx, list, err)
			}
		}
		if s, err := b.Stats(ctx); err != nil || s.Orders[client.OrderExecuted] != 1 {
			t.Errorf("%+v, %v", s.Orders, err)
		}
	})
}

// TestDecidedOnce: of two persons who decide on the same held deposits at once, one is first with
// each, and each has one event.
func TestDecidedOnce(t *testing.T) {
	eachBook(t, func(t *testing.T, b *Book) {
		const n = 40
		for i := range n + 1 { // all but the first are held
			must(b.Claim(ctx, inboxDeposit(fmt.Sprint("d", i), "copied", -1)))(t)
		}
		var counts [2]int64
		var work sync.WaitGroup
		for i, to := range []client.DepositState{client.DepositCredited, client.DepositRejected} {
			work.Go(func() {
				for seq := int64(2); seq <= n+1; seq++ {
					got, err := b.DecideDeposit(ctx, seq, to, "tok", "r", 6)
					switch {
					case err == nil && got.State == to && got.DecidedBy == "tok" && got.Reason == "r" && got.Decided == 6:
						counts[i]++
					case !errors.Is(err, db.ErrConflict):
						t.Errorf("%+v, %v", got, err)
					}
				}
			})
		}
		work.Wait()
		if s, err := b.Stats(ctx); counts[0]+counts[1] != n || err != nil || s.DepositsHeld != 0 || s.Events != n {
			t.Errorf("%v were decided, %+v, %v", counts, s, err)
		}
		dbtest.Fails(b.DecideDeposit(ctx, 1, client.DepositTaken, "tok", "", 6))(t, db.ErrInvalid, "")
		dbtest.Fails(b.DecideDeposit(ctx, 1, client.DepositCredited, "tok", "a\x00", 6))(t, db.ErrInvalid, "")
	})
}
