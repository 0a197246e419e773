package outbox

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"countersign/client"
	"countersign/internal/db"
)

// testGuards: each guarded statement changes a row in the states, and under the conditions, that it is for,
// and in no other.
func testGuards(t *testing.T, s *Outbox) {
	tampered.Store(s, true)
	addMerchants(t, s, 1, nil)
	w := addWithdrawal(t, s, newWithdrawal("w", 500_000, someDetails(t, "1")), 1000)
	_, id, _ := splitID(w.ID)
	const now = 2000
	// run reports whether the statement changed the row, and undoes that.
	run := func(text string, args ...any) bool {
		t.Helper()
		n := int64(0)
		undo := fmt.Errorf("undo")
		err := s.Write(ctx, func(ctx context.Context, x *db.Tx) (err error) {
			if n, err = x.Exec(ctx, text, append([]any{"m0", id}, args...)...); err == nil {
				err = undo
			}
			return err
		})
		if err != undo {
			t.Fatalf("%s: %v", text, err)
		}
		return n == 1
	}
	const (
		awaiting, confirmed, released = client.WithdrawalAwaiting, client.WithdrawalConfirmed, client.WithdrawalReleased
		notRestored                   = "restored = 1"
		gone                          = "release_by = 1999"
		open                          = "release_by = 2001"
	)
	d := []any{"a", "c", "s", "1"}
	for name, c := range map[string]struct {
		text  string
		args  []any
		in    client.WithdrawalState
		set   string   // with which it changes the row
		spoil []string // each keeps it from that
	}{
		"decide":  {decideSQL, append(append([]any{"confirmed", "r", now}, d...), 9), awaiting, "", nil},
		"expire":  {endSQL(client.WithdrawalExpired, client.ReasonDeadline, overdueNow), []any{now}, awaiting, "deadline = 2000", []string{"deadline = 2001", notRestored}},
		"cancel":  {endSQL(client.WithdrawalCancelled, client.ReasonCancelled, "restored = 0"), []any{now}, awaiting, "", []string{notRestored}},
		"presume": {endSQL(client.WithdrawalConfirmed, client.ReasonRestored, inDoubt(true)), []any{now}, awaiting, "", nil},
		"release": {releaseSQL, []any{"claim", "core", "p", now}, confirmed, open, []string{"release_by = 2000", notRestored}},
		"block":   {blockSQL, []any{now, "why", "who"}, confirmed, "", nil},
		"lapse":   {lapseSQL, []any{now}, confirmed, "release_by = 2000", []string{open, notRestored}},
		"outcome": {recordOutcomeSQL, []any{"p", "executed", "0x", "", now}, released, "permit = 'p'", []string{"permit = 'q'"}},
		"end":     {endSQL(client.WithdrawalDeclined, client.ReasonRestored, inDoubt(false)), []any{now}, awaiting, notRestored, []string{"restored = 0"}},
		"ended":   {blockSQL + " AND " + inDoubt(false), []any{now, "why", "who"}, confirmed, notRestored, []string{"restored = 0"}},
		"adopt":   {adoptSQL + inDoubt(false), append(append([]any{"claim", "p", now}, d...), "declined"), client.WithdrawalDeclined, notRestored, []string{"restored = 0", "permit = 'q'"}},
	} {
		put := func(state client.WithdrawalState, set string) {
			t.Helper()
			if set != "" {
				set = ", " + set
			}
			exec(t, s, `UPDATE withdrawals SET state = 'awaiting', deadline = 500000, release_by = 0, restored = 0, permit = ''`)
			exec(t, s, `UPDATE withdrawals SET state = '`+string(state)+`'`+set)
		}
		for _, state := range client.Values[client.WithdrawalState]() {
			put(state, c.set)
			if did := run(c.text, c.args...); did != (state == c.in) {
				t.Errorf("%s changes one that is %s: %v", name, state, did)
			}
		}
		for _, spoilt := range c.spoil {
			if put(c.in, spoilt); run(c.text, c.args...) {
				t.Errorf("%s changes one with %s", name, spoilt)
			}
		}
		if name == "release" { // and while nothing stops it
			for _, stop := range []struct{ begin, end func(*Outbox) error }{{freezeAll, thawAll}, {pauseM0, resumeM0}} {
				ok(t, stop.begin(s))
				if put(c.in, c.set); run(c.text, c.args...) {
					t.Error("released during a stop")
				}
				ok(t, stop.end(s))
			}
		}
	}

	ended := []client.CallbackState{client.CallbackRefused}
	pending, sending := []client.CallbackState{client.CallbackPending}, []client.CallbackState{client.CallbackSending}
	for name, c := range map[string]struct {
		text  string
		args  []any
		in    []client.CallbackState
		set   string
		spoil []string
	}{
		"accept":    {settleAcceptedSQL, []any{3}, sending, "", []string{"attempts = 2", "attempts = 4"}},
		"settle":    {settleOtherSQL, []any{3, "refused", now, 1, "r", now, 0}, sending, "", []string{"attempts = 2", "attempts = 4"}},
		"give back": {giveBackSQL, []any{3, now}, sending, "", []string{"attempts = 2", "attempts = 4"}},
		"lose":      {loseLeaseSQL, []any{3, now, now}, sending, "", []string{"attempts = 4", "lease_until = 2001"}},
		"exhaust":   {exhaustSQL, []any{now}, pending, "", []string{"deadline = 2001"}},
		"resend":    {resendSQL, []any{"refused", now}, ended, "", []string{"lane = 1"}},
		"move up":   {resendSQL, []any{"pending", now}, pending, "", []string{"due = 2000"}},
		"purge":     {purgeSettledSQL, nil, client.Values[client.CallbackState]()[2:], ", lane = 1", []string{"lane = 0"}},
	} {
		put := func(state client.CallbackState, set string) {
			t.Helper()
			exec(t, s, `UPDATE outbox SET state = 'pending', lane = 0, attempts = 3, lease_until = 2000, deadline = 2000, due = 2001`)
			exec(t, s, `UPDATE outbox SET state = '`+string(state)+`'`+set)
		}
		for _, state := range client.Values[client.CallbackState]() {
			put(state, c.set)
			if did := run(c.text, c.args...); did != slices.Contains(c.in, state) {
				t.Errorf("%s changes one that is %s: %v", name, state, did)
			}
		}
		for _, spoilt := range c.spoil {
			if put(c.in[0], ", "+spoilt); run(c.text, c.args...) {
				t.Errorf("%s changes one with %s", name, spoilt)
			}
		}
	}
	// A decision reads its question under the same guard.
	for set, want := range map[string]bool{"attempts = 3": true, "attempts = 2": false, "attempts = 4": false, "state = 'pending'": false} {
		exec(t, s, `UPDATE outbox SET state = 'sending', attempts = 3`)
		exec(t, s, `UPDATE outbox SET `+set)
		found := false
		read := db.Statement{SQL: settleDecisionSQL, Args: []any{"m0", id, 3}, Row: func(db.Rows) error { found = true; return nil }}
		if err := s.Write(ctx, func(ctx context.Context, x *db.Tx) error { return x.Batch(ctx, []db.Statement{read}) }); err != nil || found != want {
			t.Errorf("a decision with %s: %v, %v", set, found, err)
		}
	}
}
