package book

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/merchant"
)

// inboxDeposit is a deposit on its way into the inbox.
func inboxDeposit(trackingID, tx string, index int64) merchant.Entry {
	amount, _ := countersign.ParseAmount("1.50")
	c := &countersign.Deposit{Head: countersign.Head{TrackingID: trackingID, TenantUserID: "7"}, TxID: tx, ChainName: "TRON", Symbol: "USDT", Amount: amount,
		ToAddress: "T", TxIndex: index, RiskLevelFrom: 1, RiskLevelTo: countersign.RiskUnknown}
	return merchant.Entry{Callback: c, ID: trackingID, Content: sha256.Sum256([]byte(tx)), Transfer: sha256.Sum256([]byte(tx)), TxIndex: index, At: time.UnixMilli(1000)}
}

// TestInboxPoison: an entry that the database refuses fails alone.
func TestInboxPoison(t *testing.T) {
	s := openAt(t, endtest.Postgres(End())(t))
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
	eachBook(t, func(t *testing.T, end *Book) {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		dbtest.Fails(end.Claim(gone, inboxDeposit("d", "tx", 0)))(t, context.Canceled, "")
		dbtest.Fails(end.Claim(ctx, merchant.Entry{ID: "x"}))(t, db.ErrInvalid, "")
		dbtest.Fails(end.Claim(ctx, merchant.Entry{Callback: &countersign.Deposit{}, ID: "a\x00"}))(t, db.ErrInvalid, "")
		ok(t, end.Close())
		dbtest.Fails(end.Claim(ctx, inboxDeposit("d", "tx", 0)))(t, db.ErrClosed, "")
	})
}

// TestKeptPlans: PostgreSQL finds what a batch of claims looks up, value by value, and the parts of a window by indexes,
// also with plans that were made while the tables were empty.
func TestKeptPlans(t *testing.T) {
	s := openAt(t, endtest.Postgres(End())(t))
	for _, look := range []struct {
		types, text, arguments string
		wants                  []string
	}{
		{`(text[], bigint)`, readInboxSQL, `(ARRAY['a', 'b'], 1)`, []string{"Index Cond: ((id = w.value) AND (type = $2))"}},
		{`(text[])`, readTransfersSQL, `(ARRAY['a', 'b'])`, []string{"Index Cond: (transfer = w.value)"}},
		{`(text, bigint, bigint, text, bigint, bigint)`, spentSQL, `('USDT', 1, 2, '', 3, 4)`, []string{
			"Index Cond: ((folded_symbol = $1) AND (confirmed >= $2) AND (confirmed < $3))",
			"Index Cond: ((symbol = $1) AND (tenant_user_id = $4) AND (span = 60000) AND (start >= $3) AND (start < $5))",
			"Index Cond: ((symbol = $1) AND (tenant_user_id = $4) AND (span = 86400000) AND (start >= $6))"}},
	} {
		got := endtest.PlanKept(t, s, look.types, look.text, look.arguments)
		for _, want := range look.wants {
			if !strings.Contains(got, want) {
				t.Errorf("want %s in\n%s", want, got)
			}
		}
	}
}

// TestInbox holds the inbox to the rules of merchant.Inbox, with two processes
// where the database allows for two.
func TestInbox(t *testing.T) {
	for name, url := range endtest.Kinds(End()) {
		t.Run(name, func(t *testing.T) {
			countersigntest.CheckInbox(t, func() (one, other merchant.Inbox) {
				ends := pairAt(t, url(t))
				return ordered{ends[0]}, ordered{ends[1]}
			})
		})
	}
}

// ordered is a book in which every withdrawal that is asked about was ordered and confirmed:
// without that its book confirms nothing.
type ordered struct{ *Book }

func (b ordered) Claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	if e.Callback.CallbackType() == countersign.TypeRequestWithdraw {
		o := Order{Order: client.Order{CallBackID: e.ID, TenantUserID: e.Callback.User(), State: client.OrderConfirmed}}
		err := b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			_, err := insertOrder(ctx, t, o)
			return err
		})
		if err != nil {
			return merchant.Claimed{}, err
		}
	}
	return b.Book.Claim(ctx, e)
}
