package proof

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"countersign/client"
	"countersign/merchant/sqlinbox"
)

// childVariable, in the environment, makes a test binary one of this package's
// processes: the core, a merchant, or the application behind a gateway.
const childVariable = "COUNTERSIGN_PROOF_CHILD"

// Store is a merchant's database. The test binary must import its driver.
type Store struct {
	Dialect     sqlinbox.Dialect
	Driver, DSN string
}

func (s Store) open() (*sql.DB, error) { return sql.Open(s.Driver, s.DSN) }

// text returns a statement with the parameters of the dialect, from one with ?.
func (s Store) text(sql string) string {
	if s.Dialect != sqlinbox.PostgreSQL {
		return sql
	}
	for n := 1; strings.Contains(sql, "?"); n++ {
		sql = strings.Replace(sql, "?", fmt.Sprint("$", n), 1)
	}
	return sql
}

// settings are those of a child.
type settings struct {
	Role    string
	Core    string // URL of its PostgreSQL
	Service string // its API
	Gateway string // its API
	Token   string // of the API
	Store   Store
	Listen  string
	Key     string // service.b64
	Pace    time.Duration
	Times   bool // print when each deposit was committed, at both ends
}

// Main runs a child where the environment asks for one, and says so. A test binary calls
// it before anything else.
func Main() (status int, is bool) {
	text := os.Getenv(childVariable)
	if text == "" {
		return 0, false
	}
	var s settings
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		roles := map[string]func(context.Context, settings, *steps) error{"core": runCore, "merchant": runMerchant, "app": runApp}
		err = roles[s.Role](context.Background(), s, newSteps())
	}
	fmt.Fprintln(os.Stderr, s.Role+":", err)
	return 1, true
}

// steps tells the parent of each step, and goes on when the parent says so: it may
// kill this process, or another, exactly there.
type steps struct {
	mu      sync.Mutex
	waiting map[string]chan string
	n       int
}

func newSteps() *steps {
	s := &steps{waiting: map[string]chan string{}}
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			id, word, _ := strings.Cut(in.Text(), " ")
			s.mu.Lock()
			c := s.waiting[id]
			delete(s.waiting, id)
			s.mu.Unlock()
			if c != nil {
				c <- word
			}
		}
		os.Exit(1) // the parent is gone
	}()
	return s
}

// at is a step. It gives the parent's word: go, or stop, which ends what makes new work.
func (s *steps) at(step string) string {
	c := make(chan string, 1)
	s.mu.Lock()
	s.n++
	id := fmt.Sprint(s.n)
	s.waiting[id] = c
	fmt.Println("step", id, step)
	s.mu.Unlock()
	return <-c
}

// say prints a line that the parent counts.
func (s *steps) say(words ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Println(words...)
}

const tenant = "65515" // of all deposits

// coreTables are the core's own, beside those of the relay.
const coreTables = `
CREATE SEQUENCE core_ids;
CREATE TABLE core_deposits (tracking_id text PRIMARY KEY, amount text NOT NULL);
CREATE TABLE core_withdrawals (call_back_id text PRIMARY KEY);
CREATE TABLE core_executions (call_back_id text NOT NULL, claim text NOT NULL, permit text NOT NULL, withdrawal text NOT NULL, reported boolean NOT NULL DEFAULT false)`

