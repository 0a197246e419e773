package book

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
	"countersign/internal/lab/endtest"
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
	eachBook(t, func(t *testing.T, end *Book) {
		release := holdInbox(t, end.DB)
		var work sync.WaitGroup
		for i := range 3 * inboxBatch {
			work.Go(func() {
				brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				dbtest.Fails(end.Claim(brief, question(fmt.Sprint("gone", i))))(t, context.DeadlineExceeded, "")
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

// TestInboxSettledMeanwhile: who holds a lease may settle after its end, at the
// very moment in which another claims. The other is not told that it has a
// lease, and what was settled stands.
func TestInboxSettledMeanwhile(t *testing.T) {
	url := endtest.Postgres(End())(t)
	s, other := openAt(t, url), openAt(t, url)
	end := New(s, Config{})
	leased, err := end.Claim(ctx, question("c"))
	if err != nil || leased.State != merchant.StateClaimed {
		t.Fatalf("%+v, %v", leased, err)
	}
	settled, commit, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- other.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			_, err := t.Exec(ctx, keepReplySQL, leased.Seq, formatReply(merchant.Reply{Code: 2001, Message: "no"}), int64(70_000))
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
		must(db.One(ctx, s, `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil, &waits))(t)
	}
	close(commit)
	ok(t, <-done)
	if r := <-claimed; r.State != merchant.StateBusy || r.Claim != 0 {
		t.Fatalf("%+v", r)
	}
	if r, err := end.Claim(ctx, again); err != nil || r.State != merchant.StateSettled || r.Reply.Code != 2001 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestEndedBeforeSettled: an order that ends between its confirmation and the moment the answer is
// kept is not confirmed, however the answer comes: kept now, or kept by another process before.
func TestEndedBeforeSettled(t *testing.T) {
	eachBook(t, func(t *testing.T, b *Book) {
		o := testOrder("W", "1")
		if _, _, err := b.AddOrder(ctx, o, "", 1); err != nil {
			t.Fatal(err)
		}
		q := question("W")
		r, err := b.Claim(ctx, q)
		if err != nil || r.State != merchant.StateClaimed {
			t.Fatalf("%+v, %v", r, err)
		}
		change := OrderChange{CallBackID: "W", TenantUserID: o.TenantUserID, From: client.OrderOpen, To: client.OrderConfirmed}
		must(b.ChangeOrder(ctx, change, 2))(t)
		s := merchant.Settlement{Type: countersign.TypeRequestWithdraw, ID: "W", Claim: r.Claim, Final: true, At: q.At, Reply: merchant.Reply{Details: o.Details()}}
		if kept, err := b.Settle(ctx, s); err != nil || kept != s.Reply {
			t.Fatalf("while it is confirmed: %+v, %v", kept, err)
		}
		endOrder(t, b, o, 3)
		over := merchant.Reply{Code: countersign.CodeOrderCancelled, Message: countersign.CodeOrderCancelled.Message()}
		for range 2 {
			if kept, err := b.Settle(ctx, s); err != nil || kept != over {
				t.Fatalf("after the end: %+v, %v", kept, err)
			}
		}
		q.At = q.At.Add(time.Hour)
		if r, err := b.Claim(ctx, q); err != nil || r.State != merchant.StateSettled || r.Reply != over {
			t.Fatalf("asked again: %+v, %v", r, err)
		}
		if list := must(b.StandingAlarms(ctx, client.AlarmEndedAgain))(t); len(list) != 1 || list[0].Subject != "W" || list[0].Number != 1 {
			t.Errorf("%+v", list)
		}
	})
}
