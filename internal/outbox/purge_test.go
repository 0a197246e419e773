package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

// ninetyDays is how long the purgers of tests keep rows.
const ninetyDays = 90 * dayOf

func newPurger(t testing.TB, s *Outbox) *db.Purger {
	t.Helper()
	tampered.Store(s, true) // the kept numbers count what was purged
	return must(NewPurger(db.PurgeConfig{DB: s.DB, Keep: 90 * 24 * time.Hour, Now: time.Now, Log: slog.New(slog.DiscardHandler)}))(t)
}

// withdrawalIn asks the merchant about a withdrawal at a time and brings it to a state.
func withdrawalIn(t testing.TB, s *Outbox, state client.WithdrawalState, at db.Millis) Withdrawal {
	t.Helper()
	details := someDetails(t, "2.5")
	w, one := asked(t, s, string(state), at+dayOf, at)
	switch state {
	case client.WithdrawalAwaiting:
	case client.WithdrawalCancelled:
		must(s.CancelWithdrawal(ctx, w.ID, at))(t)
	case client.WithdrawalExpired:
		must(s.Sweep(ctx, at+dayOf))(t)
	case client.WithdrawalDeclined:
		must(s.Settle(ctx, []Settlement{answer(one, countersign.DecisionDeclined, nil)}, at))(t)
	default:
		must(s.Settle(ctx, []Settlement{answer(one, countersign.DecisionConfirmed, details)}, at))(t)
	}
	switch state {
	case client.WithdrawalBlocked:
		must(s.BlockWithdrawal(ctx, w.ID, "stop", "tok", at))(t)
	case client.WithdrawalLapsed:
		must(s.Sweep(ctx, at+4*dayOf))(t)
	case client.WithdrawalReleased, client.WithdrawalExecuted, client.WithdrawalFailed:
		must(s.Release(ctx, w.ID, Holder{"core", "core"}, "permit-"+string(state), at))(t)
	}
	outcome := executedBy(w, "permit-"+string(state), "0x"+string(state), at)
	if state == client.WithdrawalFailed {
		outcome.TxID, outcome.FailReason, outcome.Callback.Type = "", "no", countersign.TypeInvalidAddress
	}
	if state == client.WithdrawalExecuted || state == client.WithdrawalFailed {
		_, _, err := s.RecordOutcome(ctx, w.ID, outcome, at)
		ok(t, err)
	}
	return must(s.Withdrawal(ctx, w.ID))(t)
}

