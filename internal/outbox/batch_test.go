package outbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/endtest"
)

// confirmedMany confirms withdrawals of several merchants, with what exchange returns of each answer; it may be nil.
func confirmedMany(t testing.TB, s *Outbox, merchants []string, n int, prefix string, now db.Millis, exchange func(Claimed) *Exchange) (list []Withdrawal) {
	t.Helper()
	for i := range n {
		w := newWithdrawal(fmt.Sprint(prefix, i), now+1_000_000, someDetails(t, "2.5"))
		w.Merchant = merchants[i%len(merchants)]
		list = append(list, addWithdrawal(t, s, w, now))
	}
	for left := n; left > 0; {
		var answers []Settlement
		for _, c := range claim(t, s, countersign.LaneWithdraw, now, 100) {
			a := answer(c, countersign.DecisionConfirmed, someDetails(t, "2.5"))
			if exchange != nil {
				a.Exchange = exchange(c)
			}
			answers = append(answers, a)
		}
		if len(answers) == 0 {
			t.Fatal("nothing is due")
		}
		must(s.Settle(ctx, answers, now))(t)
		left -= len(answers)
	}
	return list
}

// executedBy is the outcome of w by a transaction.
func executedBy(w Withdrawal, permit, txID string, now db.Millis) Outcome {
	return Outcome{ID: w.ID, Permit: permit, TxID: txID, Callback: NewCallback{Merchant: w.Merchant, Type: countersign.TypeWithdraw, TrackingID: w.TrackingID,
		TxID: txID, Payload: []byte("executed by " + txID), Due: now, Deadline: db.Never}}
}

// recorded returns the records of a kind in the audit log.
func recorded(t *testing.T, s *Outbox, kind string) []string {
	t.Helper()
	all := must(db.List(ctx, s, `SELECT body FROM audit_records ORDER BY seq`, nil, func(r db.Rows) (body []byte, err error) {
		err = r.Scan(&body)
		return body, err
	}))(t)
	var list []string
	for _, body := range all {
		if strings.Contains(string(body), `"kind":"`+kind+`"`) {
			list = append(list, string(body))
		}
	}
	return list
}

