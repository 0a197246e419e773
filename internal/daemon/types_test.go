package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"net/http/httptest"
	"slices"
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
	h, err := merchant.New(merchant.Config{
		Key: key, APIKey: apiKey, CallbackAPIKeys: []countersign.APIKey{apiKey}, Inbox: merchant.NewMemoryInbox(), Log: slog.New(slog.DiscardHandler),
		OnDeposit: func(_ context.Context, d merchant.Deposit) error { l.note(&d.Deposit); return nil },
		OnWithdrawal: func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			l.note(&w)
			order, _ := countersigntest.SampleOrders(w.CallBackID)
			return merchant.Confirm(w.TenantUserID, order), nil
		},
		OnPossibleDuplicate: merchant.KeepForReview,
		OnNotice:            func(_ context.Context, cb countersign.Callback) error { l.note(cb); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Server = httptest.NewServer(h)
	t.Cleanup(l.Close)
	if _, err := api.CreateMerchant(t.Context(), client.NewMerchant{
		ID:               "library",
		Key:              &client.KeySpec{PrivateKey: client.Secret(private)},
		MerchantSettings: client.MerchantSettings{Name: "Library", NotifyURL: l.URL + merchant.DefaultNotifyPath, WithdrawURL: l.URL + merchant.DefaultWithdrawPath},
		MerchantSecrets:  client.MerchantSecrets{APIKey: client.Secret(apiKey.Reveal()), CallbackAPIKey: client.Secret(apiKey.Reveal())},
	}); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestEveryType lets the service tell a gateway, and a merchant of package
// merchant, of everything that it can: all seven types are accepted by both and
// have their effect once.
func TestEveryType(t *testing.T) {
	b := startBoth(t, t.TempDir(), "", "")
	ctx := t.Context()
	lib := startLibrary(t, b.api)
	addOrders(t, b)
	for _, to := range []string{"shop", "library"} {
		everyType(t, b, to)
	}

	// The gateway: its feeds say all of it.
	deposits, err := b.gateway.Book().Deposits(ctx, 0, 10)
	if err != nil || len(deposits) != 1 {
		t.Errorf("deposits %+v, %v", deposits, err)
	}
	// The address replaces another: a person decides.
	if _, err := b.gateway.Book().DecideAddress(ctx, 1, client.AddressAccepted, "tok_1", "", 1); err != nil {
		t.Fatal(err)
	}
	events, err := b.gateway.Book().Events(ctx, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []client.EventKind
	for _, e := range events {
		kinds = append(kinds, e.Kind)
		if e.Kind == client.EventAddressChanged && (e.Address != "TNew" || e.OldAddress != "TOld" || e.TenantUserID != "60001") {
			t.Errorf("the change of address is %+v", e)
		}
	}
	slices.Sort(kinds)
	want := []client.EventKind{"address.changed", "address.held", "order.confirmed", "order.confirmed", "order.ended", "order.executed", "order.waiting", "order.waiting"}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %q, want %q", kinds, want)
	}

	// The library: each function once for each thing.
	lib.mu.Lock()
	defer lib.mu.Unlock()
	for typ, n := range map[countersign.Type]int{1: 1, 2: 2, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1} {
		if lib.told[typ] != n {
			t.Errorf("%v reached the merchant's code %d times, want %d", typ, lib.told[typ], n)
		}
	}
	if a, ok := lib.last[countersign.TypeAddress].(*countersign.AddressChange); !ok || a.CountingAddress() != "TNew" || a.TrackingID != "change-1" {
		t.Errorf("the change of address is %+v", lib.last[countersign.TypeAddress])
	}
	checkMetrics(t, b.service.URL(), b.gateway.URL())
	if err := b.stop(); err != nil {
		t.Error(err)
	}
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
	_, err := b.api.AddDeposits(ctx, client.NewDeposit{Merchant: to, TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, TxID: d.TxID,
		ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex})
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
