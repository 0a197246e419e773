package dispatch

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
)

// Two dispatchers share a database, one is stopped in the middle and another
// takes its place. Every callback is settled, none is ever in two attempts.
func TestTwoDispatchers(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		s := openStore(t, ready.SQLite(outbox.End())(t))
		testTwoDispatchers(t, [3]*outbox.Outbox{s, s, s})
	})
	t.Run("postgres", func(t *testing.T) {
		url := ready.Postgres(outbox.End())(t)
		testTwoDispatchers(t, [3]*outbox.Outbox{openStore(t, url), openStore(t, url), openStore(t, url)})
	})
}

func openStore(t testing.TB, url string) *outbox.Outbox {
	t.Helper()
	d, err := db.Open(context.Background(), db.Config{URL: url, Keys: db.NewMasterKey([32]byte{1})}, outbox.End())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return outbox.New(d)
}

func testTwoDispatchers(t *testing.T, stores [3]*outbox.Outbox) {
	s := stores[0]
	row := testStoreMerchant("m1", testPair(), "https://m1.example")
	row.Concurrency = 7
	retry := ownSchedule(20, 0, 5)
	row.Retry = &client.Retry{Notify: retry, Withdraw: retry}
	if _, err := s.CreateMerchant(t.Context(), row, db.MillisOf(time.Now())); err != nil {
		t.Fatal(err)
	}
	m := newTestMerchant(testPair())
	var mu sync.Mutex
	flying, tries, most := map[string]int{}, map[string]int{}, 0
	post := func(ctx context.Context, q request) Response {
		cb, err := m.open(q.body)
		if err != nil {
			t.Error(err)
			return Response{Failure: client.ReasonClosed}
		}
		id := cb.EventID()
		mu.Lock()
		flying[id]++
		tries[id]++
		try, together := tries[id], 0
		for _, n := range flying {
			together += n
		}
		most = max(most, together)
		if flying[id] > 1 {
			t.Errorf("%s is in two attempts", id)
		}
		mu.Unlock()
		defer func() {
			mu.Lock()
			flying[id]--
			mu.Unlock()
		}()
		if try == 1 {
			return Response{Status: 200, Body: m.fail(countersign.CodeInternal)}
		}
		return m.post(ctx, q)
	}
	start := func(i int) (stop func()) {
		d, err := New(Config{Outbox: stores[i], Node: fmt.Sprint("node-", i), Observer: noObserver{}, RSA: 2})
		if err != nil {
			t.Fatal(err)
		}
		d.post = post
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := d.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		return func() { cancel(); <-done }
	}

	deposits, withdrawals := dbtest.Times(60, 20), dbtest.Times(20, 8)
	stopFirst, stopSecond := start(0), start(1)
	var ids []string
	for i := range deposits {
		c := depositPayload(t, i)
		c.Merchant = "m1"
		got, err := s.Ingest(t.Context(), []outbox.NewCallback{c}, db.MillisOf(time.Now()))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got[0].ID)
	}
	stopFirst()
	stopThird := start(2)
	for i := range withdrawals {
		n := withdrawalPayload(t, i)
		n.Merchant, n.Deadline = "m1", db.MillisOf(time.Now().Add(time.Hour))
		made, err := s.CreateWithdrawals(t.Context(), []outbox.NewWithdrawal{n}, db.MillisOf(time.Now()))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made[0].Withdrawal.Callback)
	}
	open := len(ids)
	for range 3000 { // half a minute: far more than it takes
		open = 0
		for _, id := range ids {
			c, err := s.Callback(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if c.State != client.CallbackAccepted {
				open++
			}
		}
		if open == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	stopSecond()
	stopThird()
	if open > 0 {
		t.Errorf("%d of %d are not accepted", open, len(ids))
	}
	if most > 2*7 { // both lanes
		t.Errorf("%d exchanges at once, allowed are 7 a lane", most)
	}
	feed, err := s.Decisions(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range feed {
		if f.Seq != int64(i+1) || f.Withdrawal.State != client.WithdrawalConfirmed {
			t.Errorf("decision %d: %+v", i, f)
		}
	}
	if len(feed) != withdrawals {
		t.Errorf("%d decisions for %d withdrawals", len(feed), withdrawals)
	}
}
