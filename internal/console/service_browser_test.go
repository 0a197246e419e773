package console_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/client"
)

// world is a service with the demo's merchant, and a merchant that cannot be reached, with
// a deposit and a withdrawal that wait for it.
type world struct {
	*ends
	away       string // id of the merchant that cannot be reached
	admin      *client.Service
	withdrawal client.Withdrawal // awaits its answer for ever
	decided    client.Withdrawal
	pending    client.Callback
	settled    client.Callback
}

var worlds atomic.Int64

func newWorld(t *testing.T) *world {
	t.Helper()
	e, err := playDemo()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{ends: e}
	w.admin = w.api(t, w.first(t, "service"))
	w.away = fmt.Sprintf("away-%d", worlds.Add(1))
	ctx := t.Context()
	_, err = w.admin.CreateMerchant(ctx, client.NewMerchant{
		ID:               w.away,
		Key:              &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{Name: "A merchant that is away", NotifyURL: "http://127.0.0.1:1/notify", WithdrawURL: "http://127.0.0.1:1/withdraw"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.AddDeposits(ctx, deposit(t, w.away, "waits-1"), deposit(t, w.away, "waits-2")); err != nil {
		t.Fatal(err)
	}
	made, err := w.admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: w.away, CallBackID: "awaits-1", TenantUserID: "user-7",
		Details: &client.Details{Address: "TTarget", ChainName: "TRON", Symbol: "USDT", Amount: amount(t, "12.500000000000000001")}})
	if err != nil {
		t.Fatal(err)
	}
	w.withdrawal = made.Withdrawal
	list, err := w.admin.Callbacks(ctx, client.CallbackFilter{Merchant: w.away, TrackingID: "waits-1"}, client.PageOptions{})
	if err != nil || len(list.Callbacks) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	w.pending = list.Callbacks[0]
	all, err := w.admin.Withdrawals(ctx, client.WithdrawalFilter{Merchant: "demo", State: client.WithdrawalDeclined}, client.PageOptions{})
	if err != nil || len(all.Withdrawals) == 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, d := range all.Withdrawals {
		if d.Reason == "details_differ" {
			w.decided = d
		}
	}
	if w.settled, err = first(w.admin.Callbacks(ctx, client.CallbackFilter{Merchant: "demo", State: client.CallbackAccepted, Type: 1}, client.PageOptions{Limit: 1})); err != nil {
		t.Fatal(err)
	}
	return w
}

func first(page client.CallbackPage, err error) (client.Callback, error) {
	if err != nil || len(page.Callbacks) == 0 {
		return client.Callback{}, err
	}
	return page.Callbacks[0], nil
}

func amount(t testing.TB, s string) countersign.Amount {
	a, err := countersign.ParseAmount(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func deposit(t testing.TB, merchant, id string) client.NewDeposit {
	return client.NewDeposit{Merchant: merchant, TrackingID: id, TenantUserID: "user-7", TxID: "0x" + id, ChainName: "TRON", Symbol: "USDT",
		Amount: amount(t, "7.400000000000000001"), FromAddress: "TFrom", ToAddress: "TTo", TxIndex: -1}
}

// TestAnswered: what was wrong with an answer is said among the attempts.
func TestAnswered(t *testing.T) {
	browser := chromium(t)
	t.Parallel()
	w := newWorld(t)
	b := newTab(t, browser, w.service)
	b.signIn(w.token(t, client.RoleViewer).Secret)
	b.open("/console/withdrawals/" + w.decided.ID)
	b.shows("The merchant has confirmed nothing.", "details differ", "Compare both orders", "amount: “", "” was expected, “")
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		cb, err := w.admin.Callback(t.Context(), w.pending.ID)
		if err != nil || time.Now().After(end) {
			t.Fatalf("no attempt ends: %+v, %v", cb, err)
		}
		if len(cb.Attempts) > 0 {
			break
		}
	}
	b.open("/console/callbacks/" + w.pending.ID)
	b.shows("connection refused", "The merchant must run its server")
}

// TestLive: what happens appears by itself, and the end of the token ends the page.
func TestLive(t *testing.T) {
	browser := chromium(t)
	t.Parallel()
	w := newWorld(t)
	token := w.token(t, client.RoleViewer)
	b := newTab(t, browser, w.service)
	b.signIn(token.Secret)
	b.open("/console/now")
	count := func() string { return get[string](b, `document.querySelector("#count-notify-pending").textContent`) }
	before := count()
	get[bool](b, `(document.querySelector("#count-notify-pending").focus(), true)`)
	if _, err := w.admin.AddDeposits(t.Context(), deposit(t, w.away, "later")); err != nil {
		t.Fatal(err)
	}
	b.await(`document.querySelector("#count-notify-pending").textContent !== "` + before + `"`)
	if get[string](b, `document.activeElement.id`) != "count-notify-pending" {
		t.Error("the keyboard lost its place when the page changed")
	}
	if _, err := w.admin.RevokeToken(t.Context(), token.ID); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	b.await(`location.pathname === "/console/signin"`)
	t.Logf("the page ended %v after the revocation", time.Since(start).Round(10*time.Millisecond))
}
