package book

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/client"
	"countersign/internal/db"
)

// addDeposits adds deposits, recorded at the times 1000, 2000, …
func addDeposits(t *testing.T, b *Book, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		e := inboxDeposit(fmt.Sprint("d", i), fmt.Sprint("tx", i), -1)
		e.At = time.UnixMilli(int64(i) * 1000)
		must(b.Claim(ctx, e))(t)
	}
}

// addEvents appends events to their feed, recorded at 500.
func addEvents(t *testing.T, b *Book, n int) {
	t.Helper()
	ok(t, b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		l := ledger{}
		for range n {
			l.event(client.EventEntry{Kind: client.EventAddressChanged, At: 500, TenantUserID: "7"})
		}
		return l.write(ctx, t)
	}))
}

// wantClaimed wants one claim to get what has these names.
func wantClaimed(t *testing.T, b *Book, now db.Millis, limit int, want ...string) []Forward {
	t.Helper()
	list := must(b.ClaimForwards(ctx, now, time.Minute, limit))(t)
	var names []string
	for _, f := range list {
		names = append(names, fmt.Sprint(string(f.Feed), f.Seq))
	}
	if !slices.Equal(names, want) {
		t.Errorf("claimed at %d are %q, want %q", now, names, want)
	}
	return list
}

func settle(t *testing.T, b *Book, list []Forward, done bool, due db.Millis) {
	t.Helper()
	for _, f := range list {
		end := func() error { return b.ForwardFailed(ctx, f, "status 500", due) }
		if done {
			end = func() error { return b.ForwardDone(ctx, f) }
		}
		ok(t, end())
	}
}

// wantWaiting holds the state of the forwarding to how many entries wait, and the oldest of them.
func wantWaiting(t *testing.T, b *Book, waiting int64, oldest db.Millis) {
	t.Helper()
	f, err := b.Forwarding(ctx)
	s, err2 := b.Stats(ctx)
	if err != nil || err2 != nil || f.Waiting != waiting || f.Oldest != oldest || s.Forwards != waiting || s.ForwardOldest != oldest {
		t.Errorf("%+v, %+v, %v, %v; want %d, the oldest of %d", f, s, err, err2, waiting, oldest)
	}
}

// TestForwardingBegins: once, with what was never forwarded, also what is older, or with what is new. Each is told once,
// the oldest first.
func TestForwardingBegins(t *testing.T) {
	for onlyNew, want := range map[bool][]string{
		false: {"events1", "events2", "deposits1", "deposits2", "deposits3", "deposits4", "deposits5"},
		true:  {"deposits4", "deposits5"},
	} {
		eachBook(t, func(t *testing.T, b *Book) {
			addDeposits(t, b, 1, 3)
			addEvents(t, b, 2)
			wantClaimed(t, b, 1_000_000, 10) // it has not begun
			wantWaiting(t, b, 0, 0)
			if !must(b.BeginForwarding(ctx, onlyNew, 1))(t) {
				t.Error("it does not begin")
			}
			if onlyNew {
				wantWaiting(t, b, 0, 0)
			} else {
				wantWaiting(t, b, 5, 500)
			}
			addDeposits(t, b, 4, 5)
			for _, other := range []bool{false, true} {
				if must(b.BeginForwarding(ctx, other, 1))(t) {
					t.Error("a restart begins anew")
				}
			}
			settle(t, b, wantClaimed(t, b, 1_000_000, 10, want...), true, 0)
			wantClaimed(t, b, 2_000_000, 10)
			wantWaiting(t, b, 0, 0)
		})
	}
}

