package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

func nothingMore(context.Context, *db.Tx) error { return nil }

func deleteM0(s *Outbox, now db.Millis) (Merchant, error) {
	m, err := s.Merchant(ctx, "m0")
	if err != nil {
		return m, err
	}
	return s.DeleteMerchant(ctx, "m0", m.Version, now, nothingMore)
}

// testDelete: a merchant is deleted when no work is left and not before; then its secrets are
// gone, nothing is done for it, and what happened is read as ever.
func testDelete(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	left := func(says string) {
		t.Helper()
		var conflict *db.ConflictError
		if _, err := deleteM0(s, 5000); !errors.As(err, &conflict) || !strings.Contains(conflict.Reason, says) {
			t.Errorf("%v, want %q", err, says)
		}
		if m := must(s.Merchant(ctx, "m0"))(t); m.State != MerchantActive || m.Key == nil || m.APIKey == "" {
			t.Errorf("a refused deletion left %+v", m)
		}
	}
	told := must(s.Ingest(ctx, []NewCallback{deposit("m0", "told", 1)}, 1))(t)[0]
	left("callbacks that wait in the lane notify (the first is " + told.ID + ")")
	one := claim(t, s, countersign.LaneNotify, 1000, 10)
	left("callbacks that are being sent (1)")
	settleAll(t, s, one, 1001)
	refused := ended(t, s, "refused", CallbackRefused, 1100)

	w, asked := asked(t, s, "cb", 500_000, 1200)
	left("callbacks that are being sent (1); withdrawals that are awaiting (the first is " + w.ID + ")")
	details := someDetails(t, "2.5")
	must(s.Settle(ctx, []Settlement{answer(asked, countersign.DecisionConfirmed, details)}, 1201))(t)
	left("withdrawals that are confirmed (the first is " + w.ID + ")")
	must(s.Release(ctx, w.ID, Holder{Claim: "holder", Origin: "core"}, "permit", 1300))(t)
	left("withdrawals that are released (the first is " + w.ID + ")")
	must(s.Restored(ctx, 0, 1400))(t)
	left("is not reconciled")
	must(s.Reconcile(ctx, 1500))(t)
	_, _, err := s.RecordOutcome(ctx, w.ID, Outcome{Permit: "permit", TxID: "tx1", Callback: NewCallback{Merchant: "m0", Type: countersign.TypeWithdraw,
		TrackingID: "track", TxID: "tx1", Payload: []byte("done"), Due: 1600, Deadline: db.Never}}, 1600)
	if err != nil {
		t.Fatal(err)
	}
	left("callbacks that wait")
	settleAll(t, s, claim(t, s, countersign.LaneNotify, 1700, 10), 1701)

	// What fails at the end undoes all of it.
	failed := errors.New("failed at the end")
	m := must(s.Merchant(ctx, "m0"))(t)
	if _, err := s.DeleteMerchant(ctx, "m0", m.Version, 2000, func(context.Context, *db.Tx) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if _, err := s.DeleteMerchant(ctx, "m0", m.Version+1, 2000, nothingMore); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
	if got := must(s.Merchant(ctx, "m0"))(t); got.State != MerchantActive || got.Version != m.Version || got.Key == nil {
		t.Errorf("what failed left %+v", got)
	}
	is := must(deleteM0(s, 3000))(t)
	for _, got := range []Merchant{is, must(s.Merchant(ctx, "m0"))(t)} {
		if got.State != MerchantDeleted || got.Version != m.Version+1 || got.Key != nil || got.APIKey != "" || got.CallbackAPIKey != "" || got.ResponseKey != nil ||
			got.Fingerprint != m.Fingerprint || got.Since != (KeySince{}) || got.Updated != 3000 {
			t.Errorf("deleted %+v", got)
		}
	}
	url, _ := urls.Load(s)
	for _, column := range []string{"data_key", "api_key", "callback_api_key", "request_key", "response_key"} {
		if got := dbtest.Query(t, url.(string), "SELECT length("+column+") FROM merchants WHERE id = 'm0'"); !slices.Equal(got, []string{"0"}) {
			t.Errorf("%s has %v bytes", column, got)
		}
	}

	// Nothing is done for it, on another node that has used it neither.
	for _, node := range []*Outbox{s, another(t, s)} {
		gone := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, ErrMerchantDeleted) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := node.Ingest(ctx, []NewCallback{deposit("m1", fmt.Sprint("beside", node == s), 1), deposit("m0", "new", 1)}, 4000)
		gone("a deposit", err)
		var item *db.ItemError
		if !errors.As(err, &item) || item.Item != 1 || item.Member != "merchant" {
			t.Errorf("the item is %+v", item)
		}
		_, _, err = node.CreateWithdrawal(ctx, newWithdrawal("new", 500_000, nil), 4000)
		gone("a withdrawal", err)
		_, err = node.Resend(ctx, refused.ID, 4000)
		gone("sending again", err)
		_, err = node.Repeat(ctx, []string{told.ID}, 4000)
		gone("repeating", err)
		_, err = node.SetMerchantState(ctx, "m0", MerchantActive, "", 4000)
		gone("resuming", err)
		_, err = node.UpdateMerchant(ctx, "m0", 4000, func(m *Merchant) error { m.Name = "x"; return nil })
		gone("changing", err)
		_, err = deleteM0(node, 4000)
		gone("deleting again", err)
		for _, dry := range []bool{true, false} {
			if n := must(node.ResendMatching(ctx, CallbackFilter{State: CallbackRefused}, dry, 4000))(t); n != 0 {
				t.Errorf("%d were sent again", n)
			}
		}
		var conflict *db.ConflictError
		if _, err := node.CreateMerchant(ctx, newMerchant("m0"), 4000); !errors.As(err, &conflict) || conflict.Member != "id" || !strings.Contains(conflict.Reason, "deleted") {
			t.Errorf("its id again: %v", err)
		}
		if _, err := node.Release(ctx, w.ID, Holder{Claim: "holder", Origin: "core"}, "permit", 4000); !errors.Is(err, db.ErrConflict) {
			t.Errorf("its permit again: %v", err)
		}
		// A repetition of what was told is acknowledged as ever.
		again := must(node.Ingest(ctx, []NewCallback{deposit("m0", "told", 1)}, 4000))(t)
		if !again[0].Duplicate || again[0].ID != told.ID || again[0].State != CallbackAccepted {
			t.Errorf("a repetition: %+v", again)
		}
	}
	if got := claim(t, s, countersign.LaneNotify, 5000, 10); len(got) != 0 {
		t.Errorf("claimed %+v", got)
	}
	must(s.Sweep(ctx, 5000))(t)

	// The history is read as ever.
	list, _, err := s.Callbacks(ctx, CallbackFilter{Merchant: "m0"}, 10, "")
	if err != nil || len(list) != 4 {
		t.Errorf("callbacks %+v, %v", list, err)
	}
	if got := must(s.Withdrawal(ctx, w.ID))(t); got.State != WithdrawalExecuted || got.TxID != "tx1" {
		t.Errorf("withdrawal %+v", got)
	}
	if got := must(s.Attempts(ctx, told.ID))(t); len(got) != 1 {
		t.Errorf("attempts %+v", got)
	}
	for deleted, want := range map[bool]string{false: "m1", true: "m0"} {
		if got := must(s.Merchants(ctx, deleted, "", 10))(t); len(got) != 1 || got[0].ID != want {
			t.Errorf("listed %+v", got)
		}
		if got := must(s.MerchantsOf(ctx, []string{"m0", "m1"}, deleted, "", 10))(t); len(got) != 1 || got[0].ID != want {
			t.Errorf("listed of some %+v", got)
		}
	}
	if got := must(s.OldestKeys(ctx))(t); got.Key != 1 {
		t.Errorf("the oldest keys %+v", got)
	}
}

