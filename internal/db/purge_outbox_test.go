package db_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// addWithdrawal asks for a withdrawal at a time and brings it to a state.
func addWithdrawal(t testing.TB, o *outbox.Outbox, state client.WithdrawalState, at db.Millis) outbox.Withdrawal {
	t.Helper()
	details := countersign.Details{Address: "T1", ChainName: "TRON", Symbol: "USDT", Amount: must(countersign.ParseAmount("2.5"))(t)}
	id := string(state)
	w, _, err := createOne(ctx, o, outbox.NewWithdrawal{Merchant: "shop", CallBackID: id, TenantUserID: "u", TrackingID: id, Details: &details, Deadline: at + day,
		Payload: []byte(`{"type":2,"callBackId":"` + id + `"}`)}, at)
	if err != nil {
		t.Fatal(err)
	}
	switch state {
	case client.WithdrawalAwaiting:
		return w
	case client.WithdrawalCancelled:
		return must(o.CancelWithdrawal(ctx, w.ID, at))(t)
	case client.WithdrawalExpired:
		must(o.Sweep(ctx, at+day))(t)
		return w
	}
	settle(t, o, countersign.LaneWithdraw, at, func(c outbox.Claimed, s *outbox.Settlement) {
		if c.EventID != id { // of another withdrawal, which goes on waiting
			s.State, s.Due, s.Held = client.CallbackPending, at+day-1, true
			return
		}
		s.Decision, s.Details = countersign.DecisionConfirmed, details
		if state == client.WithdrawalDeclined {
			s.State, s.Decision = client.CallbackRefused, countersign.DecisionDeclined
		}
	})
	if state == client.WithdrawalConfirmed || state == client.WithdrawalDeclined {
		return w
	}
	if state == client.WithdrawalBlocked {
		must(o.BlockWithdrawal(ctx, w.ID, "stop", "tok", at))(t)
		return w
	}
	must(releaseOne(ctx, o, w.ID, outbox.Holder{Claim: "core", Origin: "core"}, "permit-"+id, at))(t)
	outcome := outbox.Outcome{Permit: "permit-" + id, TxID: "0x" + id, Callback: outbox.NewCallback{Merchant: "shop", Type: countersign.TypeWithdraw, Payload: []byte("{}"), Due: at}}
	switch state {
	case client.WithdrawalFailed:
		outcome.TxID, outcome.FailReason, outcome.Callback.Type = "", "no", countersign.TypeInvalidAddress
	case client.WithdrawalReleased:
		return w
	}
	if _, _, err := recordOne(ctx, o, w.ID, outcome, at); err != nil {
		t.Fatal(err)
	}
	return w
}

// approve adds an approval of a thing.
func approve(t testing.TB, o *outbox.Outbox, about string, at db.Millis) {
	t.Helper()
	ok(t, o.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		_, err := db.AddVote(ctx, x, about, "digest", db.Vote{Token: "tok", Name: "Ann", At: at})
		return err
	}))
}

