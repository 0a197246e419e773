package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"countersign"
	"countersign/client"
	"countersign/internal/lab/dbtest"
	"countersign/internal/relay"
)

// pythonChain is a chain with a core in Python and two relays, each a process of its own that can be killed.
type pythonChain struct {
	*chain
	core *pgx.Conn
	// program is the core, or restarted when it was killed; ended gets its end.
	program *exec.Cmd
	ended   chan error
	log     bytes.Buffer
}

func (p *pythonChain) startCore(url string, rows int) {
	p.t.Helper()
	p.program = exec.Command("/usr/bin/python3", "testdata/core.py", url, strconv.Itoa(rows))
	p.program.Stderr = &p.log
	ok(p.t, p.program.Start())
	go func(cmd *exec.Cmd) { p.ended <- cmd.Wait() }(p.program)
}

func (p *pythonChain) one(query string) string {
	p.t.Helper()
	var v any
	if err := p.core.QueryRow(context.Background(), query).Scan(&v); err != nil {
		p.t.Fatalf("%s: %v", query, err)
	}
	return fmt.Sprint(v)
}

// A core in Python, with nothing but inserts and selects in its own PostgreSQL, has deposits,
// addresses, withdrawals, permits, waits and outcomes taken while every process is killed again
// and again. In the end the ledgers of core, service and merchant are equal.
// COUNTERSIGN_PYTHON_CORE says how many kills there are.
func TestCoreInPython(t *testing.T) {
	kills, rows := 12, 150
	if text := os.Getenv("COUNTERSIGN_PYTHON_CORE"); text != "" {
		n := must(strconv.Atoi(text))
		kills, rows = n, 10*n
	} else if !dbtest.IsWhole() {
		t.Skip("kills processes: COUNTERSIGN_WHOLE=1 runs it")
	}
	dbtest.NotRaced(t, "what runs are processes of their own")
	if exec.Command("/usr/bin/python3", "-c", "import psycopg2").Run() != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("not installed: psycopg2")
		}
		t.Skip("not installed: psycopg2")
	}
	ctx, dir, coreURL, serviceURL := t.Context(), t.TempDir(), dbtest.Postgres(t), dbtest.Postgres(t)
	core := must(pgx.Connect(ctx, coreURL))
	t.Cleanup(func() { core.Close(context.Background()) })
	dbtest.Exec(t, coreURL, relay.DDL(true)+`
CREATE TABLE booked (id text PRIMARY KEY, kind text NOT NULL, amount numeric NOT NULL);
CREATE TABLE claimed (id text PRIMARY KEY);
CREATE TABLE executed (id text PRIMARY KEY, amount text NOT NULL, tx_id text);`)
	p := &pythonChain{chain: newChain(t, dir, []string{serviceURL, serviceURL}, []string{""}), core: core,
		ended: make(chan error, 1)}
	service, gateway := p.services[0].service, p.gateways[0].gateway
	must(service.CreateMerchant(ctx, client.NewMerchant{ID: "far", Key: &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"}}))
	victims := slices.Concat(p.services, p.gateways)
	for i := range 2 {
		relay := &node{name: fmt.Sprint("relay ", i), args: []string{"relay", "--from", coreURL, "--decisions",
			"--to", p.client(p.services[0]).URL, "--to", p.client(p.services[1]).URL, "--token", "@" + filepath.Join(p.data("serve"), tokenFile)}}
		relay.start(t)
		victims = append(victims, relay)
	}
	for n := 5; n <= rows; n += 5 {
		if n%20 == 0 {
			continue
		}
		must(gateway.AddOrder(ctx, client.NewOrder{CallBackID: strconv.Itoa(n), TenantUserID: "u", Address: "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", ChainName: "TRON", Symbol: "USDT",
			Amount: must(countersign.ParseAmount(fmt.Sprintf("%d.50", n)))}))
	}
	p.startCore(coreURL, rows)
	for n := range kills {
		// Spread over the work, by what is booked and not by time.
		p.until("the core books", func() bool {
			select {
			case err := <-p.ended:
				if p.ended <- err; err != nil {
					t.Fatalf("the core: %v\n%s", err, &p.log)
				}
			default:
			}
			return p.one(`SELECT count(*) >= `+strconv.Itoa(n*rows/kills)+` FROM booked`) == "true"
		})
		time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
		if i := n % (len(victims) + 1); i < len(victims) {
			victims[i].process().kill()
			victims[i].start(t)
			continue
		}
		_ = p.program.Process.Kill()
		if err := <-p.ended; err != nil {
			p.startCore(coreURL, rows)
		} else {
			p.ended <- nil // it had ended its work
		}
	}
	if err := <-p.ended; err != nil {
		t.Fatalf("the core: %v\n%s", err, &p.log)
	}
	p.until("everything is carried", func() bool { return p.one(`SELECT count(*) FROM countersign_outbox WHERE refused IS NULL`) == "0" })
	if got := p.one(`SELECT COALESCE(string_agg(kind || ' ' || problem::text, '; '), '') FROM countersign_outbox`); got != "" {
		t.Errorf("refused: %s", got)
	}

	// same waits until another ledger has as many entries as the core's, and compares them.
	same := func(what, query string, theirs func() map[string]string) (n int) {
		t.Helper()
		ours, got := map[string]string{}, map[string]string{}
		for _, row := range dbtest.Query(t, coreURL, query) {
			key, value, _ := strings.Cut(row, "|")
			ours[key] = value
		}
		p.until(what, func() bool {
			got = theirs()
			return len(got) >= len(ours)
		})
		if diff := cmp.Diff(ours, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		return len(ours)
	}
	const ends = `SELECT id, amount || ' ' || COALESCE(tx_id, 'failed') FROM executed`
	deposits := same("deposits at the merchant", `SELECT id, trim_scale(amount)::text FROM booked WHERE kind = 'deposit'`, func() map[string]string {
		credited := map[string]string{}
		for _, d := range readFeed(p.chain, gateway.Deposits, func(d client.DepositEntry) int64 { return d.Seq }) {
			if _, again := credited[d.TrackingID]; again {
				t.Errorf("deposit %s is there twice", d.TrackingID)
			}
			credited[d.TrackingID] = strings.TrimRight(strings.TrimRight(d.Amount.String(), "0"), ".")
		}
		return credited
	})
	executed := same("withdrawals at the merchant", ends, func() map[string]string {
		return ledger(t, client.All(ctx, gateway.Orders, client.OrderFilter{}), func(o client.Order) (string, string) {
			switch o.State {
			case client.OrderExecuted:
				return o.CallBackID, o.Amount.String() + " " + o.TxID
			case client.OrderEnded:
				return o.CallBackID, o.Amount.String() + " failed"
			}
			return "", ""
		})
	})
	of := func(merchant string, is func(client.Withdrawal) string) func() map[string]string {
		return func() map[string]string {
			return ledger(t, client.All(ctx, service.Withdrawals, client.WithdrawalFilter{Merchant: merchant}), func(w client.Withdrawal) (string, string) {
				return w.CallBackID, is(w)
			})
		}
	}
	same("withdrawals at the service", ends, of("shop", func(w client.Withdrawal) string {
		if w.State == client.WithdrawalFailed {
			return w.Details.Amount.String() + " failed"
		}
		return w.Details.Amount.String() + " " + w.TxID
	}))
	taken := same("what the core took back", `SELECT id, 'cancelled' FROM booked WHERE kind = 'taken back'`,
		of("far", func(w client.Withdrawal) string { return string(w.State) }))
	addresses := same("addresses at the merchant", `SELECT 'TNew' || id, 'user-' || id FROM booked WHERE kind = 'address'`, func() map[string]string {
		return ledger(t, client.All(ctx, gateway.Addresses, client.AddressFilter{}), func(a client.AddressEntry) (string, string) {
			return a.Address, a.TenantUserID
		})
	})
	t.Logf("%d kills: %d deposits, %d addresses, %d withdrawals (each a permit, a wait and an outcome), %d taken back; losses 0, doubles 0", kills, deposits, addresses, executed, taken)
}

// ledger returns what of makes of each entry of a list. An empty key leaves the entry out.
func ledger[T any](t *testing.T, list iter.Seq2[T, error], of func(T) (key, value string)) map[string]string {
	t.Helper()
	all := map[string]string{}
	for e, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		if key, value := of(e); key != "" {
			all[key] = value
		}
	}
	return all
}
