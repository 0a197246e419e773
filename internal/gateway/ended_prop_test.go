package gateway

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/policy"
)

// TestConfirmedStaysBelowTheLimit: in any order of questions, repetitions, ends, executions, waits,
// decisions of persons, restarts and restores, what was confirmed and has not ended is never above
// the limit, and no order is confirmed that has ended or was executed.
func TestConfirmedStaysBelowTheLimit(t *testing.T) {
	const limit = 10
	service := newService(t, countersigntest.ServiceConfig{})
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url, run := d.url(t), 0
			rapid.Check(t, func(rt *rapid.T) {
				run++
				symbol := fmt.Sprint("S", run)
				rules, err := policy.Parse(fmt.Appendf(nil, "default = \"allow\"\n[[limit]]\nname = \"day\"\nsymbol = %q\nmax = \"%d\"\nwindow = \"24h\"\n", symbol, limit))
				if err != nil {
					rt.Fatal(err)
				}
				start := func() *rig { return newRig(t, url, service, func(c *Config) { c.Policy = rules }) }
				r := start()
				defer func() { _ = r.db.Close() }() // also of a schedule that fails, so that shrinking opens it anew
				at := 0
				ids := rapid.IntRange(1, 4)
				id := func(n int) string { return fmt.Sprint("order-", run, "-", n) }
				amounts, confirmed, over := map[int]int64{}, map[int]bool{}, map[int]bool{}
				deliver := func(cb countersign.Callback) { r.deliver(cb) }
				ask := func(rt *rapid.T) {
					n := ids.Draw(rt, "n")
					w := countersigntest.Withdrawal(1)
					w.TrackingID, w.CallBackID = "w-"+id(n), id(n)
					result := service.Deliver(t.Context(), r.to, w)
					var refused *countersigntest.Refusal
					if result.Err != nil && !errors.As(result.Err, &refused) {
						rt.Fatal(result.Err)
					}
					if result.Err != nil {
						return
					}
					if over[n] {
						rt.Fatalf("%s is confirmed, and it has ended", id(n))
					}
					confirmed[n] = true
					sum := int64(0)
					for n := range confirmed {
						sum += amounts[n]
					}
					if sum > limit {
						rt.Fatalf("%d are confirmed and have not ended, the limit is %d", sum, limit)
					}
				}
				rt.Repeat(map[string]func(*rapid.T){
					"order": func(rt *rapid.T) {
						n, o := ids.Draw(rt, "n"), newOrder(1)
						amount := rapid.Int64Range(1, 6).Draw(rt, "amount")
						o.CallBackID, o.Symbol = id(n), symbol
						o.Amount, _ = countersign.ParseAmount(fmt.Sprint(amount))
						added, err := r.app.AddOrder(t.Context(), o)
						if err == nil && !added.Duplicate {
							amounts[n] = amount
						} else if err != nil && !errors.Is(err, client.ErrConflict) {
							rt.Fatal(err)
						}
					},
					"ask": ask, "ask again": ask,
					"person": func(rt *rapid.T) {
						n, err := ids.Draw(rt, "n"), error(nil)
						if rapid.Bool().Draw(rt, "cancel") {
							_, err = r.app.CancelOrder(t.Context(), id(n), "")
						} else {
							_, err = r.client.DeclineOrder(t.Context(), id(n), "")
						}
						if err == nil {
							over[n] = true
						} else if !errors.Is(err, client.ErrConflict) && !errors.Is(err, client.ErrNotFound) {
							rt.Fatal(err)
						}
					},
					"notice": func(rt *rapid.T) {
						at++
						n := ids.Draw(rt, "n")
						head := countersign.Head{TrackingID: fmt.Sprint("w-", id(n), "-", at), TenantUserID: newOrder(1).TenantUserID}
						switch typ := rapid.SampledFrom([]countersign.Type{3, 5, 6, 7}).Draw(rt, "type"); typ {
						case countersign.TypeWithdraw:
							w := countersigntest.Notice(typ, 1).(*countersign.WithdrawalDone)
							w.Head, w.CallBackID, w.Symbol = head, id(n), symbol
							w.TxID = rapid.SampledFrom([]string{"0xa" + id(n), "A" + id(n), "b" + id(n)}).Draw(rt, "txId")
							w.Amount, _ = countersign.ParseAmount(fmt.Sprint(rapid.Int64Range(1, 6).Draw(rt, "paid")))
							deliver(w)
							over[n] = true
						case countersign.TypeInvalidAddress:
							deliver(&countersign.WithdrawalEnded{Head: head, CallBackID: id(n)})
							o, err := r.client.Order(t.Context(), id(n))
							if err != nil && !errors.Is(err, client.ErrNotFound) {
								rt.Fatal(err)
							}
							if over[n] = true; o.State == client.OrderEnded {
								delete(confirmed, n) // its funds are free
							}
						default:
							w := countersigntest.Notice(typ, 1).(*countersign.WithdrawalNotice)
							w.Head, w.CallBackID = head, id(n)
							deliver(w)
						}
					},
					"restart": func(*rapid.T) {
						clock := r.clock
						if err := r.db.Close(); err != nil {
							t.Fatal(err)
						}
						r = start()
						r.clock.at.Store(clock.at.Load())
					},
					"restore": func(rt *rapid.T) { // a backup that lacks what the service was told
						now := db.MillisOf(r.clock.now())
						if _, err := r.book.Restored(t.Context(), 0, now); err != nil {
							rt.Fatal(err)
						}
						r.forgetAnswers()
						for n := range 4 {
							if rapid.Bool().Draw(rt, "ask") {
								w := countersigntest.Withdrawal(1)
								w.TrackingID, w.CallBackID = "w-"+id(n+1), id(n+1)
								if r.deliver(w) == countersign.CodeAccepted {
									rt.Fatalf("%s is confirmed before anybody has reconciled", w.CallBackID)
								}
							}
						}
						none := book.Said{Booked: func(string) bool { return false }, Transfer: func(string, string, int64) bool { return false }}
						if _, err := r.book.Reconcile(t.Context(), none, now); err != nil {
							rt.Fatal(err)
						}
						for n := range 4 {
							if _, err := r.book.ResumeOrder(t.Context(), id(n+1), "tok", "", now); err != nil && !errors.Is(err, db.ErrNotFound) {
								rt.Fatal(err)
							}
						}
					},
				})
			})
		})
	}
}