// TestServicePurgesOnlyWhatIsSettled: of each state of callbacks and withdrawals, what is
// still needed stays, and what went is answered for as before.
func TestServicePurgesOnlyWhatIsSettled(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		o := newService(t, url)
		states := []client.WithdrawalState{client.WithdrawalExpired, client.WithdrawalCancelled, client.WithdrawalDeclined, client.WithdrawalConfirmed, client.WithdrawalBlocked,
			client.WithdrawalReleased, client.WithdrawalExecuted, client.WithdrawalFailed, client.WithdrawalAwaiting}
		at := start
		approve(t, o, "change/chg_1", at)
		withdrawals := map[client.WithdrawalState]outbox.Withdrawal{}
		for _, s := range states {
			withdrawals[s] = addWithdrawal(t, o, s, at)
			approve(t, o, "withdrawal/"+withdrawals[s].ID, at)
			at += 2 * day
		}
		settle(t, o, countersign.LaneNotify, at, accept) // outcomes
		ids := map[string]string{}
		for _, id := range []string{"accepted", "refused", "exhausted"} {
			ids[id] = ingest(t, o, deposit(id), at).ID
		}
		settle(t, o, countersign.LaneNotify, at, func(c outbox.Claimed, s *outbox.Settlement) { s.State = client.CallbackState(c.EventID) })
		ids["waits"] = ingest(t, o, deposit("waits"), at).ID
		settle(t, o, countersign.LaneNotify, at, func(_ outbox.Claimed, s *outbox.Settlement) { s.State, s.Due = client.CallbackPending, at+200*day })
		ids["sends"] = ingest(t, o, deposit("sends"), at).ID
		must(o.Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneNotify, Now: at, LeaseUntil: at + 200*day, Max: 10}))(t)
		later := at + 89*day
		p := must(outbox.NewPurger(config(o.DB)))(t)
		ids["young"] = ingest(t, o, deposit("young"), later).ID
		settle(t, o, countersign.LaneNotify, later, accept)
		before := must(o.Stats(ctx))(t)

		now := at + 91*day
		if n := purgeAll(t, p, now); n != 11 { // accepted, the questions of the six that ended, the three outcomes, and the word that one was declined
			t.Errorf("purged %d", n)
		}
		if n := purgeAll(t, p, now+day/24); n != 0 {
			t.Errorf("purged %d the second time", n)
		}
		for id, kept := range map[string]bool{"accepted": false, "refused": true, "exhausted": true, "waits": true, "sends": true, "young": true} {
			_, err := o.Callback(ctx, ids[id])
			_, attempts := o.Attempts(ctx, ids[id])
			if kept != (err == nil) || kept != (attempts == nil) || !kept && !errors.Is(err, db.ErrPurged) {
				t.Errorf("%s: %v, %v", id, err, attempts)
			}
			again := ingest(t, o, deposit(id), now)
			if !again.Duplicate || again.ID != ids[id] {
				t.Errorf("%s again: %+v", id, again)
			}
			other := deposit(id)
			other.Payload = []byte(`{"other":1}`)
			dbtest.Fails(o.Ingest(ctx, []outbox.NewCallback{other}, now))(t, db.ErrConflict, "")
		}
		dbtest.Fails(o.Callback(ctx, "shop."+db.IDAt(now)))(t, db.ErrNotFound, "")
		for s, w := range withdrawals {
			kept := s == client.WithdrawalConfirmed || s == client.WithdrawalReleased || s == client.WithdrawalAwaiting
			if _, err := o.Callback(ctx, w.ID); kept != (err == nil) {
				t.Errorf("the question of %s: %v", s, err)
			}
			if is := must(o.Withdrawal(ctx, w.ID))(t); is.State != s {
				t.Errorf("%s is %s", s, is.State)
			}
		}
		approved := []string{"change/chg_1"} // a change stays, and so do its approvals
		for _, s := range []client.WithdrawalState{client.WithdrawalAwaiting, client.WithdrawalConfirmed, client.WithdrawalReleased} {
			approved = append(approved, "withdrawal/"+withdrawals[s].ID)
		}
		slices.Sort(approved)
		if is := dbtest.Query(t, url, `SELECT about FROM votes ORDER BY about`); !slices.Equal(is, approved) {
			t.Errorf("approvals of %q are kept, want %q", is, approved)
		}
		// A permit is given once, and again to its holder.
		w := withdrawals[client.WithdrawalExecuted]
		if again := must(releaseOne(ctx, o, w.ID, outbox.Holder{Claim: "core", Origin: "core"}, "another", now))(t); !again.Duplicate || again.Permit != "permit-executed" {
			t.Errorf("released again: %+v", again)
		}
		dbtest.Fails(releaseOne(ctx, o, w.ID, outbox.Holder{Claim: "thief", Origin: "core"}, "another", now))(t, db.ErrConflict, "")
		after := must(o.Stats(ctx))(t)
		if diff := cmp.Diff(before.Lanes, after.Lanes); diff != "" {
			t.Errorf("numbers changed: %s", diff)
		}
		var told []string
		if err := outbox.EachPurgedDeposit(ctx, o, func(_, id string) error { told = append(told, id); return nil }); err != nil || !slices.Equal(told, []string{"accepted"}) {
			t.Errorf("purged %q, %v", told, err)
		}
		if list := must(o.Decisions(ctx, 0, 100))(t); len(list) != 8 {
			t.Errorf("%d decisions", len(list))
		}
	})
}

// TestRestoredIsNotPurged: until a person has reconciled it, all of it may be needed.
func TestRestoredIsNotPurged(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		o := newService(t, url)
		ingest(t, o, deposit("a"), start)
		settle(t, o, countersign.LaneNotify, start, accept)
		p := must(outbox.NewPurger(config(o.DB)))(t)
		now := start + 91*day
		must(o.Restored(ctx, 0, now))(t)
		if done := must(p.Step(ctx, now))(t); done.Purged != 0 {
			t.Errorf("purged %+v", done)
		}
		must(o.Reconcile(ctx, now))(t)
		if n := purgeAll(t, p, now); n != 1 {
			t.Errorf("purged %d", n)
		}
	})
}

// TestTwoNodesPurge: nodes share the work while repetitions come, and each of these finds
// the callback it repeats.
func TestTwoNodesPurge(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		o := newService(t, url)
		nodes := []*outbox.Outbox{o, o}
		if o.Dialect().Shared {
			nodes[1] = outbox.New(open(t, url, outbox.End()))
		}
		const n = 400
		ids := settled(t, o, n, numbered)
		now := start + 91*day
		var all sync.WaitGroup
		var total atomic.Int64
		for _, node := range nodes {
			p := must(outbox.NewPurger(config(node.DB)))(t)
			all.Go(func() { total.Add(stepThrough(t, p, now)) })
			all.Go(func() {
				for i := range n {
					k := (i*37 + 11) % n
					in, err := node.Ingest(ctx, []outbox.NewCallback{numbered(k), numbered((k + 1) % n)}, now)
					if err != nil {
						t.Error(err)
						return
					}
					if !in[0].Duplicate || in[0].ID != ids[k] || !in[1].Duplicate || in[1].ID != ids[(k+1)%n] {
						t.Errorf("%d: %+v", k, in)
					}
				}
			})
		}
		all.Wait()
		total.Add(purgeAll(t, must(outbox.NewPurger(config(o.DB)))(t), now+2*day))
		if total.Load() != n {
			t.Errorf("purged %d of %d", total.Load(), n)
		}
	})
}
