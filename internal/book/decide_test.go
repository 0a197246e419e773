package book

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// holdDeposits adds held deposits to b, of two users in turn.
func holdDeposits(t *testing.T, b *Book, n int) {
	t.Helper()
	one, err := countersign.ParseAmount("1.5")
	if err != nil {
		t.Fatal(err)
	}
	l := ledger{}
	for i := range n {
		d := countersign.Deposit{TxID: "x", ChainName: "c", Symbol: "s", Amount: one, FromAddress: "f", ToAddress: "t"}
		d.TrackingID, d.TenantUserID = fmt.Sprint("held-", i), fmt.Sprint("u", i%2)
		l.deposits = append(l.deposits, TakenDeposit{Deposit: d, State: DepositHeld, Taken: 1})
	}
	if err := b.Write(ctx, func(ctx context.Context, t *db.Tx) error { return l.write(ctx, t) }); err != nil {
		t.Fatal(err)
	}
}

// TestDecideHeld: a dry run counts what the act then decides, up to the number that it gave; what
// is decided meanwhile is left out, and each deposit is decided once, by whoever is first.
func TestDecideHeld(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			b := New(openAt(t, d.url(t)), Config{})
			holdDeposits(t, b, 301)
			of := DepositFilter{TenantUserID: "u0"}
			done, err := b.DecideHeld(ctx, of, DepositCredited, "tok", "r", 0, true, 5)
			if done != (HeldDecided{Count: 151, Last: 301}) || err != nil {
				t.Fatal(done, err)
			}
			if s, err := b.Stats(ctx); err != nil || s.DepositsHeld != 301 || s.Events != 0 {
				t.Fatal("a dry run has decided", s, err)
			}
			holdDeposits(t, b, 10) // came since: 302 to 311
			done, err = b.DecideHeld(ctx, of, DepositCredited, "tok", "r", done.Last, false, 5)
			if done != (HeldDecided{Count: 151, Last: 301}) || err != nil {
				t.Fatal(done, err)
			}
			if done, err = b.DecideHeld(ctx, of, DepositCredited, "tok", "r", 301, false, 5); done.Count != 0 || err != nil {
				t.Fatal("decided again", done, err)
			}
			got, err := b.Deposit(ctx, 301)
			if err != nil || got.State != DepositCredited || got.DecidedBy != "tok" || got.Reason != "r" || got.Decided != 5 {
				t.Errorf("%+v, %v", got, err)
			}
			if got, err = b.Deposit(ctx, 302); err != nil || got.State != DepositHeld {
				t.Errorf("%+v, %v", got, err)
			}
			events, err := b.Events(ctx, 0, 1000)
			if err != nil || len(events) != 151 || events[0].Kind != client.EventKind("deposit.credited") {
				t.Errorf("%d events, %v", len(events), err)
			}
			// Two persons at once.
			var counts [2]int64
			var work sync.WaitGroup
			for i, to := range []DepositState{DepositCredited, DepositRejected} {
				work.Go(func() {
					done, err := b.DecideHeld(ctx, DepositFilter{}, to, "tok", "", 0, false, 6)
					if counts[i] = done.Count; err != nil {
						t.Error(err)
					}
				})
			}
			work.Wait()
			if s, err := b.Stats(ctx); counts[0]+counts[1] != 160 || err != nil || s.DepositsHeld != 0 || s.Events != 311 {
				t.Errorf("%v were decided, %+v, %v", counts, s, err)
			}
			if _, err := b.DecideHeld(ctx, of, DepositTaken, "tok", "", 0, false, 6); !errors.Is(err, db.ErrInvalid) {
				t.Error(err)
			}
			if _, err := b.DecideHeld(ctx, of, DepositCredited, "tok", "a\x00", 0, false, 6); !errors.Is(err, db.ErrInvalid) {
				t.Error(err)
			}
		})
	}
}

// TestDecideHeldIsBounded: one call decides 5,000, and says that there are more.
func TestDecideHeldIsBounded(t *testing.T) {
	b := New(openAt(t, dialects[0].url(t)), Config{})
	holdDeposits(t, b, decideMost+1)
	if done, err := b.DecideHeld(ctx, DepositFilter{}, DepositRejected, "tok", "", 0, true, 5); done.Count != decideMost+1 || done.More || err != nil {
		t.Fatal(done, err)
	}
	if done, err := b.DecideHeld(ctx, DepositFilter{}, DepositRejected, "tok", "", 0, false, 5); done.Count != decideMost || !done.More || err != nil {
		t.Fatal(done, err)
	}
	if done, err := b.DecideHeld(ctx, DepositFilter{}, DepositRejected, "tok", "", 0, false, 5); done.Count != 1 || done.More || err != nil {
		t.Fatal(done, err)
	}
}
