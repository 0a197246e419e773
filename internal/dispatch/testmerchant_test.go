package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

type noObserver struct{}

func (noObserver) Attempt(countersign.Lane, countersign.Type, client.AttemptResult, client.Reason, time.Duration) {
}
func (noObserver) RSA(string, time.Duration)      {}
func (noObserver) Claimed(countersign.Lane, int)  {}
func (noObserver) Settled(int, time.Duration)     {}
func (noObserver) Decided(countersign.Decision)   {}
func (noObserver) Swept(outbox.Swept)             {}
func (noObserver) InFlight(countersign.Lane, int) {}

// testPair is one pair for the whole test binary, made when first asked for.
var testPair = sync.OnceValue(func() *envelope.Key { return mustKey(1024) })

func mustKey(bits int) *envelope.Key {
	k, err := envelope.GenerateKey(bits)
	if err != nil {
		panic(err)
	}
	return k
}

// postTo stands in for the network to honest merchants that know every order. The first that opens a request answers it.
func postTo(list ...countersigntest.MerchantConfig) poster {
	var merchants []*countersigntest.Merchant
	for _, c := range list {
		c.APIKey = cmp.Or(c.APIKey, testKey)
		c.Orders = func(string) (countersign.Details, bool) { return testDetails(), true }
		m := must(countersigntest.MakeMerchant(c))
		merchants = append(merchants, m)
	}
	return func(ctx context.Context, q request) (r Response) {
		for _, m := range merchants {
			w, asked := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, q.url.String(), bytes.NewReader(q.body))
			asked.Header.Set("X-API-KEY", q.apiKey.Reveal())
			m.ServeHTTP(w, asked)
			if w.Code == http.StatusOK {
				return Response{Status: w.Code, Body: w.Body.Bytes()}
			}
			r = Response{Status: w.Code, Page: w.Body.Bytes()}
		}
		return r
	}
}

// testStoreMerchant is the service's row for a merchant at url.
func testStoreMerchant(id string, pair *envelope.Key, url string) outbox.Merchant {
	m := outbox.Merchant{
		KeySet: outbox.KeySet{MerchantKeys: outbox.MerchantKeys{APIKey: testKey, CallbackAPIKey: "callback-key", Key: pair}}, ID: id,
		State:            client.MerchantActive,
		Scheme:           client.SchemeService,
		Version:          1,
		MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), Name: id, NotifyURL: url + "/notify", WithdrawURL: url + "/withdraw", Concurrency: 1000, AllowPrivate: new(true)},
	}
	m.SetDefaults()
	return m
}

func depositPayload(n int) outbox.NewCallback {
	d := testDeposit()
	d.RequestUUID = countersign.UnboundUUID
	d.TrackingID = fmt.Sprintf("track-%06d", n)
	d.TxID = fmt.Sprintf("8d1b2c3f4a5e60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5%08d", n)
	payload := must(d.Marshal())
	return outbox.NewCallback{Type: countersign.TypeDeposited, EventID: d.TrackingID, TrackingID: d.TrackingID, TxID: d.TxID,
		Payload: payload, Deadline: db.Never}
}

func withdrawalPayload(n int) outbox.NewWithdrawal {
	w := &countersign.WithdrawalRequest{
		Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: fmt.Sprintf("w-track-%d", n), TenantUserID: "user-1"}, CallBackID: fmt.Sprintf("cb-%d", n),
	}
	payload := must(w.Marshal())
	d := testDetails()
	return outbox.NewWithdrawal{CallBackID: w.CallBackID, TenantUserID: w.TenantUserID, TrackingID: w.TrackingID, Details: &d, Payload: payload}
}
