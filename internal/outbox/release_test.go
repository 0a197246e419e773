package outbox

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/endtest"
)

// confirmedWithdrawal is confirmed at now+1.
func confirmedWithdrawal(t testing.TB, s *Outbox, callBackID string, now db.Millis) (Withdrawal, countersign.Details) {
	t.Helper()
	details := someDetails(t, "2.5")
	w, one := asked(t, s, callBackID, now+100_000, now)
	done := must(s.Settle(ctx, []Settlement{answer(one, countersign.DecisionConfirmed, details)}, now+1))(t)
	if done[0].Decision != countersign.DecisionConfirmed {
		t.Fatalf("settled %+v", done[0])
	}
	return must(s.Withdrawal(ctx, w.ID))(t), *details
}

// testContradicted: under the right permit another outcome than the one that stands is refused, kept and raises an
// alarm. The merchant is told of every transaction, once, and not that nothing moved after one.
func testContradicted(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	for i, c := range []struct {
		first, second string // transactions; empty: it failed
		told          map[string]int
	}{
		{"", "tx1", map[string]int{"": 1, "tx1": 1}},
		{"tx2", "", map[string]int{"tx2": 1}},
		{"tx3", "tx4", map[string]int{"tx3": 1, "tx4": 1}},
	} {
		id, at := fmt.Sprint("cb", i), db.Millis(1000+100*i)
		w, _ := confirmedWithdrawal(t, s, id, at)
		must(s.Release(ctx, w.ID, Holder{"claim", "core"}, "permit", at+2))(t)
		record := func(permit, txID string) error {
			o := executedBy(w, permit, txID, 3000)
			if txID == "" {
				o.FailReason, o.Callback.Type = "no funds", countersign.TypeInvalidAddress
			}
			_, _, err := s.RecordOutcome(ctx, w.ID, o, 3000)
			return err
		}
		ok(t, record("permit", c.first))
		stands := must(s.Withdrawal(ctx, w.ID))(t)
		for n, permit := range []string{"guessed", "permit", "permit", "permit"} {
			if err := record(permit, c.second); !errors.Is(err, db.ErrConflict) {
				t.Errorf("%q after %q under %s: %v", c.second, c.first, permit, err)
			}
			alarms := 0
			for _, a := range must(endtest.Alarms(ctx, s))(t) {
				if a.Kind == client.AlarmWalletDiffers && a.Merchant == "m0" && a.Subject == w.ID+outcomeDiffers {
					alarms++
				}
			}
			if alarms != min(n, 1) {
				t.Errorf("%q after %q under %s: %d alarms", c.second, c.first, permit, alarms)
			}
		}
		if now := must(s.Withdrawal(ctx, w.ID))(t); !reflect.DeepEqual(now, stands) {
			t.Errorf("%q after %q: it is now %+v", c.second, c.first, now)
		}
		told := map[string]int{}
		list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{CallBackID: id}, 10, "")
		for _, c := range list {
			if c.Type != countersign.TypeRequestWithdraw {
				told[c.TxID]++
			}
		}
		if err != nil || !maps.Equal(told, c.told) {
			t.Errorf("%q after %q: the merchant is told %v, %v", c.second, c.first, told, err)
		}
		kept, state := recorded(t, s, journal.WithdrawalContradicted), fmt.Sprintf(`"stands":{"state":%q`, stands.State)
		if last := kept[len(kept)-1]; len(kept) != 3*(i+1) || !strings.Contains(last, state) || !strings.Contains(last, c.second) {
			t.Errorf("%q after %q: recorded %q", c.second, c.first, kept)
		}
	}
}
