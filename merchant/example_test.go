package merchant_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"countersign"
	"countersign/countersigntest"
	"countersign/merchant"
)

// A complete merchant. The service at the end is a fake that makes the keys; a
// real one hands over its public part, for envelope.ParseKey, and two API keys.
func ExampleNew() {
	service, err := countersigntest.MakeService(countersigntest.ServiceConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	type order struct {
		user    string
		details countersign.Details
	}
	orders := map[string]order{"order-7": {countersigntest.Withdrawal(7).TenantUserID, countersigntest.Order(7)}}

	handler, err := merchant.New(merchant.Config{
		Key:             service.MerchantKey(),
		APIKey:          service.APIKey(),
		CallbackAPIKeys: []countersign.APIKey{service.CallbackAPIKey()},
		Inbox:           merchant.NewMemoryInbox(), // for a try: a restart forgets it
		OnDeposit: func(_ context.Context, d merchant.Deposit) error {
			fmt.Println("credit user", d.TenantUserID, "with", d.Amount, d.Symbol)
			return nil // in the transaction that makes d.TrackingID unique
		},
		OnPossibleDuplicate: merchant.KeepForReview,
		OnWithdrawal: func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			if o, ok := orders[w.CallBackID]; ok {
				return merchant.Confirm(o.user, o.details), nil
			}
			return merchant.Refuse(countersign.CodeUnknownOrder, ""), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/callbacks/", handler)
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx := context.Background()
	to := countersigntest.ToURLs(server.URL+"/callbacks/notify", server.URL+"/callbacks/withdraw", server.Client())
	fmt.Println(service.Deliver(ctx, to, countersigntest.Deposit(1)).Err)
	fmt.Println(service.Deliver(ctx, to, countersigntest.Deposit(1)).Err) // sent again, credited once
	fmt.Println(service.Deliver(ctx, to, countersigntest.Withdrawal(7)).Details().Amount)
	fmt.Println(service.Deliver(ctx, to, countersigntest.Withdrawal(8)).Err)
	// Output:
	// credit user 60001 with 1.01 USDT
	// <nil>
	// <nil>
	// 8.5
	// errCode 2001
}
