// Command go is a merchant's end of the custody callbacks made with package
// merchant. A merchant writes only the two functions credit and confirm.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// order is one entry of ORDERS_FILE.
type order struct {
	CallBackID   string             `json:"callBackId"`
	TenantUserID string             `json:"tenantUserId"`
	Address      string             `json:"address"`
	ChainName    string             `json:"chainName"`
	Symbol       string             `json:"symbol"`
	Amount       countersign.Amount `json:"amount"`
}

// ledger stands for the merchant's database.
type ledger struct {
	mu       sync.Mutex
	credited map[string]bool // by trackingId
}

// credit is called for a trackingId until it has returned nil, and once more if the
// process died at that moment. So it must credit a trackingId only once: in a
// database, write the trackingId into a unique column in the crediting transaction.
func (l *ledger) credit(_ context.Context, d merchant.Deposit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.credited[d.TrackingID] {
		return nil
	}
	l.credited[d.TrackingID] = true // CREDIT d.Amount of d.Symbol to d.TenantUserID here
	return nil
}

// confirm answers from the merchant's own order book. It uses only the two
// identifiers of the request; the library refuses another user's order.
func confirm(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
	b, err := os.ReadFile(os.Getenv("ORDERS_FILE"))
	if err != nil {
		return merchant.Answer{}, err
	}
	var orders []order
	if err := json.Unmarshal(b, &orders); err != nil {
		return merchant.Answer{}, fmt.Errorf("orders: %w", err)
	}
	for _, o := range orders {
		if o.CallBackID == w.CallBackID {
			details := countersign.Details{Address: o.Address, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount}
			return merchant.Confirm(o.TenantUserID, details), nil
		}
	}
	return merchant.Refuse(countersign.CodeUnknownOrder, ""), nil
}

func run() error {
	text, err := os.ReadFile(os.Getenv("KEY_FILE"))
	if err != nil {
		return err
	}
	key, err := envelope.ParseKey(text)
	if err != nil {
		return err
	}
	bodyTimeout := 10 * time.Second
	if ms := os.Getenv("BODY_TIMEOUT_MS"); ms != "" {
		n, err := strconv.Atoi(ms)
		if err != nil {
			return fmt.Errorf("BODY_TIMEOUT_MS: %w", err)
		}
		bodyTimeout = time.Duration(n) * time.Millisecond
	}
	callbackKey := countersign.APIKey(os.Getenv("CALLBACK_API_KEY"))
	if callbackKey == "" {
		return errors.New("CALLBACK_API_KEY is not set")
	}
	var provider merchant.Profile // of a service of this project
	if os.Getenv("PROVIDER") == "other" {
		provider = merchant.OtherProvider()
	}
	book := ledger{credited: map[string]bool{}}
	h, err := merchant.New(merchant.Config{
		Key:             key,
		APIKey:          countersign.APIKey(os.Getenv("API_KEY")),
		CallbackAPIKeys: []countersign.APIKey{callbackKey},
		Profile:         provider,
		BodyTimeout:     bodyTimeout,
		// In memory, only for trying out: after a restart it credits again what is
		// told again. In production use an Inbox on your database, or run the
		// gateway, which has one.
		Inbox:     merchant.NewMemoryInbox(),
		OnDeposit: book.credit,
		// A deposit that may have been credited under another trackingId waits
		// for a person, who finds it in the log.
		OnPossibleDuplicate: merchant.KeepForReview,
		OnWithdrawal:        confirm,
		Log:                 slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	address := os.Getenv("LISTEN")
	if address == "" {
		address = "127.0.0.1:8090"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	return (&http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}
