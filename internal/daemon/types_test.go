package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
	"countersign/merchant"
)

// library is a merchant of package merchant, which writes down what reached its
// functions.
type library struct {
	*httptest.Server
	mu   sync.Mutex
	told map[countersign.Type]int
	last map[countersign.Type]countersign.Callback
}

func (l *library) note(cb countersign.Callback) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[cb.CallbackType()]++
	l.last[cb.CallbackType()] = cb
}

// startLibrary registers it as "library".
func startLibrary(t *testing.T, api *client.Service) *library {
	t.Helper()
	key, private := newPair(t)
	l := &library{told: map[countersign.Type]int{}, last: map[countersign.Type]countersign.Callback{}}
	h := must(merchant.New(merchant.Config{
		Key: key, APIKey: apiKey, CallbackAPIKeys: []countersign.APIKey{apiKey}, Inbox: merchant.NewMemoryInbox(), Log: slog.New(slog.DiscardHandler),
		OnDeposit: func(_ context.Context, d merchant.Deposit) error { l.note(&d.Deposit); return nil },
		OnWithdrawal: func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			l.note(&w)
			order, _ := countersigntest.SampleOrders(w.CallBackID)
			return merchant.Confirm(w.TenantUserID, order), nil
		},
		OnPossibleDuplicate: merchant.KeepForReview,
		OnNotice:            func(_ context.Context, cb countersign.Callback) error { l.note(cb); return nil },
	}))
	l.Server = httptest.NewServer(h)
	t.Cleanup(l.Close)
	must(api.CreateMerchant(t.Context(), client.NewMerchant{
		ID:               "library",
		Key:              &client.KeySpec{PrivateKey: client.Secret(private)},
		MerchantSettings: client.MerchantSettings{Name: "Library", NotifyURL: l.URL + merchant.DefaultNotifyPath, WithdrawURL: l.URL + merchant.DefaultWithdrawPath},
		MerchantSecrets:  client.MerchantSecrets{APIKey: client.Secret(apiKey.Reveal()), CallbackAPIKey: client.Secret(apiKey.Reveal())},
	}))
	return l
}

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

// everyType makes the service tell one merchant of everything, and waits until
// all of it is accepted.
func everyType(t *testing.T, b *bothEnds, to string) {
	t.Helper()
	ctx := t.Context()
	accepted := func(want int) {
		t.Helper()
		b.await(fmt.Sprintf("%d accepted callbacks of %s", want, to), func(ctx context.Context) (bool, error) {
			n := 0
			for c, err := range client.All(ctx, b.api.Callbacks, client.CallbackFilter{Merchant: to, State: client.CallbackAccepted}) {
				if err != nil || c.Merchant != to {
					return false, err
				}
				n++
			}
			return n == want, nil
		})
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", to, err)
		}
	}
	d := countersigntest.Deposit(1)
	_, err := b.api.AddDeposits(ctx, newDeposit(to, d))
	do(err)
	for range 2 { // the second is a repetition, at the service already
		_, err = b.api.AddAddress(ctx, client.NewAddress{Merchant: to, ChangeID: "change-1", TenantUserID: d.TenantUserID,
			NewAddress: "TNew", ToAddress: "TOld", ChainName: "TRON", Symbol: "USDT"})
		do(err)
	}
	var ids []string
	for n := 1; n <= 2; n++ {
		w := countersigntest.Withdrawal(n)
		asked, err := b.api.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: to, CallBackID: w.CallBackID, TenantUserID: w.TenantUserID})
		do(err)
		ids = append(ids, asked.ID)
	}
	accepted(4)
	outcomes := []client.Outcome{{Executed: &client.Executed{TxID: "0xdone"}}, {Failed: &client.Failed{Reason: "the address takes nothing"}}}
	for i, id := range ids {
		permit, err := b.api.ReleaseWithdrawal(ctx, id, "wallet")
		do(err)
		outcomes[i].Permit = permit.Permit
	}
	for _, what := range []client.WaitingFor{"funds", "fees", "funds", "fees"} { // two of them are repetitions, which the merchant knows
		_, err := b.api.ReportWaiting(ctx, ids[0], what)
		do(err)
	}
	accepted(8)
	for i, id := range ids {
		_, err := b.api.ReportOutcome(ctx, id, outcomes[i])
		do(err)
	}
	accepted(10)
}
