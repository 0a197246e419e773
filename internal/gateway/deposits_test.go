package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// TestPossibleDuplicates holds them back until a person decides, and tells of
// the decision.
func TestPossibleDuplicates(t *testing.T) {
	eachRig(t, nil, func(t *testing.T, r *rig) {
		ctx := t.Context()
		// Of one transaction: the same index twice, another index and amount, none.
		for i, index := range []int64{3, 3, 4, -1} {
			c := countersigntest.Deposit(1)
			c.TrackingID, c.TxIndex = fmt.Sprint("d", i+1), index
			if index == 4 {
				c.Amount, _ = countersign.ParseAmount("77")
			}
			r.answers(c, countersign.CodeAccepted)
		}
		states := func(want ...string) {
			t.Helper()
			got := []string{}
			for _, d := range r.allDeposits() {
				if d.PossibleDuplicate != (d.State != "taken") {
					t.Errorf("deposit %d: %+v", d.Seq, d)
				}
				got = append(got, string(d.State))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("states are %v, want %v", got, want)
			}
		}
		states("taken", "held", "taken", "held")
		r.wantAlarms(client.AlarmPossibleDuplicate)
		r.wantNumbers(2)
		if s, err := r.client.Stats(ctx); err != nil || s.DepositsHeld != 2 {
			t.Fatalf("stats: %+v, %v", s, err)
		}
		for range 2 { // the same decision again changes nothing
			if d, err := r.client.CreditDeposit(ctx, 2, "two transfers"); err != nil || d.State != "credited" || d.DecidedBy == "" {
				t.Fatalf("credit: %+v, %v", d, err)
			}
		}
		dbtest.Fails(r.client.RejectDeposit(ctx, 2, ""))(t, client.ErrConflict, "")
		dbtest.Fails(r.client.CreditDeposit(ctx, 1, ""))(t, client.ErrConflict, "")
		must(r.client.RejectDeposit(ctx, 4, ""))(t)
		dbtest.Fails(r.client.CreditDeposit(ctx, 5, ""))(t, client.ErrNotFound, "")
		// The feed still says what it said, and the events below tell the decisions:
		// a late reader of both must not credit deposit 2 twice.
		states("taken", "held", "taken", "held")
		for seq, want := range []client.DepositState{1: "taken", 2: "credited", 3: "taken", 4: "rejected"} {
			if seq == 0 {
				continue
			}
			if d := must(r.client.Deposit(ctx, int64(seq)))(t); d.State != want {
				t.Errorf("deposit %d: %+v", seq, d)
			}
			if body := must(forwardBody(ctx, r.book, book.Forward{Feed: client.FeedOfDeposits, Seq: int64(seq)}))(t); strings.Contains(string(body), "credited") || strings.Contains(string(body), "decided") {
				t.Errorf("%d is forwarded as %s", seq, body)
			}
		}
		events, err := r.client.Events(ctx, client.FeedOptions{})
		if err != nil || len(events.Items) != 2 || events.Items[0].Kind != client.EventDepositCredited ||
			events.Items[0].Deposit != 2 || events.Items[1].Kind != client.EventDepositRejected || events.Items[1].Deposit != 4 {
			t.Fatalf("events: %+v, %v", events, err)
		}
	})
}

