package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// TestMerchantHealth: what the API says of a merchant that is well, fails in two ways and
// recovers, by its own page and by the list of merchants.
func TestMerchantHealth(t *testing.T) {
	for name, database := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			token := ""
			service, err := NewService(ServiceConfig{Common: Common{Storage: Storage{Dir: t.TempDir(), DB: database(t)}, ShowToken: func(first, _ string) { token = first }},
				Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := service.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- service.Run(ctx) }()
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			api := must(client.NewService(client.Config{URL: service.URL(), Token: client.Secret(token), HTTPClient: &http.Client{Transport: transport}}))

			// The merchant answers rightly behind a server that the test may break.
			key, private := newPair(t)
			right, err := merchant.New(merchant.Config{Key: key, APIKey: apiKey, Inbox: merchant.NewMemoryInbox()})
			if err != nil {
				t.Fatal(err)
			}
			const well, status, text = 0, 1, 2
			var fault atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch fault.Load() {
				case well:
					right.ServeHTTP(w, r)
				case status:
					http.Error(w, "no", http.StatusServiceUnavailable)
				case text:
					fmt.Fprintf(w, `{"apiKey":%q,"errCode":"0"}`, apiKey.Reveal())
				}
			}))
			defer server.Close()
			const id = "shop"
			const hours = client.Duration(100 * time.Hour)
			must(api.CreateMerchant(ctx, client.NewMerchant{ID: id, Key: &client.KeySpec{PrivateKey: client.Secret(private)},
				MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: server.URL + merchant.DefaultNotifyPath, WithdrawURL: server.URL + merchant.DefaultWithdrawPath,
					// Only a resend makes another attempt.
					Retry: &client.Retry{Notify: &client.Schedule{Delays: []client.Duration{0, hours, hours, hours, hours}}}},
				MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret(apiKey.Reveal())}}))
			b := &bothEnds{t: t}
			// health reads both, which say the same.
			health := func() client.MerchantHealth {
				t.Helper()
				h := client.MerchantHealth{}
				if one := must(api.Merchant(ctx, id)).Health; one != nil {
					h = *one
				}
				list := must(api.Merchants(ctx, client.PageOptions{})).Merchants
				if len(list) != 1 {
					t.Fatalf("%+v", list)
				}
				listed := client.MerchantHealth{}
				if list[0].Health != nil {
					listed = *list[0].Health
				}
				if one, other := asJSON(t, h), asJSON(t, listed); one != other {
					t.Errorf("the page of the merchant says\n%s\nand the list\n%s", one, other)
				}
				return h
			}
			if h := health(); asJSON(t, h) != `{"failing":false}` {
				t.Errorf("never called: %s", asJSON(t, h))
			}
			deposit := func(n int) string {
				d := countersigntest.Deposit(n)
				return must(api.AddDeposits(ctx, client.NewDeposit{Merchant: id, TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, TxID: d.TxID,
					ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex}))[0].ID
			}
			// after waits for the attempt and gives what is said then.
			after := func(callback string, attempts int) client.MerchantHealth {
				t.Helper()
				b.await(fmt.Sprintf("attempt %d of %s", attempts, callback), func(ctx context.Context) (bool, error) {
					cb, err := api.Callback(ctx, callback)
					return len(cb.Attempts) == attempts && cb.State != client.CallbackSending, err
				})
				return health()
			}

			first := deposit(1)
			h1 := after(first, 1)
			if h1.LastReached == 0 || h1.LastReached != h1.LastAccepted || h1.FailingSince != 0 || h1.Failing || h1.LastFailure != nil {
				t.Errorf("well: %s", asJSON(t, h1))
			}

			fault.Store(status)
			second := deposit(2)
			h2 := after(second, 1)
			if h2.LastReached != h1.LastReached || h2.LastAccepted != h1.LastAccepted || h2.FailingSince < h1.LastAccepted || h2.Failing {
				t.Errorf("status 503: %s", asJSON(t, h2))
			}
			if f := h2.LastFailure; f == nil || f.Callback != second || f.Reason != client.ReasonStatus || f.Text != client.ReasonStatus.Text() || f.Facts == nil ||
				!strings.Contains(f.Facts.Text(), "HTTP 503") || f.At != h2.FailingSince {
				t.Fatalf("status 503: %s", asJSON(t, h2))
			}

			fault.Store(text)
			h3 := h2
			for n := 2; n <= 3; n++ {
				must(api.ResendCallback(ctx, second))
				h3 = after(second, n)
			}
			if h3.LastFailure == nil || h3.LastReached != h3.LastFailure.At || h3.LastAccepted != h1.LastAccepted || h3.FailingSince != h2.FailingSince {
				t.Errorf("errCode as text: %s", asJSON(t, h3))
			}
			if f := h3.LastFailure; f == nil || f.Callback != second || f.Reason != client.ReasonResponseMalformed || f.Facts == nil || f.Facts.Member != "errCode" ||
				f.Facts.Came != "a text" || f.At < h2.LastFailure.At {
				t.Fatalf("errCode as text: %s", asJSON(t, h3))
			}

			fault.Store(well)
			must(api.ResendCallback(ctx, second))
			h4 := after(second, 4)
			if h4.LastAccepted < h3.LastFailure.At || h4.LastReached != h4.LastAccepted || h4.FailingSince != 0 || h4.Failing ||
				asJSON(t, h4.LastFailure) != asJSON(t, h3.LastFailure) {
				t.Errorf("well again: %s", asJSON(t, h4))
			}
		})
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