// testDeleteBeside: a deletion on one node, beside another that adds, claims and settles for
// the merchant: what was acknowledged is told, or there was no deletion.
func testDeleteBeside(t *testing.T, s *Outbox) {
	nodes := []*Outbox{s, another(t, s)}
	deleted := 0
	for round := range 30 {
		id := fmt.Sprint("m", round)
		must(s.CreateMerchant(ctx, newMerchant(id), 1))(t)
		var mu sync.Mutex
		var kept []string
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				<-begin
				for k := range 3 {
					got, err := nodes[i%2].Ingest(ctx, []NewCallback{deposit(id, fmt.Sprint(i, "-", k), 1)}, 100)
					switch {
					case err == nil:
						mu.Lock()
						kept = append(kept, got[0].ID)
						mu.Unlock()
					case !errors.Is(err, ErrMerchantDeleted):
						t.Error(err)
					}
					claimed, err := nodes[i%2].Claim(ctx, ClaimRequest{Node: "n", Now: 200, LeaseUntil: 90_000, Max: 10})
					if err != nil {
						t.Error(err)
					}
					var list []Settlement
					for _, c := range claimed {
						list = append(list, settlementOf(c))
					}
					if _, err := nodes[(i+1)%2].Settle(ctx, list, 300); err != nil {
						t.Error(err)
					}
				}
			})
		}
		close(begin)
		gone := false
		for !gone {
			_, err := nodes[round%2].DeleteMerchant(ctx, id, 1, 400, nothingMore)
			gone = err == nil
			if err != nil && !errors.Is(err, db.ErrConflict) {
				t.Fatal(err)
			}
			if !gone { // let the work go on that is in the way
				settleAll(t, s, claim(t, s, countersign.LaneNotify, 500, 10), 600)
			}
		}
		wg.Wait()
		deleted += len(kept)
		for _, callback := range kept {
			if c := must(s.Callback(ctx, callback))(t); c.State != CallbackAccepted {
				t.Errorf("round %d: %s was acknowledged and is %s of a deleted merchant", round, callback, c.State)
			}
		}
		if n := len(must(s.Waiting(ctx, id))(t)); n != 0 {
			t.Errorf("round %d: %d lanes have work", round, n)
		}
	}
	t.Logf("%d deposits were taken before the deletions", deleted)
}