// TestForwards: what was never sent comes first, then what is due; what was sent in vain is listed, and a person makes
// all of it due at once, but for what is being sent. An attempt that comes back after its lease changes nothing if it
// failed, since another is under way; if it is done, nothing is left to be told.
func TestForwards(t *testing.T) {
	eachBook(t, func(t *testing.T, b *Book) {
		addDeposits(t, b, 1, 4)
		addEvents(t, b, 1)
		must(b.BeginForwarding(ctx, false, 1))(t)
		list := wantClaimed(t, b, 10_000, 3, "events1", "deposits1", "deposits2")
		settle(t, b, list[:1], false, 15_000)
		settle(t, b, list[1:], false, 12_000)
		want := []client.Forward{{ID: "deposit_1", Attempts: 1, LastError: "status 500", Due: 12_000, Created: 1000},
			{ID: "deposit_2", Attempts: 1, LastError: "status 500", Due: 12_000, Created: 2000}}
		if got, err := b.FailedForwards(ctx, 2); !cmp.Equal(want, got) || err != nil { // the event is third
			t.Errorf("%v\n%s", err, cmp.Diff(want, got))
		}
		late := wantClaimed(t, b, 20_000, 3, "deposits3", "deposits4", "deposits1")
		wantClaimed(t, b, 11_000, 10) // the others are not due yet
		if n, err := b.RetryForwards(ctx, 11_000); err != nil || n != 2 {
			t.Errorf("%d retried, %v", n, err)
		}
		settle(t, b, wantClaimed(t, b, 11_000, 10, "events1", "deposits2"), true, 0)
		wantWaiting(t, b, 3, 1000)
		again := wantClaimed(t, b, 80_000, 10, "deposits1", "deposits3", "deposits4") // the leases have ended
		if again[0].Attempts != 3 {
			t.Errorf("%+v", again)
		}
		settle(t, b, late, false, 90_000)
		wantClaimed(t, b, 139_999, 10)
		settle(t, b, late, true, 0)
		wantWaiting(t, b, 0, 0)
	})
}

// TestForwardsOnNodes: of deposits that arrive at two nodes at once, each at both, the feed has each once and no gap for
// whoever reads it meanwhile. Nodes that claim, fail and die while entries are recorded leave none out, and one that was
// claimed is nobody else's until its lease ends.
func TestForwardsOnNodes(t *testing.T) {
	eachPair(t, func(t *testing.T, nodes []*Book) {
		const deposits = 150
		var recording sync.WaitGroup
		for i := range 24 { // it begins while they record, many in one transaction
			recording.Go(func() {
				for n := i / 2; n < deposits; n += 12 {
					if _, err := nodes[i%2].Claim(ctx, inboxDeposit(fmt.Sprint("d", n), fmt.Sprint("tx", n), -1)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		recording.Go(func() {
			for read := int64(0); read < deposits && !t.Failed(); {
				list, err := nodes[0].Deposits(ctx, read, 7)
				if err != nil {
					t.Error(err)
				}
				for _, d := range list {
					if read++; d.Seq != read {
						t.Errorf("after deposit %d comes %d", read-1, d.Seq)
					}
				}
			}
		})
		must(nodes[0].BeginForwarding(ctx, false, 1))(t)
		told := map[string]bool{}
		for now := db.Millis(1_000_000); len(told) < deposits && !t.Failed(); now += 2000 { // every lease ends
			var mu sync.Mutex
			seen := map[string]bool{} // at this time
			one := func(b *Book, f Forward) {
				name := fmt.Sprint(string(f.Feed), f.Seq)
				fate := rand.IntN(4)
				mu.Lock()
				if seen[name] || told[name] {
					t.Errorf("%s came twice", name)
				}
				seen[name] = true
				done := fate > 1
				told[name] = done
				mu.Unlock()
				if fate == 0 {
					return // it died before it sent, or before it said so
				}
				err := error(nil)
				if done {
					err = b.ForwardDone(ctx, f)
				} else {
					err = b.ForwardFailed(ctx, f, "failed", now+50)
				}
				if err != nil {
					t.Error(err)
				}
			}
			var work sync.WaitGroup
			for i := range 6 {
				work.Go(func() {
					for {
						list, err := nodes[i%2].ClaimForwards(ctx, now, 2*time.Second, 5)
						if err != nil {
							t.Error(err)
						}
						if len(list) == 0 {
							return
						}
						for _, f := range list {
							one(nodes[i%2], f)
						}
					}
				})
			}
			work.Wait()
			for name, done := range told {
				if !done {
					delete(told, name)
				}
			}
		}
		recording.Wait()
		wantWaiting(t, nodes[1], 0, 0)
		if s, err := nodes[1].Stats(ctx); err != nil || s.Deposits != deposits || s.Callbacks != deposits || s.CallbacksOpen != 0 || s.DepositsHeld != 0 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
