package outbox

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

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
		f    client.CallbackFilter
		want []string
		of   []string
	}{
		{client.CallbackFilter{TenantUserID: "u1"}, []string{b, a}, nil},
		{client.CallbackFilter{TenantUserID: "u1", Merchant: "m1"}, []string{b}, nil},
		{client.CallbackFilter{TenantUserID: "u1"}, []string{a}, []string{"m0"}},
		{client.CallbackFilter{Address: "T1"}, []string{c, a}, nil},
		{client.CallbackFilter{Address: "T1", TenantUserID: "u1"}, []string{a}, nil},
		{client.CallbackFilter{Address: "T1", TenantUserID: "u1", State: client.CallbackAccepted}, nil, nil},
		{client.CallbackFilter{Address: "T1", TxID: "tx-c"}, []string{c}, nil},
		{client.CallbackFilter{TrackingID: "a", TenantUserID: "u1"}, []string{a}, nil},
		{client.CallbackFilter{TrackingID: "a", TenantUserID: "u2"}, nil, nil},
		{client.CallbackFilter{TenantUserID: hostile}, []string{c}, nil},
		{client.CallbackFilter{TenantUserID: "u%"}, nil, nil},
		{client.CallbackFilter{TenantUserID: "U1"}, nil, nil},
		{client.CallbackFilter{TenantUserID: strings.Repeat("u", 100_000)}, nil, nil},
		{client.CallbackFilter{TenantUserID: "nul\ufffd\ufffd"}, []string{d}, nil},
		{client.CallbackFilter{Address: "T9"}, nil, nil},
	} {
		list, _, err := s.Callbacks(ctx, x.of, x.f, 10, "")
		var got []string
		for _, c := range list {
			got = append(got, c.ID)
		}
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%d: %+v finds %v, %v, want %v (old is %s)", i, x.f, got, err, x.want, old)
		}
	}
	if _, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{Address: "a\x00"}, 10, ""); !errors.Is(err, db.ErrInvalid) {
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
		f    client.WithdrawalFilter
		want []string
		of   []string
	}{
		{client.WithdrawalFilter{TenantUserID: user}, []string{confirmed.ID, ordered.ID}, nil},
		{client.WithdrawalFilter{TenantUserID: user, State: client.WithdrawalExecuted}, []string{confirmed.ID}, nil},
		{client.WithdrawalFilter{TenantUserID: user}, nil, []string{"m1"}},
		{client.WithdrawalFilter{TenantUserID: hostile}, []string{third.ID}, []string{"m0", "m1"}},
		{client.WithdrawalFilter{Address: "TAddress"}, []string{confirmed.ID, ordered.ID}, nil},
		{client.WithdrawalFilter{Address: "TAddress", State: client.WithdrawalAwaiting, TenantUserID: user}, []string{ordered.ID}, nil},
		{client.WithdrawalFilter{TxID: "tx-done"}, []string{confirmed.ID}, nil},
		{client.WithdrawalFilter{TxID: "tx-done", TenantUserID: hostile}, nil, nil},
		{client.WithdrawalFilter{Address: "taddress"}, nil, nil},
		{client.WithdrawalFilter{TenantUserID: user, Until: 150}, []string{ordered.ID}, nil},
		{client.WithdrawalFilter{TenantUserID: user, Since: 150}, []string{confirmed.ID}, nil},
		{client.WithdrawalFilter{}, []string{third.ID, confirmed.ID, ordered.ID}, nil},
		{client.WithdrawalFilter{Merchant: "m0"}, []string{confirmed.ID, ordered.ID}, nil},
		{client.WithdrawalFilter{State: client.WithdrawalAwaiting}, []string{third.ID, ordered.ID}, nil},
		{client.WithdrawalFilter{Merchant: "m0", State: client.WithdrawalAwaiting}, []string{ordered.ID}, nil},
		{client.WithdrawalFilter{CallBackID: "confirmed"}, []string{confirmed.ID}, nil},
		{client.WithdrawalFilter{CallBackID: "other", Merchant: "m0"}, nil, nil},
	} {
		var got []string
		var err error
		for cursor, pages := "", 0; pages < 4; pages++ { // one on a page, or none where other merchants' are left out
			var list []Withdrawal
			list, cursor, err = s.Withdrawals(ctx, x.of, x.f, 1, cursor)
			for _, w := range list {
				got = append(got, w.ID)
			}
			if cursor == "" {
				break
			}
		}
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%d: %+v finds %v, %v, want %v", i, x.f, got, err, x.want)
		}
	}
	for f, cursor := range map[client.WithdrawalFilter]string{{TxID: "\xff"}: "", {}: "nonsense"} {
		if _, _, err := s.Withdrawals(ctx, nil, f, 10, cursor); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%+v from %q: %v", f, cursor, err)
		}
	}
	if counts := must(s.Stats(ctx))(t).Withdrawals; counts[client.WithdrawalAwaiting] != 2 || counts[client.WithdrawalExecuted] != 1 || len(counts) != 2 {
		t.Errorf("counts %v", counts)
	}
	// The callbacks of a withdrawal are found by its user and address too.
	list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{Address: "TAddress", Type: countersign.TypeWithdraw}, 10, "")
	if err != nil || len(list) != 1 || list[0].TxID != "tx-done" {
		t.Errorf("%+v, %v", list, err)
	}
}