// testFind: callbacks and withdrawals by user, address and transaction, exactly.
func testFind(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	const hostile = "u%_'\"\\–\u202e🦊"
	add := func(merchant, event, user, address string) string {
		d := deposit(merchant, event, 1)
		d.TenantUserID, d.Address = user, address
		return must(s.Ingest(ctx, []NewCallback{d}, 1))(t)[0].ID
	}
	a, b, c, d := add("m0", "a", "u1", "T1"), add("m1", "b", "u1", "T2"), add("m0", "c", hostile, "T1"), add("m0", "d", "nul\x00\xff", "T3")
	old := must(s.Ingest(ctx, []NewCallback{deposit("m0", "old", 1)}, 1))(t)[0].ID
	for i, x := range []struct {
		f    CallbackFilter
		want []string
	}{
		{CallbackFilter{TenantUserID: "u1"}, []string{b, a}},
		{CallbackFilter{TenantUserID: "u1", Merchant: "m1"}, []string{b}},
		{CallbackFilter{TenantUserID: "u1", Of: []string{"m0"}}, []string{a}},
		{CallbackFilter{Address: "T1"}, []string{c, a}},
		{CallbackFilter{Address: "T1", TenantUserID: "u1"}, []string{a}},
		{CallbackFilter{Address: "T1", TenantUserID: "u1", State: CallbackAccepted}, nil},
		{CallbackFilter{Address: "T1", TxID: "tx-c"}, []string{c}},
		{CallbackFilter{TrackingID: "a", TenantUserID: "u1"}, []string{a}},
		{CallbackFilter{TrackingID: "a", TenantUserID: "u2"}, nil},
		{CallbackFilter{TenantUserID: hostile}, []string{c}},
		{CallbackFilter{TenantUserID: "u%"}, nil},
		{CallbackFilter{TenantUserID: "U1"}, nil},
		{CallbackFilter{TenantUserID: strings.Repeat("u", 100_000)}, nil},
		{CallbackFilter{TenantUserID: "nul\ufffd\ufffd"}, []string{d}},
		{CallbackFilter{Address: "T9"}, nil},
	} {
		list, _, err := s.Callbacks(ctx, x.f, 10, "")
		var got []string
		for _, c := range list {
			got = append(got, c.ID)
		}
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%d: %+v finds %v, %v, want %v (old is %s)", i, x.f, got, err, x.want, old)
		}
	}
	if _, _, err := s.Callbacks(ctx, CallbackFilter{Address: "a\x00"}, 10, ""); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("U+0000: %v", err)
	}

	ordered := addWithdrawal(t, s, newWithdrawal("ordered", 500_000, someDetails(t, "1")), 100)
	confirmed, _ := confirmedWithdrawal(t, s, "confirmed", 200) // was not ordered with details
	other := newWithdrawal("other", 500_000, nil)
	other.Merchant, other.TenantUserID = "m1", hostile
	third := addWithdrawal(t, s, other, 300)
	must(s.Release(ctx, confirmed.ID, Holder{Claim: "h", Origin: "core"}, "p", 300))(t)
	if _, _, err := s.RecordOutcome(ctx, confirmed.ID, Outcome{Permit: "p", TxID: "tx-done", Callback: NewCallback{Merchant: "m0", Type: countersign.TypeWithdraw,
		TrackingID: "track", TxID: "tx-done", Payload: []byte("done"), Due: 1600, Deadline: db.Never}}, 400); err != nil {
		t.Fatal(err)
	}
	user := ordered.TenantUserID
	for i, x := range []struct {
		f    WithdrawalFilter
		want []string
	}{
		{WithdrawalFilter{TenantUserID: user}, []string{confirmed.ID, ordered.ID}},
		{WithdrawalFilter{TenantUserID: user, State: WithdrawalExecuted}, []string{confirmed.ID}},
		{WithdrawalFilter{TenantUserID: user, Of: []string{"m1"}}, nil},
		{WithdrawalFilter{TenantUserID: hostile, Of: []string{"m0", "m1"}}, []string{third.ID}},
		{WithdrawalFilter{Address: "TAddress"}, []string{confirmed.ID, ordered.ID}},
		{WithdrawalFilter{Address: "TAddress", State: WithdrawalAwaiting, TenantUserID: user}, []string{ordered.ID}},
		{WithdrawalFilter{TxID: "tx-done"}, []string{confirmed.ID}},
		{WithdrawalFilter{TxID: "tx-done", TenantUserID: hostile}, nil},
		{WithdrawalFilter{Address: "taddress"}, nil},
		{WithdrawalFilter{TenantUserID: user, Span: Span{Until: 150}}, []string{ordered.ID}},
	} {
		if x.f.Of == nil {
			x.f.Of = []string{""}
		}
		list, _, err := s.WithdrawalsWhere(ctx, x.f, 10, "")
		var got []string
		for _, w := range list {
			got = append(got, w.ID)
		}
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%d: %+v finds %v, %v, want %v", i, x.f, got, err, x.want)
		}
	}
	if _, _, err := s.WithdrawalsWhere(ctx, WithdrawalFilter{Of: []string{""}, TxID: "\xff"}, 10, ""); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("not UTF-8: %v", err)
	}
	// The callbacks of a withdrawal are found by its user and address too.
	list, _, err := s.Callbacks(ctx, CallbackFilter{Address: "TAddress", Type: countersign.TypeWithdraw}, 10, "")
	if err != nil || len(list) != 1 || list[0].TxID != "tx-done" {
		t.Errorf("%+v, %v", list, err)
	}
}
