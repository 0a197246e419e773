package book

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/policy"
	"countersign/merchant"
)

// endOrder lets the service say that an order ended without execution.
func endOrder(t testing.TB, m *Book, o client.NewOrder, at db.Millis) {
	t.Helper()
	c := &countersign.WithdrawalEnded{Head: countersign.Head{TrackingID: fmt.Sprint(o.CallBackID, " ended ", at), TenantUserID: o.TenantUserID}, CallBackID: o.CallBackID}
	if r, err := m.Claim(ctx, merchant.Entry{Callback: c, ID: c.TrackingID, At: at.Time()}); err != nil || r.State != merchant.StateTaken {
		t.Fatalf("%+v, %v", r, err)
	}
}

// execute lets the service say that it executed o.
func execute(t testing.TB, m *Book, o client.NewOrder, txID, amount string, at db.Millis) {
	t.Helper()
	c := &countersign.WithdrawalDone{Head: countersign.Head{TrackingID: fmt.Sprint(o.CallBackID, txID, at), TenantUserID: o.TenantUserID}, CallBackID: o.CallBackID, TxID: txID,
		ChainName: o.ChainName, Symbol: o.Symbol, ToAddress: o.Address, Amount: testOrder("", amount).Amount}
	if r, err := m.Claim(ctx, merchant.Entry{Callback: c, ID: c.TrackingID, At: at.Time()}); err != nil || r.State != merchant.StateTaken {
		t.Fatalf("%+v, %v", r, err)
	}
}

func rat(amount string) *big.Rat { r, _ := new(big.Rat).SetString(amount); return r }

