package proof

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/merchant"
	"countersign/merchant/sqlinbox"
)

// ledgerTables are the merchant's own. None has a key that would hide a second credit.
var ledgerTables = []string{
	`CREATE TABLE credits (tracking_id VARCHAR(100), user_id VARCHAR(100), amount VARCHAR(100))`,
	`CREATE TABLE confirmed (call_back_id VARCHAR(100))`,
	`CREATE TABLE refused (call_back_id VARCHAR(100))`,
	`CREATE TABLE executed (call_back_id VARCHAR(100))`,
	`CREATE TABLE feed (after_seq BIGINT)`,
	`INSERT INTO feed (after_seq) VALUES (0)`,
	`CREATE TABLE messages (webhook_id VARCHAR(100) PRIMARY KEY)`,
}

const apiKey countersign.APIKey = "proof-merchant"

func (s Store) credit(ctx context.Context, tx *sql.Tx, id, user, amount string) error {
	_, err := tx.ExecContext(ctx, s.text(`INSERT INTO credits (tracking_id, user_id, amount) VALUES (?, ?, ?)`), id, user, amount)
	return err
}

// runMerchant is a merchant over sqlinbox, whose ledger is in the transaction of the
// inbox.
func runMerchant(_ context.Context, s settings, at *steps) error {
	db, err := s.Store.open()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(s.Key)
	if err != nil {
		return err
	}
	key, err := envelope.ParseKey(text)
	if err != nil {
		return err
	}
	in, err := sqlinbox.New(sqlinbox.Config{DB: db, Dialect: s.Store.Dialect, OnPossibleDuplicate: sqlinbox.KeepForReview,
		OnDeposit: func(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
			if err := s.Store.credit(ctx, tx, d.TrackingID, d.TenantUserID, d.Amount.String()); err != nil {
				return err
			}
			if a, ok := ctx.Value(answering{}).(*answering); ok && s.Times {
				a.id = d.TrackingID
			} else {
				at.at("merchant.written")
			}
			return nil
		},
		OnWithdrawal: func(ctx context.Context, tx *sql.Tx, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			if !ordered(w.CallBackID) {
				return merchant.Refuse(countersign.CodeUnknownOrder, ""), nil
			}
			var executed, confirmed int
			if err := tx.QueryRowContext(ctx, s.Store.text(`SELECT (SELECT COUNT(*) FROM executed WHERE call_back_id = ?), (SELECT COUNT(*) FROM confirmed WHERE call_back_id = ?)`),
				w.CallBackID, w.CallBackID).Scan(&executed, &confirmed); err != nil {
				return merchant.Answer{}, err
			}
			switch {
			case executed > 0:
				return merchant.Refuse(countersign.CodeOrderCancelled, "executed"), nil
			case confirmed > 0: // what was confirmed stands until it ends
				return merchant.Confirm(w.TenantUserID, orderOf(w.CallBackID)), nil
			}
			if rand.IntN(6) == 0 { // asked anew, it might be confirmed
				_, err := tx.ExecContext(ctx, s.Store.text(`INSERT INTO refused (call_back_id) VALUES (?)`), w.CallBackID)
				return merchant.Refuse(countersign.CodeRefusedPerson, ""), err
			}
			if _, err := tx.ExecContext(ctx, s.Store.text(`INSERT INTO confirmed (call_back_id) VALUES (?)`), w.CallBackID); err != nil {
				return merchant.Answer{}, err
			}
			at.at("merchant.confirms")
			return merchant.Confirm(w.TenantUserID, orderOf(w.CallBackID)), nil
		},
		OnNotice: func(ctx context.Context, tx *sql.Tx, cb countersign.Callback) error {
			_, err := tx.ExecContext(ctx, s.Store.text(`INSERT INTO executed (call_back_id) VALUES (?)`), cb.OrderID())
			return err
		},
	})
	if err != nil {
		return err
	}
	h, err := merchant.New(merchant.Config{Key: key, APIKey: apiKey, Inbox: in})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.Times {
			at.at("merchant.arrived")
		}
		a := &answering{ResponseWriter: w, at: at, times: s.Times}
		h.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), answering{}, a)))
	}))
}

