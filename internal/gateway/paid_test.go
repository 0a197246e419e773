package gateway

import (
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
)

// TestPaidCounts: what the service says that it executed counts for the limits and is told to the
// application, with the details that it says, whatever became of the order, and a person hears of it.
func TestPaidCounts(t *testing.T) {
	const done, ended = countersign.TypeWithdraw, countersign.TypeInvalidAddress
	ask := func(r *rig) { r.deliver(countersigntest.Withdrawal(1)) }
	for _, c := range []struct {
		name   string
		before func(r *rig)
		change func(w *countersign.WithdrawalDone)
		times  int
		paid   string // of all users
		alarm  client.AlarmKind
		cause  string
	}{
		{"after the end", func(r *rig) { r.order(1); ask(r); r.deliver(countersigntest.Notice(ended, 1)) }, nil, 1, "100", client.AlarmExecutedTwice, "executed after its end"},
		{"after it was cancelled", func(r *rig) { r.order(1); r.cancel(1) }, nil, 1, "100", client.AlarmExecutedDiffers, "executed without confirmation"},
		{"never ordered", func(*rig) {}, nil, 1, "100", client.AlarmOrderUnknown, "never ordered"},
		{"twice", func(r *rig) { r.order(1); ask(r) }, nil, 2, "200", client.AlarmExecutedTwice, "a second transaction"},
		{"more than ordered", func(r *rig) { r.order(1); ask(r) }, nil, 1, "100", client.AlarmExecutedDiffers, "executed with other details"},
		{"another symbol", func(r *rig) { r.order(1); ask(r) }, func(w *countersign.WithdrawalDone) { w.Symbol = "USDC" }, 1, "100", client.AlarmExecutedDiffers, "executed with other details"},
		{"another user", func(r *rig) { r.order(1); ask(r) }, func(w *countersign.WithdrawalDone) { w.TenantUserID = "other" }, 1, "102.5", client.AlarmOrderUnknown, "another tenantUserId"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, d := range dialects {
				r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
				c.before(r)
				symbol := ""
				for i := range c.times {
					w := countersigntest.Notice(done, 1).(*countersign.WithdrawalDone)
					w.Amount, _ = countersign.ParseAmount("100")
					w.TxID += string(rune('a' + i))
					if c.change != nil {
						c.change(w)
					}
					symbol = w.Symbol
					for _, again := range []string{"", "again"} { // under another trackingId it is no other payment
						w.TrackingID = "tracked" + w.TxID + again
						if got := r.deliver(w); got != countersign.CodeAccepted {
							t.Fatalf("%s: errCode %d", d.name, got)
						}
					}
					page, err := r.app.Events(t.Context(), client.FeedOptions{Limit: 100})
					if err != nil {
						t.Fatal(err)
					}
					e := page.Events[len(page.Events)-1]
					if e.Kind != client.EventOrderExecuted || e.TxID != w.TxID || e.TenantUserID != w.TenantUserID || e.Symbol != w.Symbol || e.Amount != w.Amount {
						t.Errorf("%s: the application is told %+v", d.name, e)
					}
				}
				got, err := r.book.Spent(t.Context(), symbol, "", 0)
				if want, _ := countersign.ParseSum(c.paid); err != nil || got.Cmp(want) != 0 {
					t.Errorf("%s: %s count, want %s, %v", d.name, got, c.paid, err)
				}
				kinds := r.alarms()
				if len(kinds) == 0 || kinds[len(kinds)-1] != c.alarm {
					t.Errorf("%s: alarms are %v", d.name, kinds)
				}
				if c.times == 1 {
					r.wantCauses(c.cause)
				} else {
					r.wantCauses("executed with other details", c.cause)
				}
			}
		})
	}
}

// TestPaidTwiceUnderOneTrackingID: a second transaction under the trackingId of the first is refused,
// since the content differs, and yet it counts, once.
func TestPaidTwiceUnderOneTrackingID(t *testing.T) {
	for _, d := range dialects {
		r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
		r.order(1)
		r.deliver(countersigntest.Withdrawal(1))
		w := countersigntest.Notice(countersign.TypeWithdraw, 1).(*countersign.WithdrawalDone)
		first := w.TxID
		for _, tx := range []string{first, "another", "another", first} {
			want := countersign.CodeAccepted
			if w.TxID = tx; tx != first {
				want = countersign.CodeDetailsDiffer
			}
			if got := r.deliver(w); got != want {
				t.Fatalf("%s: errCode %d of %s, want %d", d.name, got, tx, want)
			}
		}
		got, err := r.book.Spent(t.Context(), w.Symbol, "", 0)
		if want := w.Amount.Sum().Plus(w.Amount.Sum()); err != nil || got.Cmp(want) != 0 {
			t.Errorf("%s: %s count, want %s, %v", d.name, got, want, err)
		}
		n := 0
		for _, kind := range r.alarms() {
			if kind == client.AlarmExecutedTwice {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: %d alarms of a second transaction: %v", d.name, n, r.alarms())
		}
	}
}

func (r *rig) cancel(n int) {
	r.t.Helper()
	if _, err := r.app.CancelOrder(r.t.Context(), countersigntest.Withdrawal(n).CallBackID, ""); err != nil {
		r.t.Fatal(err)
	}
}
