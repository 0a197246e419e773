package outbox

import (
	"context"
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

// confirmedMany confirms withdrawals of several merchants.
func confirmedMany(t *testing.T, s *Outbox, merchants []string, n int, prefix string, now db.Millis) (list []Withdrawal) {
	t.Helper()
	for i := range n {
		w := newWithdrawal(fmt.Sprint(prefix, i), now+1_000_000, someDetails(t, "2.5"))
		w.Merchant = merchants[i%len(merchants)]
		list = append(list, addWithdrawal(t, s, w, now))
	}
	for left := n; left > 0; {
		var answers []Settlement
		for _, c := range claim(t, s, countersign.LaneWithdraw, now, 100) {
			answers = append(answers, answer(c, countersign.DecisionConfirmed, someDetails(t, "2.5")))
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

// recorded counts the records of a kind in the audit log.
func recorded(t *testing.T, s *Outbox, kind string) (n int) {
	t.Helper()
	err := db.Each(ctx, s, `SELECT body FROM audit_records`, nil, func(r db.Rows) error {
		var body []byte
		err := r.Scan(&body)
		if strings.Contains(string(body), `"kind":"`+kind+`"`) {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// testReleaseMany: of several withdrawals in one call each has its own result, whatever becomes
// of the others.
func testReleaseMany(t *testing.T, s *Outbox) {
	merchants := addMerchants(t, s, 3, nil)
	list := confirmedMany(t, s, merchants, 30, "w", 1000)
	waits := addWithdrawal(t, s, newWithdrawal("waits", 500_000, nil), 1000)
	held := list[7]
	must(s.Release(ctx, held.ID, Holder{"another", "core"}, "held", 1500))(t)
	must(s.SetMerchantState(ctx, "m2", client.MerchantPaused, "a test", 1600))(t)
	var asked []ReleaseRequest
	for i, w := range list {
		asked = append(asked, ReleaseRequest{w.ID, Holder{"c", "core"}, fmt.Sprint("p", i)})
	}
	asked = append(asked, ReleaseRequest{waits.ID, Holder{"c", "core"}, "p"}, ReleaseRequest{"m0." + strings.Repeat("0", 26), Holder{"c", "core"}, "p"},
		ReleaseRequest{"", Holder{"c", "core"}, "p"}, ReleaseRequest{list[3].ID, Holder{"", "core"}, "p"})
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
	if n := recorded(t, s, journal.WithdrawalReleased); n != 20 {
		t.Errorf("%d releases are recorded, want 20", n)
	}
	if got := must(s.Stats(ctx))(t).Withdrawals; got[client.WithdrawalReleased] != 20 || got[client.WithdrawalConfirmed] != 10 {
		t.Errorf("numbers %v", got)
	}
	alarms := must(endtest.Alarms(ctx, s))(t)
	if !slices.ContainsFunc(alarms, func(a client.Alarm) bool {
		return a.Kind == client.AlarmWalletDiffers && a.Subject == held.ID+foreignClaim && a.Number == 2
	}) {
		t.Errorf("alarms %+v", alarms)
	}
	if none := must(s.ReleaseMany(ctx, nil, nil, 3000))(t); len(none) != 0 {
		t.Errorf("of nothing: %+v", none)
	}
}

// testOutcomesMany: of several outcomes in one call each has its own result, and each merchant is
// told of what was recorded, once.
func testOutcomesMany(t *testing.T, s *Outbox) {
	merchants := addMerchants(t, s, 3, nil)
	list := confirmedMany(t, s, merchants, 12, "w", 1000)
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
	ends = append(ends, ends[0])
	ends[len(ends)-1].ID = "m0." + strings.Repeat("0", 26)
	wrong := map[int]error{5: db.ErrConflict, 6: db.ErrConflict, 8: db.ErrInvalid, 11: db.ErrConflict, 12: db.ErrNotFound}
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
	if n := recorded(t, s, journal.WithdrawalEnded); n != 9 {
		t.Errorf("%d ends are recorded, want 9", n)
	}
	// What was queued is sent.
	if got := claim(t, s, countersign.LaneNotify, 2100, 100); len(got) != 10 {
		t.Errorf("%d are due, want 10", len(got))
	}
	if none := must(s.RecordOutcomes(ctx, nil, 3000))(t); len(none) != 0 {
		t.Errorf("of nothing: %+v", none)
	}
}

// A transaction that fails after its statements have run has done nothing of any item.
func testBatchAllOrNothing(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	list := confirmedMany(t, s, []string{"m0", "m1"}, 10, "w", 1000)
	ask := func(ctx context.Context) ([]Released, error) {
		var asked []ReleaseRequest
		for i, w := range list {
			asked = append(asked, ReleaseRequest{w.ID, Holder{"c", "core"}, fmt.Sprint("p", i)})
		}
		return s.ReleaseMany(ctx, asked, nil, 2000)
	}
	broken := func(table string) (mend func()) {
		t.Helper()
		exec(t, s, "ALTER TABLE "+table+" RENAME TO away")
		return func() { exec(t, s, "ALTER TABLE away RENAME TO "+table) }
	}
	mend := broken("audit_subjects")
	if done, err := ask(ctx); err == nil {
		t.Fatalf("without the audit log: %+v", done)
	}
	mend()
	for _, w := range list {
		if w := must(s.Withdrawal(ctx, w.ID))(t); w.State != client.WithdrawalConfirmed {
			t.Errorf("it is %s", w.State)
		}
	}
	for i, r := range must(ask(ctx))(t) {
		if r.Err != nil || r.Issued.Duplicate || r.Issued.Permit != fmt.Sprint("p", i) {
			t.Errorf("%d: %+v", i, r)
		}
	}
	var ends []Outcome
	for i, w := range list {
		ends = append(ends, executedBy(w, fmt.Sprint("p", i), fmt.Sprint("0x", i), 3000))
	}
	mend = broken("audit_subjects")
	if done, err := s.RecordOutcomes(ctx, ends, 3000); err == nil {
		t.Fatalf("without the audit log: %+v", done)
	}
	mend()
	if queued, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{Type: countersign.TypeWithdraw}, 100, ""); err != nil || len(queued) != 0 {
		t.Errorf("queued %d, %v", len(queued), err)
	}
	for i, r := range must(s.RecordOutcomes(ctx, ends, 3001))(t) {
		if r.Err != nil || r.Duplicate || r.Withdrawal.State != client.WithdrawalExecuted {
			t.Errorf("%d: %+v", i, r)
		}
	}
}