// answering is a response before whose first byte there is a step: all is committed.
type answering struct {
	http.ResponseWriter
	at    *steps
	times bool
	begun bool
	id    string // of the deposit that was credited
}

func (a *answering) begin() {
	switch {
	case a.begun:
	case !a.times:
		a.at.at("merchant.answers")
	case a.id != "":
		a.at.say("credited", a.id, time.Now().UnixNano())
	}
	a.begun = true
}

func (a *answering) WriteHeader(status int) {
	a.begin()
	a.ResponseWriter.WriteHeader(status)
}

func (a *answering) Write(b []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(b)
}

// runApp is the application behind a gateway. It reads the feed of deposits, and books in one transaction what it credits and how far it has read; or it is told, and
// books with what it credits the webhook-id, by which alone it knows a message again.
func runApp(ctx context.Context, s settings, at *steps) error {
	db, err := s.Store.open()
	if err != nil {
		return err
	}
	api, err := client.NewGateway(client.Config{URL: s.Gateway, Token: client.Secret(s.Token)})
	if err != nil {
		return err
	}
	if s.Listen != "" {
		return takeMessages(s, db, at)
	}
	fmt.Println("ready")
	for {
		if err := readFeed(ctx, s.Store, db, api, at); err != nil {
			at.say("failed", err)
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// takeMessages books what a gateway forwards.
func takeMessages(s settings, db *sql.DB, at *steps) error {
	l, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Type string
			Data client.DepositEntry
		}
		id := r.Header.Get("webhook-id")
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || id == "" {
			http.Error(w, "no message", http.StatusBadRequest)
			return
		}
		if err := s.Store.bookMessage(r.Context(), db, id, m.Data, m.Type == string(client.MessageDepositTaken), at); err != nil {
			at.say("failed", err)
			http.Error(w, "not booked", http.StatusInternalServerError)
		}
	}))
}

// bookMessage books a message once, with the credit of a deposit that counts by it.
func (s Store) bookMessage(ctx context.Context, db *sql.DB, id string, d client.DepositEntry, counts bool, at *steps) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	done, err := tx.ExecContext(ctx, s.text(`INSERT INTO messages (webhook_id) VALUES (?) ON CONFLICT DO NOTHING`), id)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return err
	}
	if counts {
		if err := s.credit(ctx, tx, d.TrackingID, d.TenantUserID, d.Amount.String()); err != nil {
			return err
		}
		at.at("app.written")
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if counts {
		at.at("app.committed")
	}
	return nil
}

// deposits returns the next deposits.
func deposits(ctx context.Context, api *client.Gateway, o client.FeedOptions) (list []client.DepositEntry, next int64, err error) {
	o.Wait = 300 * time.Millisecond
	page, err := api.Deposits(ctx, o)
	for _, d := range page.Deposits {
		if d.State != client.DepositTaken {
			return nil, 0, fmt.Errorf("deposit %s is %s", d.TrackingID, d.State)
		}
	}
	return page.Deposits, page.Next, err
}

// readFeed credits what the next page of a feed makes count.
func readFeed(ctx context.Context, s Store, db *sql.DB, api *client.Gateway, at *steps) error {
	var after int64
	if err := db.QueryRowContext(ctx, `SELECT after_seq FROM feed`).Scan(&after); err != nil {
		return err
	}
	list, next, err := deposits(ctx, api, client.FeedOptions{After: after, Limit: 5})
	if err != nil || next == after {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, d := range list {
		if err := s.credit(ctx, tx, d.TrackingID, d.TenantUserID, d.Amount.String()); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, s.text(`UPDATE feed SET after_seq = ?`), next); err != nil {
		return err
	}
	if len(list) > 0 {
		at.at("app.written")
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if len(list) > 0 {
		at.at("app.committed")
	}
	return nil
}
