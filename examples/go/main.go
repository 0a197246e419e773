// Command go is a merchant's end of the custody callbacks made with packages merchant
// and sqlinbox, with its balances in SQLite. A merchant writes only the tables and the
// functions credit, keep and confirm.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
	"countersign/merchant/sqlinbox"
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
	Cancelled    bool               `json:"cancelled"`
}

// tables are the merchant's own. Amounts are texts, because SQLite has no exact decimal
// type; in PostgreSQL take NUMERIC, in MySQL DECIMAL.
const tables = `
CREATE TABLE IF NOT EXISTS balances (user_id TEXT, symbol TEXT, amount TEXT NOT NULL, PRIMARY KEY (user_id, symbol));
CREATE TABLE IF NOT EXISTS credits (tracking_id TEXT PRIMARY KEY, user_id TEXT NOT NULL, symbol TEXT NOT NULL, amount TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS reviews (tracking_id TEXT PRIMARY KEY, user_id TEXT NOT NULL, symbol TEXT NOT NULL, amount TEXT NOT NULL);`

// open returns the database in file, with all tables. Without a file it is in memory, for a try.
func open(ctx context.Context, file string) (*sql.DB, error) {
	if file == "" {
		file = ":memory:"
	} else if f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600); err != nil { // nobody else reads it
		return nil, err
	} else if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	if err := sqlinbox.Create(ctx, db, sqlinbox.SQLite); err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, tables)
	return db, err
}

// credit runs in the transaction that records the deposit: both are committed, or
// neither is. It needs no check of its own against a second credit.
func credit(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
	balance := d.Amount.String()
	var before string
	err := tx.QueryRowContext(ctx, `SELECT amount FROM balances WHERE user_id = ? AND symbol = ?`, d.TenantUserID, d.Symbol).Scan(&before)
	switch {
	case err == nil:
		balance = sum(before, balance)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	// CREDIT: the deposit has its effect here.
	if _, err := tx.ExecContext(ctx, `INSERT INTO credits (tracking_id, user_id, symbol, amount) VALUES (?, ?, ?, ?)`,
		d.TrackingID, d.TenantUserID, d.Symbol, d.Amount.String()); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO balances (user_id, symbol, amount) VALUES (?, ?, ?)
		ON CONFLICT (user_id, symbol) DO UPDATE SET amount = excluded.amount`, d.TenantUserID, d.Symbol, balance)
	return err
}

// sum adds two decimal numbers exactly.
func sum(a, b string) string {
	x, _ := new(big.Rat).SetString(a)
	y, _ := new(big.Rat).SetString(b)
	_, fractionA, _ := strings.Cut(a, ".")
	_, fractionB, _ := strings.Cut(b, ".")
	return x.Add(x, y).FloatString(max(len(fractionA), len(fractionB)))
}

// keep lists a deposit that may have been credited under another trackingId. A person
// decides on it.
func keep(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO reviews (tracking_id, user_id, symbol, amount) VALUES (?, ?, ?, ?)`,
		d.TrackingID, d.TenantUserID, d.Symbol, d.Amount.String())
	return err
}

// confirm answers from the merchant's own order book. It uses only the two
// identifiers of the request; the library refuses another user's order, and one that a type 3
// or 5 has ended. It is asked again about what it confirmed, and refuses what was cancelled since.
func confirm(_ context.Context, _ *sql.Tx, w countersign.WithdrawalRequest) (merchant.Answer, error) {
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
			if o.Cancelled {
				return merchant.Refuse(countersign.CodeOrderCancelled, ""), nil
			}
			details := countersign.Details{Address: o.Address, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount}
			return merchant.Confirm(o.TenantUserID, details), nil
		}
	}
	return merchant.Refuse(countersign.CodeUnknownOrder, ""), nil
}

// signingKey reads a key of the signed link, nil if the setting is empty.
func signingKey(setting string) (*envelope.SigningKey, error) {
	file := os.Getenv(setting)
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	key, err := envelope.ParseSigningKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return key, nil
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
	sign, err := signingKey("SIGN_KEY_FILE")
	if err != nil {
		return err
	}
	serviceSigner, err := signingKey("SERVICE_SIGNING_KEY_FILE")
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
	db, err := open(context.Background(), os.Getenv("STATE_FILE"))
	if err != nil {
		return err
	}
	defer db.Close()
	inbox, err := sqlinbox.New(sqlinbox.Config{
		DB: db, Dialect: sqlinbox.SQLite,
		OnDeposit: credit, OnPossibleDuplicate: keep, OnWithdrawal: confirm,
	})
	if err != nil {
		return err
	}
	h, err := merchant.New(merchant.Config{
		Key:             key,
		APIKey:          countersign.APIKey(os.Getenv("API_KEY")),
		CallbackAPIKeys: []countersign.APIKey{callbackKey},
		Sign:            sign,          // answers to signed requests
		ServiceSigner:   serviceSigner, // nothing is taken that it did not sign
		PublicURL:       os.Getenv("PUBLIC_URL"),
		Profile:         provider,
		BodyTimeout:     bodyTimeout,
		Inbox:           inbox,
		Log:             slog.New(slog.NewTextHandler(os.Stderr, nil)),
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
