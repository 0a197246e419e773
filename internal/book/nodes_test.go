package book

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/merchant"
)

// holdInbox keeps the inbox's lock, as a node would that stands still inside a
// transaction, until release is called.
func holdInbox(t *testing.T, s *db.DB) (release func()) {
	t.Helper()
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			_, err := db.LockFeed(ctx, t, inboxFeed)
			close(held)
			<-free
			return err
		})
	}()
	<-held
	return func() {
		close(free)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func question(id string) merchant.Entry {
	return merchant.Entry{Callback: &countersign.WithdrawalRequest{Head: countersign.Head{TrackingID: "w" + id, TenantUserID: "7"}, CallBackID: id}, ID: id, At: time.UnixMilli(1000), Lease: time.Minute}
}

// TestInboxForgetsTheGone: callers that came and went while the database stood
// still leave nothing behind: no lease that nobody works under, and no work
// before that of those who wait.
func TestInboxForgetsTheGone(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			s := openAt(t, d.url(t))
			end := New(s, Config{})
			release := holdInbox(t, s)
			var work sync.WaitGroup
			for i := range 3 * inboxBatch {
				work.Go(func() {
					brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
					defer cancel()
					if _, err := end.Claim(brief, question(fmt.Sprint("gone", i))); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("it did not give up: %v", err)
					}
				})
			}
			work.Wait()
			stays := make(chan merchant.Claimed, 1)
			go func() {
				r, err := end.Claim(ctx, question("stays"))
				if err != nil {
					t.Error(err)
				}
				stays <- r
			}()
			release()
			if r := <-stays; r.State != merchant.StateClaimed {
				t.Fatalf("%+v", r)
			}
			list, _, err := end.Entries(ctx, client.InboxFilter{}, 1000, 0)
			if err != nil || len(list) != 1 || list[0].ID != "stays" {
				t.Fatalf("%d entries: %+v, %v", len(list), list, err)
			}
		})
	}
}

// TestInboxSettledMeanwhile: who holds a lease may settle after its end, at the
// very moment in which another claims. The other is not told that it has a
// lease, and what was settled stands.
func TestInboxSettledMeanwhile(t *testing.T) {
	url := dialects[1].url(t)
	s, other := openAt(t, url), openAt(t, url)
	end := New(s, Config{})
	leased, err := end.Claim(ctx, question("c"))
	if err != nil || leased.State != merchant.StateClaimed {
		t.Fatalf("%+v, %v", leased, err)
	}
	settled, commit, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- other.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			_, err := t.Exec(ctx, keepReplySQL, leased.Seq, int64(2001), "no", "", "", "", "", int64(70_000), "")
			close(settled)
			<-commit
			return err
		})
	}()
	<-settled
	again := question("c")
	again.At = again.At.Add(time.Minute)
	claimed := make(chan merchant.Claimed, 1)
	go func() {
		r, err := end.Claim(ctx, again)
		if err != nil {
			t.Error(err)
		}
		claimed <- r
	}()
	for waits := 0; waits == 0; time.Sleep(time.Millisecond) { // until the claim stands before the row
		if _, err := db.One(ctx, s, `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil, &waits); err != nil {
			t.Fatal(err)
		}
	}
	close(commit)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if r := <-claimed; r.State != merchant.StateBusy || r.Claim != 0 {
		t.Fatalf("%+v", r)
	}
	if r, err := end.Claim(ctx, again); err != nil || r.State != merchant.StateSettled || r.Reply.Code != 2001 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestConfirmReadsTheClock: an order that expired while its confirmation stood
// still is not confirmed.
func TestConfirmReadsTheClock(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			m := New(openAt(t, d.url(t)), Config{})
			o := testOrder("o", "1")
			o.ExpiresAt = 100
			if _, _, err := m.AddOrder(ctx, o, "", 1); err != nil {
				t.Fatal(err)
			}
			now := db.Millis(100)
			c := OrderChange{CallBackID: "o", TenantUserID: "7", From: client.OrderOpen, To: client.OrderConfirmed, Clock: func() db.Millis { return now }}
			if _, err := m.ChangeOrder(ctx, c, 50); !errors.Is(err, ErrChanged) {
				t.Fatalf("after its end: %v", err)
			}
			now = 99
			if got, err := m.ChangeOrder(ctx, c, 50); err != nil || got.Confirmed != 99 {
				t.Fatalf("before: %+v, %v", got, err)
			}
		})
	}
}

// TestOrdersWithGaps: numbers of orders are given before their transactions
// commit, and those of transactions that failed or found the order there are
// lost. Lists page by them, and nothing else rests on them.
func TestOrdersWithGaps(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			m := New(openAt(t, d.url(t)), Config{})
			for i := range 30 {
				for range 1 + i%3 { // the same again takes a number too
					if _, _, err := m.AddOrder(ctx, testOrder(fmt.Sprint("o", i), "1"), "", 1); err != nil {
						t.Fatal(err)
					}
				}
			}
			var got []string
			for before := int64(0); ; {
				list, next, err := m.Orders(ctx, client.OrderFilter{}, 7, before)
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range list {
					got = append(got, o.CallBackID)
				}
				if before = next; next == 0 {
					break
				}
			}
			for i, id := range got {
				if len(got) != 30 || id != fmt.Sprint("o", 29-i) {
					t.Fatalf("%v", got)
				}
			}
		})
	}
}
