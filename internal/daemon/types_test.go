package daemon

import (
	"context"
	"fmt"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
)

// newDeposit is a deposit as the API takes it.
func newDeposit(to string, d *countersign.Deposit) client.NewDeposit {
	return client.NewDeposit{Merchant: to, TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, TxID: d.TxID, ChainName: d.ChainName,
		Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex}
}

// addOrders orders the withdrawals of everyType at the gateway.
func addOrders(t *testing.T, b *bothEnds) {
	t.Helper()
	for n := 1; n <= 2; n++ {
		w := countersigntest.Withdrawal(n)
		if _, _, err := b.gateway.Book().AddOrder(t.Context(), client.NewOrder{CallBackID: w.CallBackID, TenantUserID: w.TenantUserID}.Paying(countersigntest.Order(n)), "", db.MillisOf(time.Now())); err != nil {
			t.Fatal(err)
		}
	}
}

// everyType makes the service tell the shop of everything, and waits until all of it is accepted: withdrawal 1 is
// executed, and 2 failed.
func everyType(t *testing.T, b *bothEnds) {
	t.Helper()
	const to = "shop"
	ctx := t.Context()
	accepted := func(want int) {
		t.Helper()
		b.await(fmt.Sprint(want, " accepted callbacks"), func(ctx context.Context) (bool, error) {
			page, err := b.api.Callbacks(ctx, client.CallbackFilter{State: client.CallbackAccepted}, client.PageOptions{})
			return len(page.Items) == want, err
		})
	}
	d := countersigntest.Deposit(1)
	must(b.api.AddDeposits(ctx, newDeposit(to, d)))
	for range 2 { // the second is a repetition, at the service already
		must(b.api.AddAddress(ctx, client.NewAddress{Merchant: to, ChangeID: "change-1", TenantUserID: d.TenantUserID,
			NewAddress: "TNew", ToAddress: "TOld", ChainName: "TRON", Symbol: "USDT"}))
	}
	var ids []string
	for n := 1; n <= 2; n++ {
		w := countersigntest.Withdrawal(n)
		ids = append(ids, must(b.api.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: to, CallBackID: w.CallBackID, TenantUserID: w.TenantUserID})).ID)
	}
	accepted(4)
	outcomes := []client.Outcome{{Executed: &client.Executed{TxID: "0xdone"}}, {Failed: &client.Failed{Reason: "the address takes nothing"}}}
	for i, id := range ids {
		outcomes[i].Permit = must(b.api.ReleaseWithdrawal(ctx, id, "wallet")).Permit
	}
	for _, what := range []client.WaitingFor{"funds", "fees", "funds", "fees"} { // two of them are repetitions, which the merchant knows
		must(b.api.ReportWaiting(ctx, ids[0], what))
	}
	accepted(8)
	for i, id := range ids {
		must(b.api.ReportOutcome(ctx, id, outcomes[i]))
	}
	accepted(10)
}
