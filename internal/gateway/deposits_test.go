package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/merchant"
)

// TestThousandDeliveries tells one deposit a thousand times at once to two
// gateways of one database: it is taken once, and every delivery is told so.
func TestThousandDeliveries(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url, service := d.url(t), newService(t, countersigntest.ServiceConfig{})
			r := newRig(t, url, service, nil)
			gateways := []countersigntest.Endpoint{r.to, r.to}
			if d.name == "postgres" { // SQLite has one process
				gateways[1] = newRig(t, url, service, nil).to
			}
			var bodies [20][]byte // attempts of one callback, each with its own requestUUID
			for i := range bodies {
				var err error
				if bodies[i], _, err = service.Body(countersigntest.Deposit(1)); err != nil {
					t.Fatal(err)
				}
			}
			const deliveries = 1000
			var work sync.WaitGroup
			queue := make(chan int, deliveries)
			for i := range deliveries {
				queue <- i
			}
			close(queue)
			for range 100 {
				work.Go(func() {
					for i := range queue {
						result := service.Post(t.Context(), gateways[i%2], merchant.DefaultNotifyPath, bodies[i%len(bodies)])
						if resp, err := countersign.ParseResponse(result.Raw); err != nil || resp.ErrCode != countersign.CodeAccepted {
							t.Errorf("delivery %d: errCode %d, %v", i, resp.ErrCode, err)
						}
					}
				})
			}
			work.Wait()
			if list := r.allDeposits(); len(list) != 1 || list[0].State != "taken" {
				t.Fatalf("the feed has %+v", list)
			}
			s, err := r.client.Stats(t.Context())
			if err != nil || s.Deposits != 1 || s.CallbacksOpen != 0 {
				t.Fatalf("stats: %+v, %v", s, err)
			}
		})
	}
}

// TestPossibleDuplicates holds them back until a person decides, and tells of
// the decision.
func TestPossibleDuplicates(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			ctx := t.Context()
			// Of one transaction: the same index twice, another index, none.
			for i, index := range []int64{3, 3, 4, -1} {
				c := countersigntest.Deposit(1)
				c.TrackingID, c.TxIndex = fmt.Sprint("d", i+1), index
				if code := r.deliver(c); code != countersign.CodeAccepted {
					t.Fatalf("errCode %d", code)
				}
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
			r.wantAlarms(book.AlarmPossibleDuplicate, book.AlarmPossibleDuplicate)
			if s, err := r.client.Stats(ctx); err != nil || s.DepositsHeld != 2 {
				t.Fatalf("stats: %+v, %v", s, err)
			}
			for range 2 { // the same decision again changes nothing
				if d, err := r.client.CreditDeposit(ctx, 2, "two transfers"); err != nil || d.State != "credited" || d.DecidedBy == "" {
					t.Fatalf("credit: %+v, %v", d, err)
				}
			}
			if _, err := r.client.RejectDeposit(ctx, 2, ""); !errors.Is(err, client.ErrConflict) {
				t.Fatalf("another decision: %v", err)
			}
			if _, err := r.client.CreditDeposit(ctx, 1, ""); !errors.Is(err, client.ErrConflict) {
				t.Fatalf("a deposit that counts already: %v", err)
			}
			if _, err := r.client.RejectDeposit(ctx, 4, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := r.client.CreditDeposit(ctx, 5, ""); !errors.Is(err, client.ErrNotFound) {
				t.Fatalf("no such deposit: %v", err)
			}
			// The feed still says what it said, and the events below tell the decisions:
			// a late reader of both must not credit deposit 2 twice.
			states("taken", "held", "taken", "held")
			for seq, want := range []client.DepositState{1: "taken", 2: "credited", 3: "taken", 4: "rejected"} {
				if seq == 0 {
					continue
				}
				d, err := r.client.Deposit(ctx, int64(seq))
				if err != nil || d.State != want {
					t.Errorf("deposit %d: %+v, %v", seq, d, err)
				}
				id, body, err := forwardBody(book.Forward{Feed: book.FeedDeposits, Seq: int64(seq), Deposit: r.taken(int64(seq))})
				if err != nil || strings.Contains(string(body), "credited") || strings.Contains(string(body), "decided") {
					t.Errorf("%s is forwarded as %s, %v", id, body, err)
				}
			}
			events, err := r.client.Events(ctx, client.FeedOptions{})
			if err != nil || len(events.Events) != 2 || events.Events[0].Kind != book.EventDepositCredited ||
				events.Events[0].Deposit != 2 || events.Events[1].Kind != book.EventDepositRejected || events.Events[1].Deposit != 4 {
				t.Fatalf("events: %+v, %v", events, err)
			}
		})
	}
}

