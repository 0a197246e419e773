//go:build unix

package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// The core's database fails over to its synchronous standby under two relays. What the
// core committed is told, in order and never with other content, and each decision is
// written once.
func TestCoreFailsOver(t *testing.T) {
	for name, fail := range map[string]func(*dbtest.Pair){
		"killed": func(p *dbtest.Pair) { p.Primary.Kill() },
		"parted": (*dbtest.Pair).Part, // it still answers
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := dbtest.NewPair(t)
			testCoreFailsOver(t, pair, func() {
				fail(pair)
				time.Sleep(500 * time.Millisecond)
				pair.Promote()
				time.Sleep(500 * time.Millisecond)
				pair.Primary.Kill() // fenced
			})
		})
	}
}

// bookingCore books and inserts in one transaction, one after the other. It never uses an
// identifier again.
type bookingCore struct {
	url   string
	acked []string
}

func (b *bookingCore) run(ctx context.Context) {
	var conn *pgx.Conn
	for n := 0; ctx.Err() == nil; n++ {
		var err error
		if conn == nil {
			bounded, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			conn, err = pgx.Connect(bounded, b.url)
			cancel()
		}
		if err == nil { // without a bound: breaking off shows a commit that the standby does not have
			err = b.book(context.Background(), conn, fmt.Sprintf("f-%06d", n), n)
		}
		if err != nil && conn != nil {
			_ = conn.Close(context.Background())
		}
		if err != nil {
			conn = nil
		}
		time.Sleep(4 * time.Millisecond)
	}
}

func (b *bookingCore) book(ctx context.Context, conn *pgx.Conn, id string, n int) error {
	kind, body := kindDeposit, deposit("shop", id)
	if n%5 == 0 {
		kind, body = kindWithdrawal, withdrawal("shop", id)
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO booked (n, id) VALUES ($1, $2)`, n, id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO countersign_outbox (kind, body) VALUES ($1, $2)`, kind, body)
		return err
	})
	if err == nil {
		b.acked = append(b.acked, id)
	}
	return err
}

func testCoreFailsOver(t *testing.T, pair *dbtest.Pair, failOver func()) {
	c := newCoreAt(t, pair.URL())
	c.exec(`CREATE TABLE booked (n bigint PRIMARY KEY, id text NOT NULL)`)
	s := newService(t, "", "shop")
	var mu sync.Mutex
	bodies := map[string][]byte{} // by identifier
	s.set(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.Method != http.MethodPost {
			return false
		}
		if !bytes.HasPrefix(body, []byte("[")) {
			body = slices.Concat([]byte("["), body, []byte("]"))
		}
		var list []json.RawMessage
		if err := json.Unmarshal(body, &list); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, one := range list {
			var id struct{ TrackingID, CallBackID string }
			_ = json.Unmarshal(one, &id)
			if before, told := bodies[id.TrackingID+id.CallBackID]; told && !bytes.Equal(before, one) {
				t.Errorf("told %s, and before %s", one, before)
			}
			bodies[id.TrackingID+id.CallBackID] = one
		}
		return false
	}, nil)
	// Cancelling decides.
	cancelled := 0
	cancelAll := func() {
		for w, err := range client.All(t.Context(), s.admin.Withdrawals, client.WithdrawalFilter{State: client.WithdrawalAwaiting}) {
			if err == nil {
				_, err = s.admin.CancelWithdrawal(t.Context(), w.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
			cancelled++
		}
	}
	for range 2 {
		s.spawn(c)
	}
	b := &bookingCore{url: pair.URL()}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() { b.run(ctx); close(ended) }()
	until(t, "rows are told", func() bool { cancelAll(); return cancelled >= 20 })
	failOver()
	c = &core{t: t, url: pair.URL(pair.Standby.Addr)}
	c.conn = c.connect()
	before := cancelled
	until(t, "rows are told after the promotion", func() bool { cancelAll(); return cancelled >= before+20 })
	stop()
	<-ended
	until(t, "everything is carried", func() bool { return c.waiting() == "0" })
	cancelAll()
	until(t, "every decision is written", func() bool {
		return c.one(`SELECT COUNT(*) FROM countersign_decisions WHERE decision = 'cancelled'`) == fmt.Sprint(cancelled)
	})
	rows, err := c.conn.Query(t.Context(), `SELECT id FROM booked ORDER BY n`)
	if err != nil {
		t.Fatal(err)
	}
	booked, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(booked, s.told("shop")); diff != "" {
		t.Error(diff)
	}
	for _, id := range b.acked {
		if !slices.Contains(booked, id) {
			t.Errorf("%s was committed and is lost", id)
		}
	}
	if n := c.refused(); n != "0" {
		t.Errorf("%s rows are refused", n)
	}
	t.Logf("%d transactions, %d acknowledged; %d withdrawals decided", len(booked), len(b.acked), cancelled)
}
