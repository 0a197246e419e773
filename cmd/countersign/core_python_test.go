package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
	"countersign/merchant"
)

// pythonChain is a core in Python, two relays, two nodes of the service and a gateway, each a
// process of its own that can be killed.
type pythonChain struct {
	t     *testing.T
	core  *pgx.Conn
	made  map[string]func() *exec.Cmd
	ready map[string]string // address whose /readyz says that it works
	runs  map[string]*exec.Cmd
	ends  map[string]chan error
	log   map[string]*bytes.Buffer
}

func (p *pythonChain) start(name string) {
	p.t.Helper()
	cmd := p.made[name]()
	if p.log[name] == nil {
		p.log[name] = &bytes.Buffer{}
	}
	cmd.Stderr = p.log[name]
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }()
	p.runs[name], p.ends[name] = cmd, end
	p.waits(name)
}

func (p *pythonChain) waits(name string) {
	for p.ready[name] != "" {
		if resp, err := http.Get("http://" + p.ready[name] + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case err := <-p.ends[name]:
			p.t.Fatalf("%s ended: %v\n%s", name, err, p.log[name])
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill ends a process at once. It reports false where it had ended by itself.
func (p *pythonChain) kill(name string) bool {
	_ = p.runs[name].Process.Kill()
	return <-p.ends[name] != nil
}

func (p *pythonChain) one(query string) string {
	p.t.Helper()
	var v any
	if err := p.core.QueryRow(context.Background(), query).Scan(&v); err != nil {
		p.t.Fatalf("%s: %v", query, err)
	}
	return fmt.Sprint(v)
}

// pairs returns the rows of a query of two texts, as one text each.
func (p *pythonChain) pairs(query string) map[string]string {
	p.t.Helper()
	rows, err := p.core.Query(context.Background(), query)
	if err != nil {
		p.t.Fatal(err)
	}
	all := map[string]string{}
	var key, value string
	if _, err := pgx.ForEachRow(rows, []any{&key, &value}, func() error { all[key] = value; return nil }); err != nil {
		p.t.Fatal(err)
	}
	return all
}

// A core in Python, with nothing but inserts and selects in its own PostgreSQL, has deposits,
// addresses, withdrawals, permits, waits and outcomes taken while every process is killed again
// and again. In the end the ledgers of core, service and merchant are equal.
// COUNTERSIGN_PYTHON_CORE says how many kills there are.
func TestCoreInPython(t *testing.T) {
	const python = "/usr/bin/python3"
	kills, rows := 12, 150
	if text := os.Getenv("COUNTERSIGN_PYTHON_CORE"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		kills, rows = n, 10*n
	} else if !dbtest.IsWhole() {
		t.Skip("kills processes: COUNTERSIGN_WHOLE=1 runs it")
	}
	dbtest.NotRaced(t, "what runs are processes of their own")
	until := func(t *testing.T, what string, is func() bool) {
		t.Helper()
		waitUntil(t, what, func() string { return "" }, is)
	}
	if exec.Command(python, "-c", "import psycopg2").Run() != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("not installed: psycopg2")
		}
		t.Skip("not installed: psycopg2")
	}
	ctx, dir, coreURL, serviceURL := t.Context(), t.TempDir(), dbtest.Postgres(t), dbtest.Postgres(t)
	core, err := pgx.Connect(ctx, coreURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { core.Close(context.Background()) })
	tables := relay.DDL(true) + `
CREATE TABLE booked (id text PRIMARY KEY, kind text NOT NULL, amount numeric NOT NULL);
CREATE TABLE claimed (id text PRIMARY KEY);
CREATE TABLE executed (id text PRIMARY KEY, amount text NOT NULL, tx_id text);`
	if _, err := core.PgConn().Exec(ctx, tables).ReadAll(); err != nil {
		t.Fatal(err)
	}
	p := &pythonChain{t: t, core: core, made: map[string]func() *exec.Cmd{}, ready: map[string]string{}, runs: map[string]*exec.Cmd{}, ends: map[string]chan error{}, log: map[string]*bytes.Buffer{}}
	addr := map[string]string{}
	for _, name := range []string{"node 1", "node 2", "callbacks", "gateway", "relay 1", "relay 2"} {
		if addr[name], err = dbtest.FreePort(); err != nil {
			t.Fatal(err)
		}
	}
	program := func(name string, args ...string) {
		p.made[name], p.ready[name] = func() *exec.Cmd {
			cmd := exec.Command(os.Args[0], args...)
			cmd.Env = append(os.Environ(), runAsCountersign+"=1")
			return cmd
		}, addr[name]
	}
	for _, node := range []string{"node 1", "node 2"} {
		program(node, "serve", "--data", dir+"/service", "--db", serviceURL, "--listen", addr[node], "--node", strings.ReplaceAll(node, " ", "-"), "--allow-private", "--allow-http",
			"--exchange-timeout", "3s")
	}
	program("gateway", "gateway", "--data", dir+"/gateway", "--listen", addr["callbacks"], "--api-listen", addr["gateway"], "--service-key", dir+"/service.b64", "--api-key", "@"+dir+"/api.key", "--grace", "1s")
	for _, r := range []string{"relay 1", "relay 2"} {
		program(r, "relay", "--from", coreURL, "--to", "http://"+addr["node 1"], "--to", "http://"+addr["node 2"], "--token", "@"+dir+"/service/admin.token", "--decisions",
			"--metrics-listen", addr[r])
	}
	p.made["core"] = func() *exec.Cmd { return exec.Command(python, "testdata/core.py", coreURL, strconv.Itoa(rows)) }
	t.Cleanup(func() {
		for name, cmd := range p.runs {
			_ = cmd.Process.Kill()
			if t.Failed() {
				text := p.log[name].String()
				t.Logf("%s: %s", name, text[max(len(text)-2000, 0):])
			}
		}
	})

	p.start("node 1")
	p.start("node 2")
	token := func(end string) client.Secret {
		text, err := os.ReadFile(filepath.Join(dir, end, "admin.token"))
		if err != nil {
			t.Fatal(err)
		}
		return client.Secret(strings.TrimSpace(string(text)))
	}
	service, err := client.NewService(client.Config{URL: "http://" + addr["node 1"], Token: token("service")})
	if err != nil {
		t.Fatal(err)
	}
	often := &client.Schedule{Delays: []client.Duration{0}, Every: client.Duration(time.Second)}
	for id, at := range map[string]string{"shop": addr["callbacks"], "far": "127.0.0.1:1"} {
		made, err := service.CreateMerchant(ctx, client.NewMerchant{ID: id, Key: &client.KeySpec{Bits: 1024}, MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret(testAPIKey.Reveal())},
			MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), NotifyURL: "http://" + at + merchant.DefaultNotifyPath, WithdrawURL: "http://" + at + merchant.DefaultWithdrawPath, Retry: &client.Retry{Notify: often, Withdraw: often}}})
		if err != nil {
			t.Fatal(err)
		}
		if id == "shop" {
			if err := os.WriteFile(dir+"/service.b64", []byte(made.PublicKey), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(dir+"/api.key", []byte(testAPIKey.Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start("gateway")
	gateway, err := client.NewGateway(client.Config{URL: "http://" + addr["gateway"], Token: token("gateway")})
	if err != nil {
		t.Fatal(err)
	}
	for n := 5; n <= rows; n += 5 {
		if n%20 == 0 {
			continue
		}
		amount, err := countersign.ParseAmount(fmt.Sprintf("%d.50", n))
		if err == nil {
			_, err = gateway.AddOrder(ctx, client.NewOrder{CallBackID: strconv.Itoa(n), TenantUserID: "u", Address: "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", ChainName: "TRON", Symbol: "USDT", Amount: amount})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"relay 1", "relay 2", "core"} {
		p.start(name)
	}

	victims := []string{"core", "relay 1", "relay 2", "node 1", "node 2", "gateway"}
	for n := range kills {
		victim := victims[n%len(victims)]
		// Spread over the work, by what is booked and not by time.
		until(t, "the core books", func() bool {
			select {
			case err := <-p.ends["core"]:
				if p.ends["core"] <- err; err != nil {
					t.Fatalf("the core: %v\n%s", err, p.log["core"])
				}
			default:
			}
			return p.one(`SELECT count(*) >= `+strconv.Itoa(n*rows/kills)+` FROM booked`) == "true"
		})
		time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
		if p.kill(victim) || victim != "core" {
			p.start(victim)
		} else {
			p.ends["core"] <- nil // it had ended its work
		}
	}
	if err := <-p.ends["core"]; err != nil {
		t.Fatalf("the core: %v\n%s", err, p.log["core"])
	}
	until(t, "everything is carried", func() bool { return p.one(`SELECT count(*) FROM countersign_outbox WHERE refused IS NULL`) == "0" })
	if got := p.one(`SELECT COALESCE(string_agg(kind || ' ' || problem::text, '; '), '') FROM countersign_outbox`); got != "" {
		t.Errorf("refused: %s", got)
	}

	deposits, executed := p.pairs(`SELECT id, trim_scale(amount)::text FROM booked WHERE kind = 'deposit'`), p.pairs(`SELECT id, amount || ' ' || COALESCE(tx_id, 'failed') FROM executed`)
	addresses, taken := p.pairs(`SELECT 'TNew' || id, 'user-' || id FROM booked WHERE kind = 'address'`), p.pairs(`SELECT id, 'cancelled' FROM booked WHERE kind = 'taken back'`)
	var credited map[string]string
	double := 0
	until(t, "the merchant has every deposit", func() bool {
		credited, double = map[string]string{}, 0
		for after := int64(0); ; {
			part, err := gateway.Deposits(ctx, client.FeedOptions{After: after})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range part.Items {
				if _, again := credited[d.TrackingID]; again {
					double++
				}
				credited[d.TrackingID] = strings.TrimRight(strings.TrimRight(d.Amount.String(), "0"), ".")
			}
			if len(part.Items) == 0 {
				return len(credited) == len(deposits)
			}
			after = part.Next
		}
	})
	if diff := cmp.Diff(deposits, credited); diff != "" || double > 0 {
		t.Errorf("%d deposits are there twice; the core's and the merchant's: %s", double, diff)
	}
	var orders map[string]string
	until(t, "the merchant knows every end", func() bool {
		orders = map[string]string{}
		for o, err := range client.All(ctx, gateway.Orders, client.OrderFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			switch o.State {
			case client.OrderExecuted:
				orders[o.CallBackID] = o.Amount.String() + " " + o.TxID
			case client.OrderEnded:
				orders[o.CallBackID] = o.Amount.String() + " failed"
			}
		}
		return len(orders) == len(executed)
	})
	if diff := cmp.Diff(executed, orders); diff != "" {
		t.Errorf("withdrawals of the core and of the merchant: %s", diff)
	}
	told, cancelled := map[string]string{}, map[string]string{}
	for w, err := range client.All(ctx, service.Withdrawals, client.WithdrawalFilter{}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case w.Merchant == "far":
			cancelled[w.CallBackID] = string(w.State)
		case w.State == client.WithdrawalFailed:
			told[w.CallBackID] = w.Details.Amount.String() + " failed"
		default:
			told[w.CallBackID] = w.Details.Amount.String() + " " + w.TxID
		}
	}
	if diff := cmp.Diff(executed, told); diff != "" {
		t.Errorf("withdrawals of the core and of the service: %s", diff)
	}
	if diff := cmp.Diff(taken, cancelled); diff != "" {
		t.Errorf("what the core took back: %s", diff)
	}
	var known map[string]string
	until(t, "the merchant knows every address", func() bool {
		known = map[string]string{}
		for a, err := range client.All(ctx, gateway.Addresses, client.AddressFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			known[a.Address] = a.TenantUserID
		}
		return len(known) == len(addresses)
	})
	if diff := cmp.Diff(addresses, known); diff != "" {
		t.Errorf("addresses: %s", diff)
	}
	t.Logf("%d kills: %d deposits, %d addresses, %d withdrawals (each a permit, a wait and an outcome), %d taken back; losses 0, doubles 0", kills, len(deposits), len(addresses), len(executed), len(taken))
}