// runCore books deposits and withdrawals, each with its row for the relay in the same
// transaction, rolls some back, and executes what is confirmed. Two executors with claims
// of their own compete for each permit.
func runCore(ctx context.Context, s settings, at *steps) error {
	db, err := sql.Open("pgx", s.Core)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(4)
	api, err := client.NewService(client.Config{URL: s.Service, Token: client.Secret(s.Token)})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for _, executor := range []string{"a", "b"} {
		go func() {
			for {
				if err := execute(ctx, db, api, executor, at); err != nil {
					at.say("failed", executor, err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
	}
	for next := time.Now(); ; {
		next = next.Add(s.Pace)
		time.Sleep(time.Until(next))
		if stop, err := book(ctx, db, s.Times, at); err != nil {
			at.say("failed book", err)
		} else if stop {
			select {}
		}
	}
}

func book(ctx context.Context, db *sql.DB, times bool, at *steps) (stop bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT nextval('core_ids')`).Scan(&n); err != nil {
		return false, err
	}
	kind, id := "deposit", fmt.Sprint("D", n)
	if !times && n%4 == 0 {
		kind, id = "withdrawal", fmt.Sprint("W", n/4)
		_, err = tx.ExecContext(ctx, `INSERT INTO core_withdrawals (call_back_id) VALUES ($1)`, id)
	} else {
		_, err = tx.ExecContext(ctx, `INSERT INTO core_deposits (tracking_id, amount) VALUES ($1, $2)`, id, amountOf(n))
	}
	if err != nil {
		return false, err
	}
	text, err := json.Marshal(bodyOf(kind, id))
	if err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO countersign_outbox (kind, body) VALUES ($1, $2)`, kind, string(text)); err != nil {
		return false, err
	}
	if !times {
		at.at("core.written")
		if n%5 == 3 {
			at.say("rolled", id)
			return false, nil
		}
	}
	if err := tx.Commit(); err != nil {
		return false, err
	}
	if times {
		at.say("committed", id, time.Now().UnixNano())
		return false, nil
	}
	return at.at("core.committed") == "stop", nil
}

func amountOf(n int) string { return fmt.Sprintf("%d.%018d", n, n*7919+1) }

// bodyOf is what the core tells the service of a deposit or withdrawal, always the same.
func bodyOf(kind, id string) map[string]any {
	if kind == "withdrawal" {
		d := orderOf(id)
		return map[string]any{"merchant": "shop", "callBackId": id, "tenantUserId": tenantOf(id),
			"details": map[string]any{"address": d.Address, "chainName": d.ChainName, "symbol": d.Symbol, "amount": d.Amount.String()}}
	}
	var n int
	_, _ = fmt.Sscanf(id, "D%d", &n)
	return map[string]any{"merchant": "shop", "trackingId": id, "tenantUserId": tenant, "chainName": "TRON", "symbol": "USDT", "amount": amountOf(n),
		"txId": fmt.Sprintf("%064x", n), "txIndex": 0, "fromAddress": "TFrom", "toAddress": "TTo", "riskLevelFrom": 1, "riskLevelTo": 1}
}

// execute takes permits for what is confirmed, executes, and reports.
func execute(ctx context.Context, db *sql.DB, api *client.Service, executor string, at *steps) error {
	rows, err := db.QueryContext(ctx, `SELECT d.withdrawal, d.call_back_id FROM countersign_decisions d WHERE d.decision = 'confirmed'
		AND NOT EXISTS (SELECT 1 FROM core_executions e WHERE e.call_back_id = d.call_back_id AND e.reported) ORDER BY d.seq`)
	if err != nil {
		return err
	}
	var list [][2]string
	for rows.Next() {
		var v [2]string
		if err := rows.Scan(&v[0], &v[1]); err != nil {
			return err
		}
		list = append(list, v)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, w := range list {
		claim := executor + "-" + w[1]
		permit, err := api.ReleaseWithdrawal(ctx, w[0], claim)
		if errors.Is(err, client.ErrConflict) {
			continue // the other executor has it
		}
		if err != nil {
			return err
		}
		at.at("core.permitted")
		// Only this claim's own record says whether it has executed before it died.
		if _, err := db.ExecContext(ctx, `INSERT INTO core_executions (call_back_id, claim, permit, withdrawal)
			SELECT $1, $2, $3, $4 WHERE NOT EXISTS (SELECT 1 FROM core_executions WHERE claim = $2)`, w[1], claim, permit.Permit.Reveal(), w[0]); err != nil {
			return err
		}
		at.at("core.executed")
		o := client.Outcome{Permit: permit.Permit, Executed: &client.Executed{TxID: "tx-" + w[1]}}
		if _, err := api.ReportOutcome(ctx, w[0], o); err != nil {
			return err
		}
		if _, err := db.ExecContext(ctx, `UPDATE core_executions SET reported = true WHERE claim = $1`, claim); err != nil {
			return err
		}
	}
	return nil
}
