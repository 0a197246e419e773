package conformance_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"

	"countersign"
	"countersign/conformance"
	"countersign/envelope"
	"countersign/merchant"
)

// One group of cases against a merchant in Go. A merchant in another language is
// checked by its two URLs.
func ExampleChecker_Run() {
	pair, err := envelope.GenerateKey(1024) // the service's; 2048 bits outside examples
	if err != nil {
		fmt.Println(err)
		return
	}
	endpoint, err := merchant.New(merchant.Config{
		Key:                 pair.Public(),
		APIKey:              "merchant-1",
		Inbox:               merchant.NewMemoryInbox(),
		OnDeposit:           func(context.Context, merchant.Deposit) error { return nil },
		OnPossibleDuplicate: merchant.KeepForReview,
		Log:                 slog.New(slog.DiscardHandler),
		OnWithdrawal: func(context.Context, countersign.WithdrawalRequest) (merchant.Answer, error) {
			return merchant.Refuse(countersign.CodeUnknownOrder, ""), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(endpoint)
	defer server.Close()

	checker, err := conformance.New(conformance.Config{
		NotifyURL:   server.URL + merchant.DefaultNotifyPath,
		WithdrawURL: server.URL + merchant.DefaultWithdrawPath,
		Key:         pair,
		APIKey:      "merchant-1",
		Only:        func(c conformance.Case) bool { return strings.HasPrefix(c.Name, "message/") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	sum, err := checker.Run(context.Background(), func(r conformance.Result) {
		if r.Ending == conformance.Fail {
			fmt.Println(r.Name, r.Problem, r.Fix)
		}
	})
	fmt.Println(sum, err)
	// Output: 12 passed, 0 failed, 0 skipped <nil>
}
