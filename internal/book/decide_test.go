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
		d := client.DepositEntry{TxID: "x", ChainName: "c", Symbol: "s", Amount: one, FromAddress: "f", ToAddress: "t", State: client.DepositHeld, Taken: 1}
		d.TrackingID, d.TenantUserID = fmt.Sprint("held-", i), fmt.Sprint("u", i%2)
		l.deposits = append(l.deposits, d)
	}
	if err := b.Write(ctx, func(ctx context.Context, t *db.Tx) error { return l.write(ctx, t) }); err != nil {
		t.Fatal(err)
	}
}

// TestDecidedOnce: of two persons who decide on the same held deposits at once, one is first with
// each, and each has one event.
func TestDecidedOnce(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			b := New(openAt(t, d.url(t)), Config{})
			const n = 40
			holdDeposits(t, b, n)
			var counts [2]int64
			var work sync.WaitGroup
			for i, to := range []client.DepositState{client.DepositCredited, client.DepositRejected} {
				work.Go(func() {
					for seq := int64(1); seq <= n; seq++ {
						got, err := b.DecideDeposit(ctx, seq, to, "tok", "r", 6)
						switch {
						case err == nil && got.State == to && got.DecidedBy == "tok" && got.Reason == "r" && got.Decided == 6:
							counts[i]++
						case !errors.Is(err, db.ErrConflict):
							t.Errorf("%+v, %v", got, err)
						}
					}
				})
			}
			work.Wait()
			if s, err := b.Stats(ctx); counts[0]+counts[1] != n || err != nil || s.DepositsHeld != 0 || s.Events != n {
				t.Errorf("%v were decided, %+v, %v", counts, s, err)
			}
			if _, err := b.DecideDeposit(ctx, 1, client.DepositTaken, "tok", "", 6); !errors.Is(err, db.ErrInvalid) {
				t.Error(err)
			}
			if _, err := b.DecideDeposit(ctx, 1, client.DepositCredited, "tok", "a\x00", 6); !errors.Is(err, db.ErrInvalid) {
				t.Error(err)
			}
		})
	}
}
