package book

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest/ready"
	"countersign/merchant"
)

// inboxDeposit is a deposit on its way into the inbox.
func inboxDeposit(trackingID, tx string, index int64) merchant.Entry {
	amount, _ := countersign.ParseAmount("1.50")
	c := &countersign.Deposit{Head: countersign.Head{TrackingID: trackingID, TenantUserID: "7"}, TxID: tx, ChainName: "TRON", Symbol: "USDT", Amount: amount,
		ToAddress: "T", TxIndex: index, RiskLevelFrom: 1, RiskLevelTo: countersign.RiskUnknown}
	return merchant.Entry{Callback: c, ID: trackingID, Content: sha256.Sum256([]byte(tx)), Transfer: sha256.Sum256([]byte(tx)), TxIndex: index, At: time.UnixMilli(1000)}
}

// TestInboxShares claims from many sides at once, the same deposits and others,
// so that transactions are shared, and reads the feed meanwhile.
func TestInboxShares(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			s := openAt(t, url)
			ends := []*Book{New(s, Config{}), New(s, Config{})}
			if d.name == "postgres" {
				ends[1] = New(openAt(t, url), Config{})
			}
			const deposits, times = 120, 4
			var work sync.WaitGroup
			var mu sync.Mutex
			taken := map[string]int{}
			seqs := map[string]int64{}
			for i := range deposits * times {
				work.Go(func() {
					id := fmt.Sprint("d", i%deposits)
					r, err := ends[i%2].Claim(ctx, inboxDeposit(id, "tx"+id, -1))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					switch r.State {
					case merchant.StateTaken:
						taken[id]++
					case merchant.StateSettled:
					default:
						t.Errorf("%s: state %d", id, r.State)
					}
					if seqs[id] != 0 && seqs[id] != r.Seq || r.Seq == 0 {
						t.Errorf("%s has the numbers %d and %d", id, seqs[id], r.Seq)
					}
					seqs[id] = r.Seq
				})
			}
			read := int64(0)
			for done := false; !done; {
				list, err := ends[0].Deposits(ctx, read, 7)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range list {
					if read++; d.Seq != read {
						t.Fatalf("after deposit %d comes %d", read-1, d.Seq)
					}
				}
				done = read == deposits
			}
			work.Wait()
			for id, n := range taken {
				if n != 1 {
					t.Errorf("%s was taken %d times", id, n)
				}
			}
			st, err := ends[1].Stats(ctx)
			if err != nil || len(taken) != deposits || st.Deposits != deposits || st.CallbacksOpen != 0 || st.DepositsHeld != 0 {
				t.Fatalf("%d taken, %+v, %v", len(taken), st, err)
			}
		})
	}
}

// TestInboxTransfersAtOnce: of one transfer under many names, claimed at once on
// two nodes, one counts.
func TestInboxTransfersAtOnce(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			s := openAt(t, url)
			ends := []*Book{New(s, Config{}), New(s, Config{})}
			if d.name == "postgres" {
				ends[1] = New(openAt(t, url), Config{})
			}
			var work sync.WaitGroup
			for i := range 40 {
				work.Go(func() {
					r, err := ends[i%2].Claim(ctx, inboxDeposit(fmt.Sprint("d", i), "tx", -1))
					if err != nil || r.State != merchant.StateTaken {
						t.Errorf("%+v, %v", r, err)
					}
				})
			}
			work.Wait()
			held, _, err := ends[0].SearchDeposits(ctx, client.DepositSearch{State: client.DepositHeld}, 100, 0)
			if err != nil || len(held) != 39 {
				t.Fatalf("%d held, %v", len(held), err)
			}
			all, err := ends[0].Deposits(ctx, 0, 100)
			if err != nil || len(all) != 40 || all[0].State != client.DepositTaken || all[0].RiskLevelTo != nil {
				t.Fatalf("%+v, %v", all[:1], err)
			}
		})
	}
}

// TestInboxPoison: an entry that the database refuses fails alone.
func TestInboxPoison(t *testing.T) {
	s := openAt(t, dialects[1].url(t))
	end := New(s, Config{})
	var work sync.WaitGroup
	for i := range 60 {
		work.Go(func() {
			e := inboxDeposit(fmt.Sprint("d", i), fmt.Sprint("tx", i), -1)
			if i%20 == 0 {
				e.Callback.(*countersign.Deposit).FromAddress = "a\x00b" // the parser lets none through
			}
			r, err := end.Claim(ctx, e)
			if (err != nil) != (i%20 == 0) || err == nil && r.State != merchant.StateTaken {
				t.Errorf("%d: %+v, %v", i, r, err)
			}
		})
	}
	work.Wait()
	if st, err := end.Stats(ctx); err != nil || st.Deposits != 57 || st.Callbacks < 57 {
		t.Fatalf("%+v, %v", st, err)
	}
}

// TestInboxGone: callers that cannot wait, and a store that was closed.
func TestInboxGone(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			s := openAt(t, d.url(t))
			end := New(s, Config{})
			gone, cancel := context.WithCancel(ctx)
			cancel()
			if _, err := end.Claim(gone, inboxDeposit("d", "tx", 0)); !errors.Is(err, context.Canceled) {
				t.Fatalf("a caller that has gone: %v", err)
			}
			if _, err := end.Claim(ctx, merchant.Entry{ID: "x"}); !errors.Is(err, db.ErrInvalid) {
				t.Fatalf("no callback: %v", err)
			}
			if _, err := end.Claim(ctx, merchant.Entry{Callback: &countersign.Deposit{}, ID: "a\x00"}); !errors.Is(err, db.ErrInvalid) {
				t.Fatalf("an id with a NUL: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := end.Claim(ctx, inboxDeposit("d", "tx", 0)); !errors.Is(err, db.ErrClosed) {
				t.Fatalf("closed: %v", err)
			}
		})
	}
}

// TestInboxPlan: the look-ups of a batch go by an index value by value, also
// with plans that were made while the tables were empty.
func TestInboxPlan(t *testing.T) {
	s := openAt(t, dialects[1].url(t))
	for _, look := range []struct{ types, text, arguments, want string }{
		{`(text[], bigint)`, readInboxSQL, `(ARRAY['a', 'b'], 1)`, "Index Cond: ((id = w.value) AND (type = $2))"},
		{`(text[])`, readTransfersSQL, `(ARRAY['a', 'b'])`, "Index Cond: (transfer = w.value)"},
	} {
		if got := ready.PlanKept(t, s, look.types, look.text, look.arguments); !strings.Contains(got, look.want) {
			t.Errorf("want %s in\n%s", look.want, got)
		}
	}
}
