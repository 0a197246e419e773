package gateway

import (
	"fmt"
	"slices"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
)

// TestPaidCounts: what the service says that it executed counts for the limits and is told to the
// application, with the details that it says, whatever became of the order, and a person hears of it.
func TestPaidCounts(t *testing.T) {
	asked := func(r *rig, n int) { r.order(n); r.deliver(countersigntest.Withdrawal(n)) }
	cases := []struct {
		before func(r *rig, n int)
		change func(w *countersign.WithdrawalDone)
		times  int64
		own    bool // the order counts too
		alarm  client.AlarmKind
		cause  string
	}{
		{func(r *rig, n int) { asked(r, n); r.deliver(countersigntest.Notice(countersign.TypeInvalidAddress, n)) }, nil, 1, false,
			client.AlarmExecutedTwice, "executed after its end"},
		{func(r *rig, n int) { r.order(n); r.cancel(n) }, nil, 1, false, client.AlarmExecutedDiffers, "executed without confirmation"},
		{func(*rig, int) {}, nil, 1, false, client.AlarmOrderUnknown, "never ordered"},
		{asked, nil, 2, false, client.AlarmExecutedTwice, "a second transaction"},
		{asked, nil, 1, false, client.AlarmExecutedDiffers, "executed with other details"},
		{asked, func(w *countersign.WithdrawalDone) { w.Symbol = "USDC" }, 1, false, client.AlarmExecutedDiffers, "executed with other details"},
		{asked, func(w *countersign.WithdrawalDone) { w.TenantUserID = "other" }, 1, true, client.AlarmOrderUnknown, "another tenantUserId"},
	}
	eachRig(t, nil, func(t *testing.T, r *rig) {
		spent := func(symbol string) countersign.Sum {
			t.Helper()
			sum, err := r.book.Spent(t.Context(), symbol, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			return sum
		}
		for n, c := range cases {
			w := countersigntest.Notice(countersign.TypeWithdraw, n).(*countersign.WithdrawalDone)
			w.Amount, _ = countersign.ParseAmount("100")
			if c.change != nil {
				c.change(w)
			}
			before, tx := spent(w.Symbol), w.TxID
			c.before(r, n)
			want := before
			if c.own {
				want = want.Plus(newOrder(n).Amount.Sum())
			}
			for i := range c.times {
				want = want.Plus(w.Amount.Sum())
				w.TxID = fmt.Sprint(tx, i)
				for _, again := range []string{"", "again"} { // under another trackingId it is no other payment
					w.TrackingID = "tracked" + w.TxID + again
					if got := r.deliver(w); got != countersign.CodeAccepted {
						t.Fatalf("%s: errCode %d", c.cause, got)
					}
				}
				page, err := r.app.Events(t.Context(), client.FeedOptions{Limit: 100})
				if err != nil {
					t.Fatal(err)
				}
				e := page.Items[len(page.Items)-1]
				if e.Kind != client.EventOrderExecuted || e.TxID != w.TxID || e.TenantUserID != w.TenantUserID || e.Symbol != w.Symbol || e.Amount != w.Amount {
					t.Errorf("%s: the application is told %+v", c.cause, e)
				}
			}
			if got := spent(w.Symbol); got.Cmp(want) != 0 {
				t.Errorf("%s: %s count, want %s", c.cause, got, want)
			}
			raised := fmt.Sprintf("%s %s (%s)", c.alarm, w.CallBackID, c.cause)
			if all := alarms(r, func(a client.Alarm) string { return string(a.Kind) + " " + a.Subject }); !slices.Contains(all, raised) {
				t.Errorf("%q is not among %q", raised, all)
			}
		}
		// A second transaction under the trackingId of the first is refused, since the content differs, and yet it
		// counts, once.
		twice := func() (times int64) {
			for _, n := range alarms(r, func(a client.Alarm) int64 { return map[bool]int64{true: a.Number}[a.Kind == client.AlarmExecutedTwice] }) {
				times += n
			}
			return times
		}
		asked(r, 50)
		w := countersigntest.Notice(countersign.TypeWithdraw, 50).(*countersign.WithdrawalDone)
		want, first, times := spent(w.Symbol).Plus(w.Amount.Sum()), w.TxID, twice()
		for _, tx := range []string{first, "another", "another", first} {
			code := countersign.CodeAccepted
			if w.TxID = tx; tx != first {
				code = countersign.CodeDetailsDiffer
			}
			if got := r.deliver(w); got != code {
				t.Fatalf("errCode %d of %s, want %d", got, tx, code)
			}
		}
		if got := spent(w.Symbol); got.Cmp(want) != 0 || twice() != times+1 {
			t.Errorf("%s count, want %s; %d alarms of a second transaction, before %d", got, want, twice(), times)
		}
	})
}

func (r *rig) cancel(n int) {
	r.t.Helper()
	if _, err := r.app.CancelOrder(r.t.Context(), countersigntest.Withdrawal(n).CallBackID, ""); err != nil {
		r.t.Fatal(err)
	}
}
