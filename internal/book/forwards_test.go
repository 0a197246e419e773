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
		if _, err := b.Claim(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
}

// addEvents appends events to their feed.
func addEvents(t *testing.T, b *Book, n int) {
	t.Helper()
	err := b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		l := ledger{}
		for range n {
			l.event(client.EventEntry{Kind: client.EventAddressChanged, At: 500, TenantUserID: "7"})
		}
		return l.write(ctx, t)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// begin returns how many feeds begin.
func begin(t *testing.T, b *Book, onlyNew bool) int {
	t.Helper()
	begun, err := b.BeginForwarding(ctx, onlyNew, 1)
	if err != nil {
		t.Fatal(err)
	}
	return len(begun)
}

// claimed returns the names of what one claim gets.
func claimed(t *testing.T, b *Book, now db.Millis, limit int) (names []string, list []Forward) {
	t.Helper()
	list, err := b.ClaimForwards(ctx, now, time.Minute, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		names = append(names, fmt.Sprint(string(f.Feed), f.Seq))
	}
	return names, list
}

// tell lets the application have everything that is due, and gives the names.
func tell(t *testing.T, b *Book, now db.Millis) (all []string) {
	t.Helper()
	for {
		names, list := claimed(t, b, now, 10)
		if len(list) == 0 {
			return all
		}
		all = append(all, names...)
		settle(t, b, list, true, 0)
	}
}

func settle(t *testing.T, b *Book, list []Forward, done bool, due db.Millis) {
	t.Helper()
	for _, f := range list {
		end := func() error { return b.ForwardFailed(ctx, f, "status 500", due) }
		if done {
			end = func() error { return b.ForwardDone(ctx, f) }
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
}

func wantForwards(t *testing.T, b *Book, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, tell(t, b, 1_000_000)); diff != "" {
		t.Errorf("forwarded (-want +got):\n%s", diff)
	}
}

// TestForwardingBegins: once, with what was never forwarded, also what is older, or with what is new.
func TestForwardingBegins(t *testing.T) {
	for onlyNew, want := range map[bool][]string{
		false: {"events1", "events2", "deposits1", "deposits2", "deposits3", "deposits4", "deposits5"},
		true:  {"deposits4", "deposits5"},
	} {
		eachBook(t, func(t *testing.T, b *Book) {
			addDeposits(t, b, 1, 3)
			addEvents(t, b, 2)
			wantForwards(t, b) // it has not begun
			if s, err := b.Stats(ctx); err != nil || s.Forwards != 0 || s.ForwardOldest != 0 {
				t.Errorf("before: %+v, %v", s, err)
			}
			if n := begin(t, b, onlyNew); n != 2 {
				t.Errorf("the beginning: %d", n)
			}
			if s, err := b.Forwarding(ctx); err != nil || !onlyNew && (s.Waiting != 5 || s.Retrying != 0 || s.Oldest != 500) || onlyNew && s.Waiting != 0 {
				t.Errorf("begun: %+v, %v", s, err)
			}
			addDeposits(t, b, 4, 5)
			wantForwards(t, b, want...)
			for _, other := range []bool{false, true} {
				if n := begin(t, b, other); n != 0 {
					t.Errorf("a restart: %d", n)
				}
			}
			wantForwards(t, b)
		})
	}
}

// TestForwardsInTurn: what waits longest is first, whether it failed before or not.
func TestForwardsInTurn(t *testing.T) {
	eachBook(t, func(t *testing.T, b *Book) {
		addDeposits(t, b, 1, 6)
		begin(t, b, false)
		names, first := claimed(t, b, 10_000, 3)
		if diff := cmp.Diff([]string{"deposits1", "deposits2", "deposits3"}, names); diff != "" {
			t.Error(diff)
		}
		settle(t, b, first[:1], false, 4500)
		settle(t, b, first[1:], false, 5500)
		var got []string
		for range 4 {
			names, _ := claimed(t, b, 10_000, 1)
			got = append(got, names...)
		}
		if diff := cmp.Diff([]string{"deposits4", "deposits1", "deposits5", "deposits2"}, got); diff != "" {
			t.Error(diff)
		}
		if names, _ := claimed(t, b, 5_000, 10); !slices.Equal(names, []string{"deposits6"}) {
			t.Errorf("before they are due: %v", names)
		}
	})
}

// TestForwardsFailed: what was sent in vain is listed, and a person makes all of it due at once, but for
// what is being sent.
func TestForwardsFailed(t *testing.T) {
	eachBook(t, func(t *testing.T, b *Book) {
		addDeposits(t, b, 1, 4)
		addEvents(t, b, 1)
		begin(t, b, false)
		_, list := claimed(t, b, 10_000, 4) // the event and three deposits
		settle(t, b, list[:3], false, 500_000)
		want := []client.Forward{{ID: "deposit_1", Attempts: 1, LastError: "status 500", Due: 500_000, Created: 1000},
			{ID: "deposit_2", Attempts: 1, LastError: "status 500", Due: 500_000, Created: 2000}}
		if got, err := b.FailedForwards(ctx, 2); !cmp.Equal(want, got) || err != nil { // the event is third
			t.Errorf("%v\n%s", err, cmp.Diff(want, got))
		}
		if s, err := b.Forwarding(ctx); err != nil || s.Waiting != 5 || s.Retrying != 4 || s.Oldest != 500 {
			t.Errorf("%+v, %v", s, err)
		}
		if n, err := b.RetryForwards(ctx, 20_000); err != nil || n != 3 {
			t.Errorf("%d retried, %v", n, err)
		}
		names, again := claimed(t, b, 20_000, 10)
		if diff := cmp.Diff([]string{"deposits4", "deposits1", "deposits2", "events1"}, names); diff != "" {
			t.Error(diff)
		}
		settle(t, b, append(again, list[3:]...), true, 0)
		if s, err := b.Stats(ctx); err != nil || s.Forwards != 0 || s.ForwardOldest != 0 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// TestForwardsOnNodes: nodes that claim, fail and die while entries are recorded leave
// none out, and one that was claimed is nobody else's until its lease ends.
func TestForwardsOnNodes(t *testing.T) {
	eachPair(t, func(t *testing.T, nodes []*Book) {
		const deposits = 150
		begin(t, nodes[0], false)
		var recording sync.WaitGroup
		recording.Go(func() {
			for i := range deposits {
				if _, err := nodes[i%2].Claim(ctx, inboxDeposit(fmt.Sprint("d", i), fmt.Sprint("tx", i), -1)); err != nil {
					t.Error(err)
				}
			}
		})
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
		if s, err := nodes[1].Stats(ctx); err != nil || s.Forwards != 0 || len(told) != deposits {
			t.Errorf("%d told, %+v, %v", len(told), s, err)
		}
	})
}

// TestStatsLeaveNoForwardOut: an entry that is handed over while the numbers are read is in
// them. Who waits until nothing is left would otherwise go on too early.
func TestStatsLeaveNoForwardOut(t *testing.T) {
	eachBook(t, func(t *testing.T, b *Book) {
		const deposits = 300
		addDeposits(t, b, 1, deposits)
		begin(t, b, false)
		var claiming sync.WaitGroup
		claiming.Go(func() {
			for range deposits {
				if list, err := b.ClaimForwards(ctx, 1_000_000, time.Hour, 1); err != nil || len(list) != 1 {
					t.Errorf("claimed %d, %v", len(list), err)
				}
			}
		})
		done := make(chan struct{})
		go func() { claiming.Wait(); close(done) }()
		for !t.Failed() {
			if s, err := b.Stats(ctx); err != nil || s.Forwards < deposits {
				t.Errorf("%d of %d are to be forwarded, %v", s.Forwards, deposits, err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
		<-done
	})
}

// TestForwardLate: an attempt that comes back after its lease changes nothing if it failed, since another
// is under way; if it is done, nothing is left to be told.
func TestForwardLate(t *testing.T) {
	eachBook(t, func(t *testing.T, b *Book) {
		addDeposits(t, b, 1, 2)
		begin(t, b, false)
		_, first := claimed(t, b, 10_000, 1)
		_, second := claimed(t, b, 70_000, 2)
		if len(second) != 2 || second[1].Seq != first[0].Seq || second[1].Attempts != 2 {
			t.Fatalf("%+v, then %+v", first, second)
		}
		settle(t, b, first, false, 80_000)
		if names, _ := claimed(t, b, 129_999, 2); len(names) != 0 {
			t.Errorf("%v are due before the second lease ends", names)
		}
		settle(t, b, first, true, 0)
		if s, err := b.Stats(ctx); err != nil || s.Forwards != 1 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
