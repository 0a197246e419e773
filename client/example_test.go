package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"countersign/client"
)

// A deposit goes from the wallet core to the merchant's application: the core
// tells the service, the service tells the gateway, and the application reads
// the gateway's feed.
func Example() {
	ends := startBothEnds() // in this process, for the example
	defer ends.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	service, err := client.NewService(client.Config{URL: ends.ServiceURL, Token: ends.ServiceToken})
	if err != nil {
		log.Fatal(err)
	}
	accepted, err := service.AddDeposits(ctx, client.NewDeposit{
		Merchant: "shop", TrackingID: "17173049-0001", TenantUserID: "65515", TxID: "0xec7cc4df", TxIndex: 5,
		ChainName: "ETH", Symbol: "WETH", Amount: amount("7.4"), FromAddress: "0xef1c", ToAddress: "0x7054",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("accepted", accepted[0].TrackingID)

	gateway, err := client.NewGateway(client.Config{URL: ends.GatewayURL, Token: ends.GatewayToken})
	if err != nil {
		log.Fatal(err)
	}
	for deposit, err := range client.Follow(ctx, gateway.Deposits, 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("credit", deposit.Amount, deposit.Symbol, "to user", deposit.TenantUserID)
		break
	}

	// Output:
	// accepted 17173049-0001
	// credit 7.4 WETH to user 65515
}

// The wallet core asks for the merchant's confirmation, follows the decisions,
// takes the one permit and reports what became of the withdrawal.
func ExampleService_ReleaseWithdrawal() {
	ends := startBothEnds() // in this process, for the example
	defer ends.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	service, gateway := ends.Service, ends.Gateway

	// The merchant orders the withdrawal at its own end, before anybody asks.
	if _, err := gateway.AddOrder(ctx, client.NewOrder{
		CallBackID: "order-1", TenantUserID: "65515", Address: "TJRabPrw", ChainName: "TRON", Symbol: "USDT", Amount: amount("120.5"),
	}); err != nil {
		log.Fatal(err)
	}
	if _, err := service.CreateWithdrawal(ctx, client.NewWithdrawal{
		Merchant: "shop", CallBackID: "order-1", TenantUserID: "65515",
		Details: &client.Details{Address: "TJRabPrw", ChainName: "TRON", Symbol: "USDT", Amount: amount("120.50")},
	}); err != nil {
		log.Fatal(err)
	}

	for decision, err := range client.Follow(ctx, service.Decisions, 0) {
		if err != nil {
			log.Fatal(err)
		}
		w := decision.Withdrawal
		fmt.Println(w.CallBackID, "is", w.Decision)
		if w.State != client.WithdrawalConfirmed {
			continue
		}
		permit, err := service.ReleaseWithdrawal(ctx, w.ID, "wallet-1")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("send", permit.Details.Amount, permit.Details.Symbol, "to", permit.Details.Address)

		// Another wallet gets no permit, now or later.
		_, err = service.ReleaseWithdrawal(ctx, w.ID, "wallet-2")
		fmt.Println("wallet-2 is refused:", errors.Is(err, client.ErrConflict))

		ended, err := service.ReportOutcome(ctx, w.ID, client.Outcome{Permit: permit.Permit, Executed: &client.Executed{TxID: "0xdone"}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ended.CallBackID, "is", ended.State)
		break
	}

	// The merchant is told, too.
	for event, err := range client.Follow(ctx, gateway.Events, 0) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Kind == client.EventOrderExecuted {
			fmt.Println("the merchant knows of", event.TxID)
			break
		}
	}

	// Output:
	// order-1 is confirmed
	// send 120.5 USDT to TJRabPrw
	// wallet-2 is refused: true
	// order-1 is executed
	// the merchant knows of 0xdone
}

// A cursor keeps at the gateway how far a reader has come, so that the reader
// needs no memory of its own.
func ExampleGateway_MoveCursor() {
	ends := startBothEnds() // in this process, for the example
	defer ends.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	service, gateway := ends.Service, ends.Gateway
	for n := range 3 {
		if _, err := service.AddDeposits(ctx, client.NewDeposit{
			Merchant: "shop", TrackingID: fmt.Sprintf("deposit-%d", n), TenantUserID: "65515", TxID: fmt.Sprintf("0x%d", n), TxIndex: -1,
			ChainName: "ETH", Symbol: "ETH", Amount: amount("0.25"), FromAddress: "0xef1c", ToAddress: "0x7054",
		}); err != nil {
			log.Fatal(err)
		}
	}
	for read := 0; read < 3; {
		part, err := gateway.Deposits(ctx, client.FeedOptions{Reader: "ledger", Wait: 30 * time.Second})
		if err != nil {
			log.Fatal(err)
		}
		for _, d := range part.Items {
			if d.State != client.DepositHeld { // a held one awaits a person
				read++
			}
		}
		// Credited first, acknowledged then: what comes twice is known by its seq.
		if _, err := gateway.MoveCursor(ctx, "ledger", client.CursorMove{Deposits: part.Next}); err != nil {
			log.Fatal(err)
		}
	}
	cursor, err := gateway.Cursor(ctx, "ledger")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cursor.Name, "has read deposit", cursor.Deposits)

	// Output: ledger has read deposit 3
}

// Callers branch on what an error is; the Problem says what is wrong with
// which member.
func ExampleProblem() {
	ends := startBothEnds() // in this process, for the example
	defer ends.Close()
	ctx, service := context.Background(), ends.Service

	_, err := service.Merchant(ctx, "nobody")
	fmt.Println("not found:", errors.Is(err, client.ErrNotFound))

	_, err = service.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "shop", CallBackID: "order-1"})
	var problem *client.Problem
	if errors.As(err, &problem) && errors.Is(err, client.ErrInvalid) {
		fmt.Println(problem.Status, problem.Faults[0].Location, problem.Faults[0].Message)
	}

	// Output:
	// not found: true
	// 422 body[0].tenantUserId is empty
}

// A patch changes what it names and leaves everything else.
func ExampleService_UpdateMerchant() {
	ends := startBothEnds() // in this process, for the example
	defer ends.Close()
	m, err := ends.Service.UpdateMerchant(context.Background(), "shop", client.MerchantPatch{
		MerchantSettings: client.MerchantSettings{Concurrency: 8, ConfirmWithin: client.Duration(30 * time.Minute)},
		Clear:            []string{"ratePerSecond"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Name, m.Concurrency, m.ConfirmWithin, m.RatePerSecond)

	// Output: Shop 8 30m0s 0
}

// A token prints as what it is and not as what it says.
func ExampleSecret() {
	config := client.Config{URL: "http://127.0.0.1:8080", Token: "cst_6cxQ…"}
	fmt.Printf("%+v\n", config.Token)

	// Output: [secret]
}
