package sqlinbox_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"testing"

	"countersign"
	"countersign/countersigntest"
	"countersign/merchant"
	"countersign/merchant/sqlinbox"
)

// TestReview: possible duplicates that were kept are listed until a person decides, a credit
// happens once and with its decision, and the decision stands.
func TestReview(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		broken := errors.New("the ledger is closed")
		fail := true
		var first string
		in := s.inbox(t, db, func(c *sqlinbox.Config) {
			c.OnDeposit = func(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
				if err := s.credit(ctx, tx, d); err != nil {
					return err
				}
				if d.TrackingID != first && fail {
					return broken
				}
				return nil
			}
		})
		service, to := serve(t, in, nil)
		var ids []string
		for n := range 4 {
			d := countersigntest.Deposit(n)
			if n > 0 { // the same transfer
				whole := countersigntest.Deposit(0)
				whole.TrackingID = d.TrackingID
				d = whole
			} else {
				first = d.TrackingID
			}
			ids = append(ids, d.TrackingID)
			deliver(t, service, to, d, 0)
			deliver(t, service, to, d, 0)
		}
		held := func(want ...string) {
			t.Helper()
			var got []string
			for after := int64(0); ; {
				list, err := in.Held(ctx, after, 2)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range list {
					if !d.PossibleDuplicate || d.Amount.String() == "" || d.TenantUserID == "" {
						t.Errorf("listed as %+v", d)
					}
					got = append(got, d.TrackingID)
					after = d.Seq
				}
				if len(list) == 0 {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("held are %q, want %q", got, want)
			}
		}
		held(ids[1:]...)
		for _, id := range []string{first, "unknown"} {
			if err := in.Credit(ctx, id, "me"); !errors.Is(err, sqlinbox.ErrNotHeld) {
				t.Errorf("crediting %s gives %v", id, err)
			}
		}
		if err := in.Credit(ctx, ids[1], "me"); !errors.Is(err, broken) {
			t.Errorf("crediting with a ledger that fails gives %v", err)
		}
		held(ids[1:]...)
		if n := count(t, db, `SELECT COUNT(*) FROM credits`); n != 1 {
			t.Errorf("%d credits before a decision, want 1", n)
		}

		fail = false
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := in.Credit(ctx, ids[1], "me: seen on the chain"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := in.Reject(ctx, ids[2], "you: the same transfer"); err != nil {
			t.Error(err)
		}
		if err := in.Reject(ctx, ids[1], "you"); !errors.Is(err, sqlinbox.ErrDecided) {
			t.Errorf("rejecting what was credited gives %v", err)
		}
		if err := in.Credit(ctx, ids[2], "me"); !errors.Is(err, sqlinbox.ErrDecided) {
			t.Errorf("crediting what was rejected gives %v", err)
		}
		held(ids[3])
		d := countersigntest.Deposit(0)
		d.TrackingID = ids[1]
		deliver(t, service, to, d, 0)
		if n := count(t, db, `SELECT COUNT(*) FROM credits`); n != 2 {
			t.Errorf("%d credits, want 2", n)
		}
		if n := count(t, db, `SELECT COUNT(*) FROM countersign_inbox WHERE review IN (2, 3) AND reviewed > 0`); n != 2 {
			t.Errorf("%d decisions are noted, want 2", n)
		}
	})
}

// TestReplaced: a question that came before its order, about another user, and a deposit whose
// check said no bind nothing: corrected, they are taken, and what a person is shown is corrected too.
func TestReplaced(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		known := false
		verdict, err := merchant.VerdictNotYet, error(nil)
		in := s.inbox(t, db, func(c *sqlinbox.Config) {
			c.OnWithdrawal = func(_ context.Context, _ *sql.Tx, w countersign.WithdrawalRequest) (merchant.Answer, error) {
				if !known {
					return merchant.Hold(countersign.CodeNotKnownYet, ""), nil
				}
				return merchant.Confirm("60001", countersigntest.Order(1)), nil
			}
		})
		service, to := serve(t, in, func(c *merchant.Config) {
			c.Verify = func(context.Context, countersign.Deposit) (merchant.Verdict, error) { return verdict, err }
		})
		question := countersigntest.Withdrawal(1)
		question.TenantUserID = "another"
		deliver(t, service, to, question, countersign.CodeNotKnownYet)
		known = true
		deliver(t, service, to, countersigntest.Withdrawal(1), 0)
		deliver(t, service, to, question, countersign.CodeDetailsDiffer)

		verdict = merchant.VerdictNo
		wrong, right := countersigntest.Deposit(1), countersigntest.Deposit(1)
		wrong.Amount = countersigntest.Deposit(2).Amount
		deliver(t, service, to, wrong, countersign.CodeRefusedPolicy)
		verdict = merchant.VerdictYes
		deliver(t, service, to, right, 0)
		deliver(t, service, to, wrong, countersign.CodeDetailsDiffer)
		var kept string
		if err := db.QueryRow(`SELECT amount FROM credits`).Scan(&kept); err != nil || kept != right.Amount.String() {
			t.Errorf("credited are %s (%v), want %s", kept, err, right.Amount)
		}

		// The same content with another index, which makes it a copy.
		verdict = merchant.VerdictNo
		first, second := countersigntest.Deposit(1), countersigntest.Deposit(1)
		second.TrackingID, second.TxIndex, second.Amount = "second", 5, countersigntest.Deposit(3).Amount
		deliver(t, service, to, second, countersign.CodeRefusedPolicy)
		second.TxIndex = first.TxIndex
		deliver(t, service, to, second, 0)
		list, err := in.Held(ctx, 0, 10)
		if err != nil || len(list) != 1 || list[0].TxIndex != first.TxIndex {
			t.Errorf("held are %+v (%v), want one with txIndex %d", list, err, first.TxIndex)
		}
	})
}
