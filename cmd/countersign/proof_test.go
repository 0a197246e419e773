package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/proof"
	"countersign/internal/relay"
	"countersign/merchant/sqlinbox"
)

// proofStores are merchants' databases.
var proofStores = map[string]func(testing.TB) proof.Store{
	"sqlite": func(t testing.TB) proof.Store {
		return proof.Store{Dialect: sqlinbox.SQLite, Driver: "sqlite", DSN: "file:" + dbtest.SQLite(t) + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)"}
	},
	"postgres": func(t testing.TB) proof.Store {
		return proof.Store{Dialect: sqlinbox.PostgreSQL, Driver: "pgx", DSN: dbtest.Postgres(t)}
	},
	"mariadb": func(t testing.TB) proof.Store {
		return proof.Store{Dialect: sqlinbox.MySQL, Driver: "mysql", DSN: dbtest.MariaDB(t)}
	},
}

// chains are the kinds of chains: the database of the service, and of the merchant.
var chains = []struct{ service, merchant, store string }{
	{"sqlite", "sqlinbox", "sqlite"},
	{"postgres", "sqlinbox", "postgres"},
	{"sqlite", "sqlinbox", "mariadb"},
	{"postgres", "gateway", "postgres"},
	{"sqlite", "gateway", "sqlite"},
}

func startChain(t testing.TB, ctx context.Context, service, merchant, store string, change func(*proof.Config)) *proof.Chain {
	t.Helper()
	c := proof.Config{Dir: t.TempDir(), Core: dbtest.Postgres(t), DDL: relay.DDL(true), Store: proofStores[store](t), Gateway: merchant == "gateway", Addr: dbtest.FreePort,
		Program: func(args ...string) *exec.Cmd {
			cmd := exec.Command(os.Args[0], args...)
			cmd.Env = append(os.Environ(), runAsCountersign+"=1")
			return cmd
		},
		Child: func() *exec.Cmd { return exec.Command(os.Args[0]) }}
	if service == "postgres" {
		c.ServiceDB = dbtest.Postgres(t)
		if c.Gateway {
			c.GatewayDB = dbtest.Postgres(t)
		}
	}
	c.Forward = c.Gateway && service == "sqlite"
	if change != nil {
		change(&c)
	}
	ch, err := proof.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ch.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines of each process:\n%s", ch.Logs())
		}
	})
	return ch
}

// TestProof kills every process of the whole chain at each of its steps and at random,
// from the core's transaction to the merchant's.
// In the end every deposit that the core committed is credited once, none that it rolled
// back was told, and every withdrawal that was confirmed was executed once. COUNTERSIGN_PROOF says how many kills there are in all;
// without it there are five, ten with --soak, in the first kind of chain.
func TestProof(t *testing.T) {
	dbtest.Whole(t, "this test starts twenty processes")
	t.Parallel()
	kills, kinds := dbtest.Times(10, 5), chains[:1]
	if text := os.Getenv("COUNTERSIGN_PROOF"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("COUNTERSIGN_PROOF is %q, not a number of kills", text)
		}
		kills, kinds = (n+len(chains)-1)/len(chains), chains
	}
	for _, k := range kinds {
		t.Run(fmt.Sprintf("service on %s, %s on %s", k.service, k.merchant, k.store), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), wholeRun(t))
			defer cancel()
			testProof(t, ctx, startChain(t, ctx, k.service, k.merchant, k.store, nil), kills)
		})
	}
}

func testProof(t *testing.T, ctx context.Context, ch *proof.Chain, kills int) {
	var plan [][2]string // each step with each victim
	for _, step := range ch.StepNames() {
		for _, victim := range ch.Victims() {
			plan = append(plan, [2]string{step, victim})
		}
	}
	rand.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
	for i := range kills {
		var err error
		if i%4 == 3 {
			err = ch.Kill(ctx, ch.Victims()[rand.IntN(len(ch.Victims()))])
		} else {
			at := plan[i%len(plan)]
			err = ch.KillAt(ctx, at[0], at[1])
		}
		if err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
	}
	r, err := ch.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range r.Wrong {
		t.Error(wrong)
	}
	if r.Deposits == 0 || r.Executed == 0 || r.RolledBack == 0 {
		t.Errorf("too little happened: %+v", r)
	}
	// The comparison itself: it finds a credit that is there twice, and one that is lost.
	var first, last string
	if err := ch.Store().QueryRowContext(ctx, `SELECT MIN(tracking_id), MAX(tracking_id) FROM credits`).Scan(&first, &last); err != nil {
		t.Fatal(err)
	}
	for id, change := range map[string]string{first: `INSERT INTO credits SELECT * FROM credits WHERE tracking_id = '%s'`, last: `DELETE FROM credits WHERE tracking_id = '%s'`} {
		if _, err := ch.Store().ExecContext(ctx, fmt.Sprintf(change, id)); err != nil {
			t.Fatal(err)
		}
	}
	if changed, err := ch.Finish(ctx); err != nil || len(changed.Wrong) < len(r.Wrong)+2 {
		t.Errorf("a ledger that was changed: %v, %v", changed.Wrong, err)
	}
	t.Logf("%d kills %v at steps %v: %d deposits committed, %d credited, %s in both ledgers; %d rolled back; %d withdrawals, %d confirmed, %d executed; %d wrong",
		kills, ch.Kills, ch.Steps, r.Deposits, r.Credited, r.Sum, r.RolledBack, r.Withdrawals, r.Confirmed, r.Executed, len(r.Wrong))
}

// BenchmarkChain measures the way of a deposit from the core's commit to the merchant's,
// at 50/s with 2048 bit.
func BenchmarkChain(b *testing.B) {
	for _, k := range chains[:2] {
		b.Run(fmt.Sprintf("service on %s, %s on %s", k.service, k.merchant, k.store), func(b *testing.B) {
			ch := startChain(b, b.Context(), k.service, k.merchant, k.store, func(c *proof.Config) { c.Times, c.Bits, c.Pace = true, 2048, 20*time.Millisecond })
			before := len(ch.Times())
			for len(ch.Times()) < before+max(b.N, 100) {
				time.Sleep(50 * time.Millisecond)
			}
			list := ch.Times()
			for name, part := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99} {
				b.ReportMetric(float64(list[int(float64(len(list)-1)*part)].Microseconds())/1000, name)
			}
		})
	}
}