// testPurge: of each state of callbacks and withdrawals, what is still needed stays, and what went is answered for as
// before. Until a restore is reconciled all of it may be needed.
func testPurge(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	approve := func(about string, at db.Millis) {
		ok(t, s.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			_, err := db.AddVote(ctx, x, about, "digest", db.Vote{Token: "tok", Name: "Ann", At: at})
			return err
		}))
	}
	at := 20_000 * dayOf
	approve("change/chg_1", at)
	withdrawals := map[client.WithdrawalState]Withdrawal{}
	for _, state := range []client.WithdrawalState{client.WithdrawalExpired, client.WithdrawalLapsed, client.WithdrawalCancelled,
		client.WithdrawalDeclined, client.WithdrawalBlocked, client.WithdrawalExecuted, client.WithdrawalFailed,
		client.WithdrawalConfirmed, client.WithdrawalReleased, client.WithdrawalAwaiting} {
		w := withdrawalIn(t, s, state, at)
		if approve("withdrawal/"+w.ID, at); w.State != state {
			t.Fatalf("%s is %s", state, w.State)
		}
		withdrawals[state] = w
		at += 5 * dayOf
	}
	settleAll(t, s, claim(t, s, countersign.LaneNotify, at, 100), at) // what the merchant is told of them
	ids := map[string]string{"refused": ended(t, s, "refused", client.CallbackRefused, at).ID,
		"exhausted": ended(t, s, "exhausted", client.CallbackExhausted, at).ID}
	accepted, waits := claimOne(t, s, "accepted", at), claimOne(t, s, "waits", at)
	settleAll(t, s, []Claimed{accepted}, at)
	again(t, s, waits, at, at+200*dayOf)
	ids["accepted"], ids["waits"], ids["sends"] = accepted.ID, waits.ID, claimOne(t, s, "sends", at).ID
	now := at + ninetyDays + dayOf
	ids["late"] = must(s.Ingest(ctx, []NewCallback{deposit("m0", "late", now-2*dayOf)}, at))(t)[0].ID // it is accepted two days ago
	settleAll(t, s, claim(t, s, countersign.LaneNotify, now-2*dayOf, 100), now-2*dayOf)
	before := must(s.Stats(ctx))(t)

	p := newPurger(t, s)
	must(s.Restored(ctx, 0, now))(t)
	if done := must(p.Step(ctx, now))(t); done.Purged != 0 {
		t.Errorf("purged %+v during a restore", done)
	}
	must(s.Reconcile(ctx, now))(t)
	// Accepted, the questions of the seven that ended, and what the merchant was told of each of those.
	for _, want := range []int64{15, 0} {
		if n := endtest.Purge(t, p, now); n != want {
			t.Errorf("purged %d, want %d", n, want)
		}
		now += dayOf / 24
	}
	if diff := cmp.Diff(before.Lanes, must(s.Stats(ctx))(t).Lanes); diff != "" {
		t.Errorf("numbers changed: %s", diff)
	}
	var left int
	must(db.One(ctx, s, `SELECT COUNT(*) FROM (SELECT merchant, id FROM outbox UNION SELECT merchant, callback FROM attempts) x
		WHERE NOT EXISTS (SELECT 1 FROM callbacks c WHERE c.merchant = x.merchant AND c.id = x.id)`, nil, &left))(t)
	if left != 0 {
		t.Errorf("of %d purged callbacks something is left", left)
	}
	for event, kept := range map[string]bool{"accepted": false, "refused": true, "exhausted": true, "waits": true, "sends": true, "late": true} {
		_, err := s.Callback(ctx, ids[event])
		_, attempts := s.Attempts(ctx, ids[event])
		if kept != (err == nil) || kept != (attempts == nil) || !kept && !errors.Is(err, db.ErrPurged) {
			t.Errorf("%s: %v, %v", event, err, attempts)
		}
		repeated, other := deposit("m0", event, now), deposit("m0", event, now)
		got := must(s.Ingest(ctx, []NewCallback{repeated, repeated}, now))(t)
		if !got[0].Duplicate || got[0].ID != ids[event] || got[1] != got[0] {
			t.Errorf("%s again: %+v", event, got)
		}
		other.Payload = []byte(`{"other":1}`)
		dbtest.Fails(s.Ingest(ctx, []NewCallback{other}, now))(t, db.ErrConflict, "")
	}
	dbtest.Fails(s.Callback(ctx, "m0."+db.IDAt(now)))(t, db.ErrNotFound, "")
	approved := []string{"change/chg_1"} // a change stays, and so do its approvals
	for state, w := range withdrawals {
		kept := state == client.WithdrawalConfirmed || state == client.WithdrawalReleased || state == client.WithdrawalAwaiting
		if is, duplicate, err := s.CreateWithdrawal(ctx, newWithdrawal(string(state), now+dayOf, nil), now); err != nil || !duplicate || is.ID != w.ID {
			t.Errorf("%s is asked for again: %+v, %v, %v", state, is, duplicate, err)
		}
		if _, err := s.Callback(ctx, w.ID); kept != (err == nil) {
			t.Errorf("the question of %s: %v", state, err)
		}
		if is := must(s.Withdrawal(ctx, w.ID))(t); is.State != state {
			t.Errorf("%s is %s", state, is.State)
		}
		if kept {
			approved = append(approved, "withdrawal/"+w.ID)
		}
	}
	slices.Sort(approved)
	is := must(db.List(ctx, s, `SELECT about FROM votes ORDER BY about`, nil, func(r db.Rows) (about string, err error) {
		err = r.Scan(&about)
		return about, err
	}))(t)
	if !slices.Equal(is, approved) {
		t.Errorf("approvals of %q are kept, want %q", is, approved)
	}
	// A permit is given once, and again to its holder.
	w := withdrawals[client.WithdrawalExecuted]
	if p := must(s.Release(ctx, w.ID, Holder{"core", "core"}, "another", now))(t); !p.Duplicate || p.Permit != "permit-executed" {
		t.Errorf("released again: %+v", p)
	}
	dbtest.Fails(s.Release(ctx, w.ID, Holder{"thief", "core"}, "another", now))(t, db.ErrConflict, "")
	for tx, want := range map[string]error{w.TxID: nil, "0xother": db.ErrConflict} {
		if _, duplicate, err := s.RecordOutcome(ctx, w.ID, executedBy(w, "permit-executed", tx, now), now); !errors.Is(err, want) || duplicate != (want == nil) {
			t.Errorf("executed by %s again: %v, %v", tx, duplicate, err)
		}
	}
	address := deposit("m0", "accepted", now) // of the same event
	if address.Type = countersign.TypeAddress; must(s.Ingest(ctx, []NewCallback{address}, now))(t)[0].Duplicate {
		t.Error("a callback of another type is a repetition")
	}
	var purged []string
	if err := EachPurgedDeposit(ctx, s, func(_, id string) error { purged = append(purged, id); return nil }); err != nil || !slices.Equal(purged, []string{"accepted"}) {
		t.Errorf("purged %q, %v", purged, err)
	}
	if list := must(s.Decisions(ctx, 0, 100))(t); len(list) != 9 {
		t.Errorf("%d decisions", len(list))
	}
}

// testNodesPurge: nodes share the work while repetitions come, and each of these finds the callback it repeats.
func testNodesPurge(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, func(m *Merchant) { m.Concurrency = 5000 })
	const n = 400
	start := 20_000 * dayOf
	var items []NewCallback
	for i := range n {
		items = append(items, deposit("m0", fmt.Sprint("d", i), start))
	}
	ids := must(s.Ingest(ctx, items, start))(t)
	settleAll(t, s, claim(t, s, countersign.LaneNotify, start, n), start)
	now := start + ninetyDays + dayOf
	var all sync.WaitGroup
	var total atomic.Int64
	for _, node := range []*Outbox{s, another(t, s)} {
		p := newPurger(t, node)
		all.Go(func() { total.Add(endtest.Purge(t, p, now)) })
		all.Go(func() {
			for i := range n {
				k, l := (i*37+11)%n, (i*37+12)%n
				in, err := node.Ingest(ctx, []NewCallback{items[k], items[l]}, now)
				if err != nil {
					t.Error(err)
					return
				}
				if !in[0].Duplicate || in[0].ID != ids[k].ID || !in[1].Duplicate || in[1].ID != ids[l].ID {
					t.Errorf("%d: %+v", k, in)
				}
			}
		})
	}
	all.Wait()
	if total.Add(endtest.Purge(t, newPurger(t, s), now+2*dayOf)); total.Load() != n {
		t.Errorf("purged %d of %d", total.Load(), n)
	}
}