// TestSplices joins the beginning of one genuine deposit to the end of another.
// With binding it is refused for that; of a service that does not bind, for the
// first block, also by a process that never saw the first one.
func TestSplices(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			for _, unbound := range []bool{false, true} {
				n := 0
				service := newService(t, countersigntest.ServiceConfig{Unbound: unbound, Order: countersigntest.UUIDFirst,
					Fault: func(int, countersign.Callback) countersigntest.ServiceFault { return countersigntest.NoServiceFault }})
				url := d.url(t)
				r := newRig(t, url, service, nil)
				first := service.Deliver(t.Context(), r.to, countersigntest.Deposit(1))
				second := service.Deliver(t.Context(), r.to, countersigntest.Deposit(2))
				if first.Err != nil || second.Err != nil {
					t.Fatal(first.Err, second.Err)
				}
				if d.name == "postgres" {
					r = newRig(t, url, service, nil)
				}
				for blocks := 1; blocks <= 3; blocks++ {
					spliced, err := countersigntest.Splice(first.Body, second.Body, blocks, testPair().Size())
					if err != nil {
						t.Fatal(err)
					}
					result := service.Post(t.Context(), r.to, merchant.DefaultNotifyPath, spliced)
					resp, err := countersign.ParseResponse(result.Raw)
					if err != nil || resp.ErrCode == countersign.CodeAccepted {
						t.Errorf("unbound %v, %d blocks: %d %v", unbound, blocks, resp.ErrCode, err)
					}
					n++
				}
				if list := r.allDeposits(); len(list) != 2 || n != 3 {
					t.Fatalf("unbound %v: the feed has %d deposits", unbound, len(list))
				}
				// The genuine one again is no splice.
				if result := service.Post(t.Context(), r.to, merchant.DefaultNotifyPath, first.Body); result.Status != 200 {
					t.Errorf("the genuine body again: %d", result.Status)
				}
			}
		})
	}
}

// TestPruneBlocks forgets first blocks after their time and no earlier.
func TestPruneBlocks(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{Unbound: true, Order: countersigntest.UUIDFirst}), nil)
	for n := range 5 {
		r.deliver(countersigntest.Deposit(n))
	}
	prune := func() int64 {
		n, err := r.book.PruneBlocks(t.Context(), db.MillisOf(r.clock.now()), 3)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	r.clock.advance(30 * 24 * time.Hour)
	if n := prune(); n != 0 {
		t.Fatalf("%d were forgotten early", n)
	}
	r.clock.advance(time.Millisecond)
	if a, b, c := prune(), prune(), prune(); a != 3 || b != 2 || c != 0 {
		t.Fatalf("forgot %d, %d, %d", a, b, c)
	}
}

// TestCursors holds acknowledged cursors to going forward within the feeds.
func TestCursors(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			ctx := t.Context()
			for n := range 5 {
				r.deliver(countersigntest.Deposit(n))
			}
			move := func(name string, to client.CursorMove, want client.Cursor) {
				t.Helper()
				got, err := r.client.MoveCursor(ctx, name, to)
				got.Updated, want.Name = 0, name
				if err != nil || got != want {
					t.Fatalf("cursor: %+v, %v; want %+v", got, err, want)
				}
			}
			if c, err := r.client.Cursor(ctx, "new"); err != nil || c != (client.Cursor{Name: "new"}) {
				t.Fatalf("new cursor: %+v, %v", c, err)
			}
			move("a", client.CursorMove{Deposits: 3}, client.Cursor{Deposits: 3})
			move("a", client.CursorMove{Deposits: 2}, client.Cursor{Deposits: 3})
			move("b", client.CursorMove{Deposits: 1}, client.Cursor{Deposits: 1})
			move("a", client.CursorMove{}, client.Cursor{Deposits: 3})
			if _, err := r.client.MoveCursor(ctx, "a", client.CursorMove{Deposits: 6}); !errors.Is(err, client.ErrConflict) {
				t.Fatalf("beyond the end: %v", err)
			}
			if _, err := r.client.MoveCursor(ctx, "a", client.CursorMove{Events: 1}); !errors.Is(err, client.ErrConflict) {
				t.Fatalf("beyond the end of events: %v", err)
			}
			part, err := r.client.Deposits(ctx, client.FeedOptions{Reader: "a"})
			if err != nil || len(part.Deposits) != 2 || part.Deposits[0].Seq != 4 || part.Next != 5 {
				t.Fatalf("from the cursor on: %+v, %v", part, err)
			}
		})
	}
}

// TestWaitingReader gets what comes while it waits, from another process too.
func TestWaitingReader(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url, service := d.url(t), newService(t, countersigntest.ServiceConfig{})
			r := newRig(t, url, service, nil)
			teller := r
			if d.name == "postgres" {
				teller = newRig(t, url, service, nil)
			}
			got := make(chan client.Deposits, 1)
			go func() {
				part, err := r.client.Deposits(context.Background(), client.FeedOptions{Wait: time.Minute})
				if err != nil {
					t.Error(err)
				}
				got <- part
			}()
			teller.deliver(countersigntest.Deposit(1))
			if part := <-got; len(part.Deposits) != 1 || part.Next != 1 {
				t.Fatalf("got %+v", part)
			}
			// Stopping ends the wait.
			go r.Stop()
			if part, err := r.client.Deposits(t.Context(), client.FeedOptions{After: 1, Wait: time.Minute}); err != nil || len(part.Deposits) != 0 || part.Next != 1 {
				t.Fatalf("got %+v, %v", part, err)
			}
		})
	}
}

// taken reads a deposit from the book.
func (r *rig) taken(seq int64) book.TakenDeposit {
	r.t.Helper()
	d, err := r.book.Deposit(r.t.Context(), seq)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}
