package outbox

import (
	"errors"
	"fmt"
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
	return must(s.Withdrawal(ctx, w.ID))(t), countersign.Details(*details)
}

func testOutcome(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	executed, _ := confirmedWithdrawal(t, s, "ok", 1000)
	failed, _ := confirmedWithdrawal(t, s, "bad", 1100)
	awaiting := addWithdrawal(t, s, newWithdrawal("waits", 50_000, nil), 1200)
	done := func(permit string) Outcome {
		return Outcome{Permit: permit, TxID: "tx1", Callback: NewCallback{Merchant: "m0", Type: countersign.TypeWithdraw,
			EventID: "whatever", TrackingID: "track-ok", TxID: "tx1", Payload: []byte("done"), Due: 3000, Deadline: db.Never}}
	}
	ended := func(permit string) Outcome {
		return Outcome{Permit: permit, FailReason: "no funds", Callback: NewCallback{Merchant: "m0", Type: countersign.TypeInvalidAddress,
			TrackingID: "track-bad", Payload: []byte("ended"), Due: 3000, Deadline: db.Never}}
	}
	record := func(name, id string, o Outcome, is error) {
		t.Helper()
		if _, _, err := s.RecordOutcome(ctx, id, o, 3000); !errors.Is(err, is) {
			t.Errorf("%s: %v, want %v", name, err, is)
		}
	}
	record("before the release", executed.ID, done("p1"), db.ErrConflict)
	record("while awaiting", awaiting.ID, done("p1"), db.ErrConflict)
	must(s.Release(ctx, executed.ID, Holder{Claim: "c1", Origin: "core"}, "p1", 2000))(t)
	must(s.Release(ctx, failed.ID, Holder{Claim: "c1", Origin: "core"}, "p2", 2000))(t)
	record("another permit", executed.ID, done("p2"), db.ErrConflict)
	record("no permit", executed.ID, done(""), db.ErrConflict)
	record("nothing", "m0."+strings.Repeat("0", 26), done("p1"), db.ErrNotFound)
	both, neither, wrongType, wrongMerchant := done("p1"), done("p1"), done("p1"), done("p1")
	both.FailReason, neither.TxID, wrongType.Callback.Type, wrongMerchant.Callback.Merchant = "x", "", countersign.TypeInvalidAddress, "m1"
	for name, o := range map[string]Outcome{"both": both, "neither": neither, "wrong type": wrongType, "wrong merchant": wrongMerchant} {
		record(name, executed.ID, o, db.ErrInvalid)
	}
	if list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{Type: countersign.TypeWithdraw}, 10, ""); err != nil || len(list) != 0 {
		t.Fatalf("queued %+v, %v", list, err)
	}

	for _, c := range []struct {
		name    string
		w       Withdrawal
		outcome Outcome
		state   client.WithdrawalState
		other   Outcome
	}{
		{"executed", executed, done("p1"), client.WithdrawalExecuted, ended("p1")},
		{"failed", failed, ended("p2"), client.WithdrawalFailed, done("p2")},
	} {
		w, duplicate, err := s.RecordOutcome(ctx, c.w.ID, c.outcome, 3000)
		if err != nil || duplicate || w.State != c.state || w.TxID != c.outcome.TxID || w.FailReason != c.outcome.FailReason || w.Ended != 3000 || w.Released != 2000 {
			t.Errorf("%s: %+v, %v, %v", c.name, w, duplicate, err)
		}
		again, duplicate, err := s.RecordOutcome(ctx, c.w.ID, c.outcome, 4000)
		if err != nil || !duplicate || !reflect.DeepEqual(again, w) {
			t.Errorf("%s again: %+v, %v, %v", c.name, again, duplicate, err)
		}
		record(c.name+", then otherwise", c.w.ID, c.other, db.ErrConflict)
		queued, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{CallBackID: c.w.CallBackID, Type: c.outcome.Callback.Type}, 10, "")
		if err != nil || len(queued) != 1 || queued[0].State != client.CallbackPending || queued[0].TrackingID != "track-"+c.w.CallBackID {
			t.Errorf("%s: queued %+v, %v", c.name, queued, err)
		}
	}
	if p := must(s.Release(ctx, executed.ID, Holder{Claim: "c1", Origin: "core"}, "other", 5000))(t); p.Permit != "p1" || p.Withdrawal.State != client.WithdrawalExecuted {
		t.Errorf("the same claim after the outcome gets %+v", p)
	}
	if _, err := s.Release(ctx, executed.ID, Holder{Claim: "c2", Origin: "core"}, "other", 5000); !errors.Is(err, db.ErrConflict) {
		t.Errorf("another claim after the outcome gets %v", err)
	}
	// Two ends, and the transaction that was reported of the one that had failed.
	if got := claim(t, s, countersign.LaneNotify, 3000, 10); len(got) != 3 {
		t.Errorf("claimed %d", len(got))
	}
	if _, err := s.Release(ctx, awaiting.ID, Holder{Claim: "c", Origin: "core"}, "p", 1); !errors.Is(err, db.ErrConflict) {
		t.Errorf("releasing one that is awaiting gives %v", err)
	}
	if _, err := s.Release(ctx, "m0."+strings.Repeat("0", 26), Holder{Claim: "c", Origin: "core"}, "p", 1); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("releasing nothing gives %v", err)
	}
	for _, empty := range [][2]string{{"", "p"}, {"c", ""}, {"c\x00", "p"}} {
		if _, err := s.Release(ctx, executed.ID, Holder{Claim: empty[0], Origin: "core"}, empty[1], 1); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("claim %q, permit %q give %v", empty[0], empty[1], err)
		}
	}
}