// testReleaseMany: of several withdrawals in one call each has its own result, whatever becomes
// of the others.
func testReleaseMany(t *testing.T, s *Outbox) {
	merchants := addMerchants(t, s, 3, nil)
	list := confirmedMany(t, s, merchants, 30, "w", 1000, nil)
	waits := addWithdrawal(t, s, newWithdrawal("waits", 500_000, nil), 1000)
	held := list[7]
	must(s.Release(ctx, held.ID, Holder{"another", "core"}, "held", 1500))(t)
	must(s.Release(ctx, list[8].ID, Holder{"c", "core"}, "p8", 1500))(t) // of m2
	must(s.SetMerchantState(ctx, "m2", client.MerchantPaused, "a test", 1600))(t)
	var asked []ReleaseRequest
	for i, w := range list {
		asked = append(asked, ReleaseRequest{w.ID, Holder{"c", "core"}, fmt.Sprint("p", i)})
	}
	asked = append(asked, ReleaseRequest{waits.ID, Holder{"c", "core"}, "p"}, ReleaseRequest{"m0." + strings.Repeat("0", 26), Holder{"c", "core"}, "p"},
		ReleaseRequest{"", Holder{"c", "core"}, "p"}, ReleaseRequest{list[3].ID, Holder{"", "core"}, "p"},
		ReleaseRequest{list[3].ID, Holder{"c", "core"}, ""}, ReleaseRequest{list[3].ID, Holder{"c\x00", "core"}, "p"})
	rand.Shuffle(30, func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	want := func(i int) error {
		switch w := asked[i].ID; {
		case w == held.ID, w == waits.ID, strings.HasPrefix(w, "m2."):
			return db.ErrConflict
		case i >= len(list)+3: // no claim
			return db.ErrInvalid
		case i > len(list):
			return db.ErrNotFound
		}
		return nil
	}
	for round := range 2 {
		done := must(s.ReleaseMany(ctx, asked, nil, db.Millis(2000+round)))(t)
		for i, r := range done {
			if !errors.Is(r.Err, want(i)) {
				t.Errorf("round %d, item %d, %s: %v, want %v", round, i, asked[i].ID, r.Err, want(i))
			}
			if r.Err == nil && (r.Issued.Permit != asked[i].Permit || r.Issued.Duplicate != (round == 1) || r.Issued.Withdrawal.ID != asked[i].ID || r.Issued.Withdrawal.State != client.WithdrawalReleased) {
				t.Errorf("round %d, item %d: %+v", round, i, r.Issued)
			}
			if r.Err != nil && r.Issued != (Permit{}) {
				t.Errorf("round %d, item %d: refused with %+v", round, i, r.Issued)
			}
		}
	}
	if n := len(recorded(t, s, journal.WithdrawalReleased)); n != 21 {
		t.Errorf("%d releases are recorded, want 21", n)
	}
	if n := len(recorded(t, s, journal.WithdrawalClaimRefused)); n != 2 {
		t.Errorf("%d refused claims are recorded, want 2", n)
	}
	if got := must(s.Stats(ctx))(t).Withdrawals; got[client.WithdrawalReleased] != 21 || got[client.WithdrawalConfirmed] != 9 {
		t.Errorf("numbers %v", got)
	}
	alarms := must(endtest.Alarms(ctx, s))(t)
	if !slices.ContainsFunc(alarms, func(a client.Alarm) bool {
		return a.Kind == client.AlarmWalletDiffers && a.Subject == held.ID+foreignClaim && a.Number == 2
	}) {
		t.Errorf("alarms %+v", alarms)
	}
	ok(t, freezeAll(s))
	for holder, refused := range map[string]string{"c": "is frozen", "b": "another holder"} {
		if p, err := s.Release(ctx, list[0].ID, Holder{holder, "core"}, "p", 2500); !errors.Is(err, db.ErrConflict) || !strings.Contains(err.Error(), refused) {
			t.Errorf("%s during a freeze: %+v, %v", holder, p, err)
		}
	}
	if none := must(s.ReleaseMany(ctx, nil, nil, 3000))(t); len(none) != 0 {
		t.Errorf("of nothing: %+v", none)
	}
}

// testOutcomesMany: of several outcomes in one call each has its own result, and each merchant is
// told of what was recorded, once.
func testOutcomesMany(t *testing.T, s *Outbox) {
	merchants := addMerchants(t, s, 3, nil)
	list := confirmedMany(t, s, merchants, 12, "w", 1000, nil)
	var asked []ReleaseRequest
	for i, w := range list[:11] {
		asked = append(asked, ReleaseRequest{w.ID, Holder{"c", "core"}, fmt.Sprint("p", i)})
	}
	must(s.ReleaseMany(ctx, asked, nil, 1500))(t)
	// The event of one was taken by something else, and another ended before.
	squatter := executedBy(list[4], "", "0x", 1500).Callback
	squatter.EventID, squatter.Payload, squatter.Due = list[4].CallBackID, []byte("something else"), db.Never
	must(s.Ingest(ctx, []NewCallback{squatter}, 1500))(t)
	if _, _, err := s.RecordOutcome(ctx, list[5].ID, executedBy(list[5], "p5", "0xfirst", 1600), 1600); err != nil {
		t.Fatal(err)
	}
	var ends []Outcome
	for i, w := range list {
		ends = append(ends, executedBy(w, fmt.Sprint("p", i), fmt.Sprint("0x", i), 2000))
	}
	ends[6].Permit = "guessed"
	ends[7].TxID, ends[7].FailReason = "", "no funds"
	ends[7].Callback.Type, ends[7].Callback.TxID, ends[7].Callback.Payload = countersign.TypeInvalidAddress, "", []byte("ended")
	ends[8].Callback.Merchant = "m0" // it is of m2
	nobody, both, neither, end, bare := ends[0], ends[0], ends[0], ends[0], ends[11]
	nobody.ID, both.FailReason, neither.TxID, bare.Permit = "m0."+strings.Repeat("0", 26), "x", "", ""
	end.Callback.Type = countersign.TypeInvalidAddress
	ends = append(ends, nobody, both, neither, end, bare)
	wrong := map[int]error{5: db.ErrConflict, 6: db.ErrConflict, 8: db.ErrInvalid, 11: db.ErrConflict, 12: db.ErrNotFound,
		13: db.ErrInvalid, 14: db.ErrInvalid, 15: db.ErrInvalid, 16: db.ErrConflict}
	for round := range 2 {
		for i, r := range must(s.RecordOutcomes(ctx, ends, db.Millis(2000+round)))(t) {
			if want := wrong[i]; !errors.Is(r.Err, want) || want == nil && (r.Duplicate != (round == 1) || r.Withdrawal.ID != ends[i].ID || r.Withdrawal.TxID != ends[i].TxID || r.Withdrawal.Ended != 2000) {
				t.Errorf("round %d, item %d: %+v, want %v", round, i, r, want)
			}
		}
	}
	told := map[string]int{}
	for _, merchant := range merchants {
		queued, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{Merchant: merchant}, 100, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range queued {
			if c.Type == countersign.TypeWithdraw || c.Type == countersign.TypeInvalidAddress {
				told[c.CallBackID+" "+c.TxID]++
			}
		}
	}
	for i, w := range list {
		want := 1
		if wrong[i] != nil && i != 5 {
			want = 0
		}
		if n := told[w.CallBackID+" "+ends[i].TxID]; n != want {
			t.Errorf("the merchant is told %d times of %s, want %d: %v", n, w.CallBackID, want, told)
		}
	}
	if n := len(recorded(t, s, journal.WithdrawalEnded)); n != 9 {
		t.Errorf("%d ends are recorded, want 9", n)
	}
	for claim, want := range map[string]error{"c": nil, "other": db.ErrConflict} {
		p, err := s.Release(ctx, list[0].ID, Holder{claim, "core"}, "new", 2500)
		if !errors.Is(err, want) || err == nil && (p.Permit != "p0" || !p.Duplicate || p.Withdrawal.State != client.WithdrawalExecuted) {
			t.Errorf("%s asks after the outcome: %+v, %v", claim, p, err)
		}
	}
	// What was queued is sent.
	if got := claim(t, s, countersign.LaneNotify, 2100, 100); len(got) != 10 {
		t.Errorf("%d are due, want 10", len(got))
	}
	if none := must(s.RecordOutcomes(ctx, nil, 3000))(t); len(none) != 0 {
		t.Errorf("of nothing: %+v", none)
	}
}

// testBatchAllOrNothing: a transaction that fails after its statements have run has done nothing of any item.
func testBatchAllOrNothing(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	list := confirmedMany(t, s, []string{"m0", "m1"}, 10, "w", 1000, nil)
	var asked []ReleaseRequest
	var ends []Outcome
	for i, w := range list {
		asked = append(asked, ReleaseRequest{w.ID, Holder{"c", "core"}, fmt.Sprint("p", i)})
		ends = append(ends, executedBy(w, fmt.Sprint("p", i), fmt.Sprint("0x", i), 3000))
	}
	for _, step := range []struct {
		was, is client.WithdrawalState
		run     func() error
	}{
		{client.WithdrawalConfirmed, client.WithdrawalReleased, func() error { _, err := s.ReleaseMany(ctx, asked, nil, 2000); return err }},
		{client.WithdrawalReleased, client.WithdrawalExecuted, func() error { _, err := s.RecordOutcomes(ctx, ends, 3000); return err }},
	} {
		all := func(when string, want client.WithdrawalState) {
			for _, w := range list {
				if w := must(s.Withdrawal(ctx, w.ID))(t); w.State != want {
					t.Errorf("%s one is %s, want %s", when, w.State, want)
				}
			}
		}
		exec(t, s, `ALTER TABLE audit_subjects RENAME TO away`)
		if err := step.run(); err == nil {
			t.Fatal("done without the audit log")
		}
		exec(t, s, `ALTER TABLE away RENAME TO audit_subjects`)
		queued, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{Type: countersign.TypeWithdraw}, 100, "")
		if all("without the log", step.was); err != nil || len(queued) != 0 {
			t.Errorf("queued %d, %v", len(queued), err)
		}
		ok(t, step.run())
		all("with it", step.is)
	}
}