// TestSpentAgrees: for any history of confirmations, ends and executions, the sum of any window is that of the orders
// themselves, also where it has more digits than an amount may have, and an order is confirmed below a ceiling exactly if
// it fits.
func TestSpentAgrees(t *testing.T) {
	huge := strings.Repeat("9", countersign.MaxAmountDigits)
	small := "0." + strings.Repeat("0", countersign.MaxAmountDigits-2) + "1"
	eachBook(t, func(t *testing.T, m *Book) {
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			symbol := fmt.Sprint("S", n)
			// Moments at the edges of spans and between.
			moment := rapid.Custom(func(rt *rapid.T) db.Millis {
				at := 1_800_000_000_000 - 1_800_000_000_000%spanDay + rapid.SampledFrom([]db.Millis{-spanDay, 0, spanDay, 2 * spanDay}).Draw(rt, "day")
				at += rapid.SampledFrom([]db.Millis{0, spanHour, 5 * spanHour, spanDay - 1}).Draw(rt, "hour")
				at += rapid.SampledFrom([]db.Millis{0, spanMinute, 59 * spanMinute}).Draw(rt, "minute")
				return at + db.Millis(rapid.IntRange(-1, 1).Draw(rt, "millisecond"))
			})
			type confirmed struct {
				order client.NewOrder
				at    db.Millis
				ended bool
				told  db.Millis // when it was executed
				paid  *big.Rat  // beyond what was ordered; nil: nothing
			}
			var book []confirmed
			spent := func(user string, since db.Millis) *big.Rat {
				sum := new(big.Rat)
				for _, c := range book {
					if user != "" && user != c.order.TenantUserID {
						continue
					}
					if !c.ended && c.at >= since {
						sum.Add(sum, rat(c.order.Amount.String()))
					}
					if c.paid != nil && c.told >= since {
						sum.Add(sum, c.paid)
					}
				}
				return sum
			}
			users := rapid.SampledFrom([]string{"", "7", "8"})
			for i := range rapid.IntRange(1, 8).Draw(rt, "orders") {
				o := testOrder(fmt.Sprint(n, "-", i), rapid.SampledFrom([]string{"1", "0.1", "2.500", "12345678901234567890.5", "0.000000000000000001", huge, small}).Draw(rt, "amount"))
				o.Symbol, o.TenantUserID = symbol, rapid.SampledFrom([]string{"7", "8"}).Draw(rt, "user")
				if _, _, err := m.AddOrder(ctx, o, "", 1); err != nil {
					rt.Fatal(err)
				}
				c := confirmed{order: o, at: moment.Draw(rt, "at")}
				change := OrderChange{CallBackID: o.CallBackID, TenantUserID: o.TenantUserID, From: client.OrderOpen, To: client.OrderConfirmed}
				if rapid.IntRange(0, 2).Draw(rt, "limited") == 0 {
					l := policy.Limit{TenantUserID: users.Draw(rt, "limit of"), Since: moment.Draw(rt, "limit since").Time()}
					is := spent(l.TenantUserID, db.MillisOf(l.Since))
					fits := is.Add(is, rat(o.Amount.String()))
					limits := []string{"0.1", "3.5", "12345678901234567891.5", huge}
					if _, err := countersign.ParseAmount(fits.FloatString(18)); err == nil {
						limits = append(limits, fits.FloatString(18))
					}
					l.Max = testOrder("", rapid.SampledFrom(limits).Draw(rt, "limit")).Amount
					change.Ceilings = []policy.Limit{l}
					if rat(l.Max.String()).Cmp(fits) < 0 {
						if _, err := m.ChangeOrder(ctx, change, c.at); !errors.Is(err, ErrChanged) {
							rt.Fatalf("%s together, at most %s: %v", fits.RatString(), l.Max, err)
						}
						continue
					}
				}
				if _, err := m.ChangeOrder(ctx, change, c.at); err != nil {
					rt.Fatal(err)
				}
				if c.ended = rapid.IntRange(0, 3).Draw(rt, "ends") == 0; c.ended {
					endOrder(t, m, o, c.at+5)
					endOrder(t, m, o, c.at+6) // said again it changes nothing
				}
				if rapid.IntRange(0, 2).Draw(rt, "executed") == 0 {
					c.told, c.paid = moment.Draw(rt, "told"), new(big.Rat)
					ordered, paid := rat(o.Amount.String()), new(big.Rat)
					times := rapid.IntRange(1, 2).Draw(rt, "times")
					for i := range times {
						amount := rapid.SampledFrom([]string{"1", "0.5", "700", o.Amount.String()}).Draw(rt, "paid")
						execute(t, m, o, fmt.Sprint("tx", i), amount, c.told)
						execute(t, m, o, fmt.Sprint("0xTX", i), amount, c.told+1) // the same transaction in another spelling
						paid.Add(paid, rat(amount))
					}
					if paid.Cmp(ordered) < 0 {
						paid = ordered
					}
					if c.paid.Set(paid); !c.ended {
						c.paid.Sub(paid, ordered)
					}
				}
				book = append(book, c)
			}
			for range 4 {
				user, since := users.Draw(rt, "of"), moment.Draw(rt, "since")
				got, err := m.Spent(ctx, rapid.SampledFrom([]string{symbol, strings.ToLower(symbol) + " "}).Draw(rt, "spelled"), user, since)
				if err != nil {
					rt.Fatal(err)
				}
				if want := spent(user, since); rat(got.String()).Cmp(want) != 0 {
					rt.Fatalf("%s of %q since %d: %s, want %s", symbol, user, since, got, want.RatString())
				}
			}
		})
	})
}

// TestCeilingsTogether confirms on two nodes at once what fits seven times. All
// that fits is confirmed, no more, and nobody has to try again while there is room.
func TestCeilingsTogether(t *testing.T) {
	eachPair(t, func(t *testing.T, ends []*Book) {
		const orders = 30
		for i := range orders {
			if _, _, err := ends[0].AddOrder(ctx, testOrder(fmt.Sprint("o", i), "13.4"), "", 1); err != nil {
				t.Fatal(err)
			}
		}
		most, _ := countersign.ParseAmount("100.5")
		var won, lost atomic.Int64
		var work sync.WaitGroup
		for i := range orders {
			work.Go(func() {
				c := OrderChange{CallBackID: fmt.Sprint("o", i), TenantUserID: "7", From: client.OrderOpen, To: client.OrderConfirmed, Ceilings: []policy.Limit{{Since: time.UnixMilli(1), Max: most}, {TenantUserID: "7", Max: most}}}
				switch _, err := ends[i%2].ChangeOrder(ctx, c, 1_800_000_000_000+db.Millis(i)*spanMinute/4); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, ErrChanged):
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		work.Wait()
		if sum := must(ends[1].Spent(ctx, "USDT", "", 0))(t); won.Load() != 7 || lost.Load() != orders-7 || sum.String() != "93.8" {
			t.Fatalf("%d confirmed, %d not: %s", won.Load(), lost.Load(), sum)
		}
	})
}