// testContradicted: under the right permit another outcome than the one that stands is
// refused, kept and raises an alarm. The merchant is told of every transaction, once, and
// not that nothing moved after one.
func testContradicted(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	outcome := func(permit, txID string) Outcome {
		o := Outcome{Permit: permit, TxID: txID, Callback: NewCallback{Merchant: "m0", Type: countersign.TypeWithdraw, TrackingID: "track",
			TxID: txID, Payload: []byte("executed by " + txID), Due: 3000, Deadline: db.Never}}
		if txID == "" {
			o.FailReason, o.Callback.Type, o.Callback.Payload = "no funds", countersign.TypeInvalidAddress, []byte("ended")
		}
		return o
	}
	for i, c := range []struct {
		first, second string // transactions; empty: it failed
		told          []string
	}{
		{"", "tx1", []string{"", "tx1"}},
		{"tx2", "", []string{"tx2"}},
		{"tx3", "tx4", []string{"tx3", "tx4"}},
	} {
		id, at := fmt.Sprint("cb", i), db.Millis(1000+100*i)
		w, _ := confirmedWithdrawal(t, s, id, at)
		must(s.Release(ctx, w.ID, Holder{"claim", "core"}, "permit", at+2))(t)
		if _, _, err := s.RecordOutcome(ctx, w.ID, outcome("permit", c.first), 3000); err != nil {
			t.Fatal(err)
		}
		stands := must(s.Withdrawal(ctx, w.ID))(t)
		alarms := func() (n int) {
			for _, a := range must(endtest.Alarms(ctx, s))(t) {
				if a.Kind == client.AlarmWalletDiffers && a.Merchant == "m0" && a.Subject == w.ID+outcomeDiffers {
					n++
				}
			}
			return n
		}
		if _, _, err := s.RecordOutcome(ctx, w.ID, outcome("guessed", c.second), 3001); !errors.Is(err, db.ErrConflict) || alarms() != 0 {
			t.Errorf("%q after %q under another permit: %v and %d alarms", c.second, c.first, err, alarms())
		}
		for range 3 {
			if _, _, err := s.RecordOutcome(ctx, w.ID, outcome("permit", c.second), 3002); !errors.Is(err, db.ErrConflict) {
				t.Errorf("%q after %q: %v", c.second, c.first, err)
			}
		}
		if now := must(s.Withdrawal(ctx, w.ID))(t); !reflect.DeepEqual(now, stands) {
			t.Errorf("%q after %q: it is now %+v", c.second, c.first, now)
		}
		if n := alarms(); n != 1 {
			t.Errorf("%q after %q: %d alarms", c.second, c.first, n)
		}
		told := map[string]int{}
		list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{CallBackID: id}, 10, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.Type != countersign.TypeRequestWithdraw {
				told[c.TxID]++
			}
		}
		want := map[string]int{}
		for _, tx := range c.told {
			want[tx] = 1
		}
		if !reflect.DeepEqual(told, want) {
			t.Errorf("%q after %q: the merchant is told %v", c.second, c.first, told)
		}
		var kept []string
		err = db.Each(ctx, s, `SELECT r.body FROM audit_records r JOIN audit_subjects s ON s.seq = r.seq WHERE s.subject = $1 ORDER BY r.seq`, []any{w.ID}, func(r db.Rows) error {
			var body []byte
			err := r.Scan(&body)
			if strings.Contains(string(body), journal.WithdrawalContradicted) {
				kept = append(kept, string(body))
			}
			return err
		})
		if err != nil || len(kept) != 3 || !strings.Contains(kept[0], fmt.Sprintf(`"stands":{"state":%q`, stands.State)) || !strings.Contains(kept[0], c.second) {
			t.Errorf("%q after %q: recorded %q, %v", c.second, c.first, kept, err)
		}
	}
}