// TestSplicesInUsualOrder joins requests of a service that does not bind and writes
// the members in the interface's order. The first deposit is a thief's own, of little
// worth, and never arrives as it was sent.
func TestSplicesInUsualOrder(t *testing.T) {
	eachUnbound(t, nil, func(t *testing.T, r *rig) {
		small, big := *countersigntest.Deposit(1), *countersigntest.Deposit(2)
		small.Amount, big.Amount = amount(t, "0.1"), amount(t, "900")
		small.TenantUserID, big.TenantUserID = "65511", "65522"
		small.TxID = "0x" + strings.Repeat("ab12", 16)
		const notify = merchant.DefaultNotifyPath
		held, taken := r.body(&small), r.body(&big)
		r.posts(notify, taken, 0)                                            // the honest one
		r.posts(notify, r.splice(held, taken, 1), countersign.CodeMalformed) // with the requestUUID of the one that was taken
		r.wantRefused(map[client.RefusalReason]int64{"spliced": 1})
		r.wantAlarms(client.AlarmDepositRefused, client.AlarmRequestSuspect)
		// The blocks in the middle are of the one that was taken. Its txId is cut.
		middle := r.splice(r.splice(held, taken, 1), held, 3)
		for range 2 {
			r.posts(notify, middle, 0) // the blocks in the middle
		}
		list := r.allDeposits()
		if len(list) != 2 || list[0].State != client.DepositTaken || list[1].State != client.DepositHeld || !list[1].Suspect || list[1].PossibleDuplicate {
			t.Errorf("the feed is %+v", list)
		}
		if strings.Count(r.log.String(), "reason=suspect") != 1 {
			t.Errorf("the log is %s", r.log)
		}
		// Both are repeated by their service, with requestUUIDs of their own.
		r.posts(notify, r.body(&big), 0)                               // another attempt
		r.posts(notify, r.body(&small), countersign.CodeDetailsDiffer) // what the join stands for
		// One that comes after its join is held: it is not known which of the two is right.
		small.TrackingID, big.TrackingID = "deposit-3", "deposit-4"
		small.TxID, big.TxID = "0x"+strings.Repeat("cd34", 16), "0x"+strings.Repeat("ef56", 16)
		r.posts(notify, r.splice(r.splice(r.body(&small), r.body(&big), 1), r.body(&small), 3), 0) // a join
		r.posts(notify, r.body(&big), 0)                                                           // what it was joined from
		if list := r.allDeposits(); len(list) != 4 || list[2].State != client.DepositTaken || !list[3].Suspect {
			t.Errorf("the feed is %+v", list)
		}
		if got := must(r.client.CreditDeposit(t.Context(), 4, "the service says so"))(t); got.State != client.DepositCredited || !got.Suspect {
			t.Errorf("%+v", got)
		}
	})
}

func amount(t *testing.T, text string) countersign.Amount {
	return must(countersign.ParseAmount(text))(t)
}

// TestPruneBlocks forgets blocks after their time and no earlier.
func TestPruneBlocks(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{Unbound: true, UUIDFirst: true}), nil)
	for n := range 5 {
		r.deliver(countersigntest.Deposit(n))
	}
	blocks := func() (n int64) {
		must(db.One(t.Context(), r.book, `SELECT COUNT(*) FROM blocks`, nil, &n))(t)
		return n
	}
	all := blocks()
	prune := func() int64 {
		return must(r.book.PruneBlocks(t.Context(), db.MillisOf(r.clock.now()), 3))(t)
	}
	r.clock.advance(30 * 24 * time.Hour)
	if n := prune(); n != 0 {
		t.Fatalf("%d were forgotten early", n)
	}
	r.clock.advance(time.Millisecond)
	if n := prune(); n != 3 || blocks() != all-3 || all < 10 {
		t.Fatalf("forgot %d of %d, %d are left", n, all, blocks())
	}
	for prune() > 0 {
	}
	if n := blocks(); n != 0 {
		t.Fatalf("%d are left", n)
	}
}

// TestWaitingReader gets what comes while it waits, from another process too. Its cursor never goes back.
func TestWaitingReader(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url, service := d.url(t), newService(t, countersigntest.ServiceConfig{})
			r := newRig(t, url, service, nil)
			teller := r
			if d.name == "postgres" {
				teller = newRig(t, url, service, nil)
			}
			got := make(chan client.Feed[client.DepositEntry], 1)
			go func() {
				part, err := r.client.Deposits(context.Background(), client.FeedOptions{Wait: time.Minute})
				if err != nil {
					t.Error(err)
				}
				got <- part
			}()
			teller.deliver(countersigntest.Deposit(1))
			if part := <-got; len(part.Items) != 1 || part.Next != 1 {
				t.Fatalf("got %+v", part)
			}
			for deposits := int64(1); deposits >= 0; deposits-- {
				if c, err := r.client.MoveCursor(t.Context(), "a", client.CursorMove{Deposits: deposits}); err != nil || c.Deposits != 1 || c.Events != 0 {
					t.Errorf("cursor: %+v, %v", c, err)
				}
			}
			if part, err := r.client.Deposits(t.Context(), client.FeedOptions{Reader: "a"}); err != nil || len(part.Items) != 0 || part.Next != 1 {
				t.Errorf("from the cursor on: %+v, %v", part, err)
			}
			// Stopping ends the wait.
			go r.Stop()
			if part, err := r.client.Deposits(t.Context(), client.FeedOptions{After: 1, Wait: time.Minute}); err != nil || len(part.Items) != 0 || part.Next != 1 {
				t.Fatalf("got %+v, %v", part, err)
			}
		})
	}
}
