package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest/ready"
)

// The tests of this file play somebody who can write the database and has no master key.

// columns gives those of a table.
func columns(t *testing.T, s *Outbox, table string) []string {
	t.Helper()
	text := `SELECT column_name FROM information_schema.columns WHERE table_name = '` + table + `'`
	if !s.Dialect().Shared {
		text = `SELECT name FROM pragma_table_info('` + table + `')`
	}
	list := must(db.List(ctx, s, text, nil, func(r db.Rows) (name string, err error) {
		err = r.Scan(&name)
		return name, err
	}))(t)
	if len(list) == 0 {
		t.Fatalf("%s has no columns", table)
	}
	return list
}

// attacked gives what the answers of s say, which is judged again.
func attacked(s *Outbox) map[string]countersign.Details {
	tampered.Store(s, true)
	said := map[string]countersign.Details{}
	judgedBy(s, said)
	return said
}

// judgedBy has s judge kept answers as a judge does that opens them: it says what was confirmed.
func judgedBy(s *Outbox, said map[string]countersign.Details) {
	s.JudgeWith(func(_ context.Context, e *Evidence) (countersign.Details, error) {
		if d, ok := said[e.Answer.Data]; ok {
			return d, nil
		}
		return countersign.Details{}, errors.New("it does not open")
	})
}

// confirms confirms a withdrawal by an answer that is kept.
func confirms(t testing.TB, s *Outbox, said map[string]countersign.Details, callBackID, amount string, now db.Millis) Withdrawal {
	t.Helper()
	details := someDetails(t, amount)
	w := addWithdrawal(t, s, newWithdrawal(callBackID, now+100_000, details), now)
	return confirm(t, s, said, w, now)
}

// confirm answers the question about w.
func confirm(t testing.TB, s *Outbox, said map[string]countersign.Details, w Withdrawal, now db.Millis) Withdrawal {
	t.Helper()
	for _, c := range claim(t, s, countersign.LaneWithdraw, now, 100) {
		if c.ID != w.ID {
			continue
		}
		n := answer(c, countersign.DecisionConfirmed, w.Ordered)
		n.Exchange = &Exchange{Data: "sealed " + w.CallBackID, ResponseOpened: "opened", Blocks: []int{6}, Done: now}
		said[n.Exchange.Data] = *w.Ordered
		if done := must(s.Settle(ctx, []Settlement{n}, now))(t)[0]; done.Decision != countersign.DecisionConfirmed {
			t.Fatalf("settled %+v", done)
		}
		return must(s.Withdrawal(ctx, w.ID))(t)
	}
	t.Fatal("the question was not claimed")
	return w
}

// alarmed reports whether evidence_differs about w is raised.
func alarmed(t *testing.T, s *Outbox, w Withdrawal) bool {
	t.Helper()
	return slices.ContainsFunc(must(ready.Alarms(ctx, s))(t), func(a db.Alarm) bool {
		return a.Kind == client.AlarmEvidenceDiffers && a.Subject == w.ID
	})
}

// noPermit wants that neither its holder nor anybody else gets a permit for w.
func noPermit(t *testing.T, s *Outbox, what string, w Withdrawal, now db.Millis) {
	t.Helper()
	for _, claim := range []string{"core", "thief"} {
		if p, err := s.Release(ctx, w.ID, Holder{claim, "core"}, "permit of "+claim, now); !errors.Is(err, db.ErrConflict) && !errors.Is(err, db.ErrNotFound) {
			t.Errorf("%s: %s gets %+v, %v", what, claim, p, err)
		}
	}
}

// testEveryColumn: whatever one column says, a permit is given for what the merchant confirmed
// and for nothing else.
func testEveryColumn(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, func(m *Merchant) { m.Concurrency = 1000 })
	said := attacked(s)
	now := db.Millis(10_000)
	other := confirms(t, s, said, "other", "7", now)
	held := confirms(t, s, said, "held", "8", now)
	must(s.Release(ctx, held.ID, Holder{"core", "core"}, "permit of held", now))(t)
	_, otherRest, _ := strings.Cut(other.ID, ".")
	_, heldRest, _ := strings.Cut(held.ID, ".")
	keys := map[string]string{"withdrawals": "id", "evidence": "id", "callbacks": "id", "outbox": "id", "attempts": "callback"}
	n, refused, released := 0, 0, 0
	for table, key := range keys {
		for _, column := range columns(t, s, table) {
			for _, to := range []string{
				fmt.Sprintf("(SELECT o.%s FROM %s o WHERE o.%s = '%s')", column, table, key, otherRest),
				fmt.Sprintf("(SELECT o.%s FROM %s o WHERE o.%s = '%s')", column, table, key, heldRest),
			} {
				for _, before := range []bool{true, false} { // the permit is given
					n++
					now += 10
					id := fmt.Sprint("cb ", n)
					w := confirms(t, s, said, id, "2.5", now)
					_, rest, _ := strings.Cut(w.ID, ".")
					if before {
						must(s.Release(ctx, w.ID, Holder{"core", "core"}, "permit of "+id, now))(t)
					}
					what := fmt.Sprintf("%s.%s = %s, given %v", table, column, to, before)
					if err := tryExec(s, fmt.Sprintf(`UPDATE %s SET %s = %s WHERE %s = '%s'`, table, column, to, key, rest)); err != nil {
						continue // a key that is in use, or no such row
					}
					for _, claim := range []string{"core", "thief"} {
						p, err := s.Release(ctx, w.ID, Holder{claim, "core"}, "permit of "+id+" for "+claim, now)
						switch {
						case errors.Is(err, db.ErrConflict) || errors.Is(err, db.ErrNotFound):
							refused++
						case err != nil:
							t.Errorf("%s: %v", what, err)
						case p.Withdrawal.ID != w.ID || p.Withdrawal.CallBackID != id || !sameDetails(&client.Details{Address: w.Ordered.Address, ChainName: w.Ordered.ChainName, Symbol: w.Ordered.Symbol, Amount: w.Ordered.Amount}, *p.Withdrawal.Details),
							claim == "thief", before != p.Duplicate, before && p.Permit != "permit of "+id:
							t.Errorf("%s: %s gets %+v", what, claim, p)
						default:
							released++
						}
					}
				}
			}
		}
	}
	if n < 200 || refused < 250 || released < 50 {
		t.Errorf("%d changes, %d refused, %d released", n, refused, released)
	}
	t.Logf("%d changes, %d refused, %d released", n, refused, released)
}

// keepRows keeps the rows of w as they are, and gives what puts those of some tables back.
func keepRows(t *testing.T, s *Outbox, name string, w Withdrawal) func(tables ...string) {
	t.Helper()
	_, rest, _ := strings.Cut(w.ID, ".")
	keys := map[string]string{"withdrawals": "id", "evidence": "id", "callbacks": "id", "outbox": "id", "attempts": "callback"}
	for table, key := range keys {
		exec(t, s, fmt.Sprintf(`CREATE TABLE %s_%s AS SELECT * FROM %s WHERE %s = '%s'`, name, table, table, key, rest))
	}
	return func(tables ...string) {
		for _, table := range tables {
			exec(t, s, fmt.Sprintf(`DELETE FROM %s WHERE %s = '%s'`, table, keys[table], rest))
			exec(t, s, fmt.Sprintf(`INSERT INTO %s SELECT * FROM %s_%s`, table, name, table))
		}
	}
}

// testSecondPermit: rows of before the permit do not give another one, in any mix, also in a
// process that has started since, and also for an order that is put in once more.
func testSecondPermit(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	said := attacked(s)
	now := db.Millis(10_000)
	sets := [][]string{{"withdrawals"}, {"evidence"}, {"withdrawals", "evidence"}, {"withdrawals", "evidence", "callbacks", "outbox", "attempts"}}
	for i, tables := range sets {
		w := confirms(t, s, said, fmt.Sprint("cb", i), "2.5", now)
		back := keepRows(t, s, fmt.Sprint("before", i), w)
		must(s.Release(ctx, w.ID, Holder{"core", "core"}, "permit", now))(t)
		again := keepRows(t, s, fmt.Sprint("after", i), w)
		back(tables...)
		noPermit(t, s, fmt.Sprint("put back ", tables), w, now+1)
		if !alarmed(t, s, w) {
			t.Errorf("%v: no alarm", tables)
		}
		again("withdrawals", "evidence")
		if p := must(s.Release(ctx, w.ID, Holder{"core", "core"}, "other", now+1))(t); p.Permit != "permit" || !p.Duplicate {
			t.Errorf("its holder gets %+v", p)
		}
		// A process that was not there: it has the file of permits, or has looked at the database.
		file := New(s.DB)
		judgedBy(file, said)
		file.ExpectPermits(knownPermits(s))
		looked := New(s.DB)
		judgedBy(looked, said)
		if err := looked.LearnPermits(ctx, now+2); err != nil {
			t.Fatal(err)
		}
		back(tables...)
		noPermit(t, file, "a process with the file", w, now+2)
		noPermit(t, looked, "a process that has looked", w, now+2)
	}
	// The order once more, after its rows are gone: the merchant confirms it again.
	w := confirms(t, s, said, "once", "2.5", now)
	must(s.Release(ctx, w.ID, Holder{"core", "core"}, "permit", now))(t)
	_, rest, _ := strings.Cut(w.ID, ".")
	for table, key := range map[string]string{"withdrawals": "id", "evidence": "id", "callbacks": "id", "outbox": "id", "attempts": "callback"} {
		exec(t, s, fmt.Sprintf(`DELETE FROM %s WHERE %s = '%s'`, table, key, rest))
	}
	noPermit(t, s, "ordered once more", confirms(t, s, said, "once", "2.5", now+10), now+11)
	// What is over is forgotten: the deadline of its order stands under a MAC.
	if err := s.LearnPermits(ctx, now+100*maxReleaseWithin); err != nil {
		t.Fatal(err)
	}
	if list := knownPermits(s); len(list) != 0 {
		t.Errorf("it remembers %d", len(list))
	}
}

// knownPermits are all that s remembers.
func knownPermits(s *Outbox) (list []GivenPermit) {
	s.given.mu.Lock()
	defer s.given.mu.Unlock()
	for k, until := range s.given.until {
		list = append(list, GivenPermit{k, until})
	}
	return list
}

// testUnconfirmed: what the merchant did not confirm gets no permit, though its rows say so, with
// the evidence of another withdrawal too.
func testUnconfirmed(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	said := attacked(s)
	now := db.Millis(10_000)
	other := confirms(t, s, said, "other", "7", now)
	_, otherRest, _ := strings.Cut(other.ID, ".")
	say := `UPDATE withdrawals SET state = 'confirmed', decision = 'confirmed', reason = 'confirmed', decided = 10000, ended = 0, blocked_reason = '', blocked_by = '', restored = 0,
		release_by = (SELECT o.release_by FROM withdrawals o WHERE o.id = '` + otherRest + `'),
		confirmed_address = ordered_address, confirmed_chain = ordered_chain, confirmed_symbol = ordered_symbol, confirmed_amount = ordered_amount WHERE id = '%s'`
	for name, make := range map[string]func(id string) Withdrawal{
		"awaiting": func(id string) Withdrawal {
			return addWithdrawal(t, s, newWithdrawal(id, now+1000, someDetails(t, "2.5")), now)
		},
		"declined": func(id string) Withdrawal {
			w := addWithdrawal(t, s, newWithdrawal(id, now+1000, someDetails(t, "2.5")), now)
			for _, c := range claim(t, s, countersign.LaneWithdraw, now, 100) {
				must(s.Settle(ctx, []Settlement{answer(c, countersign.DecisionDeclined, nil)}, now))(t)
			}
			return w
		},
		"cancelled": func(id string) Withdrawal {
			w := addWithdrawal(t, s, newWithdrawal(id, now+1000, someDetails(t, "2.5")), now)
			return must(s.CancelWithdrawal(ctx, w.ID, now))(t)
		},
		"inserted": func(id string) Withdrawal {
			exec(t, s, fmt.Sprintf(`INSERT INTO withdrawals (merchant, id, call_back_id, tenant_user_id, tracking_id, business, state, deadline, created, ordered_address, ordered_chain, ordered_symbol, ordered_amount)
				VALUES ('m0', '%026d', '%s', 'u', 't', 0, 'awaiting', 999999, 1, 'A', 'TRON', 'USDT', '1')`, len(id), id))
			return must(s.Withdrawal(ctx, fmt.Sprintf("m0.%026d", len(id))))(t)
		},
		"with the evidence of another": func(id string) Withdrawal {
			w := addWithdrawal(t, s, newWithdrawal(id, now+1000, someDetails(t, "2.5")), now)
			_, rest, _ := strings.Cut(w.ID, ".")
			exec(t, s, fmt.Sprintf(`INSERT INTO evidence (merchant, id, epoch, confirmed, confirmed_mac) SELECT merchant, '%s', epoch, confirmed, confirmed_mac FROM evidence WHERE id = '%s'`, rest, otherRest))
			return w
		},
		"with evidence of his own": func(id string) Withdrawal {
			w := addWithdrawal(t, s, newWithdrawal(id, now+1000, someDetails(t, "2.5")), now)
			_, rest, _ := strings.Cut(w.ID, ".")
			d := detailsOf(*w.Ordered)
			text := must(json.Marshal(Evidence{CallBackID: id, TenantUserID: w.TenantUserID, TrackingID: w.TrackingID, Business: w.Business, Ordered: &d, Deadline: w.Deadline,
				Details: d, Decided: now, ReleaseBy: other.ReleaseBy}))(t)
			exec(t, s, fmt.Sprintf(`INSERT INTO evidence (merchant, id, epoch, confirmed, confirmed_mac) SELECT merchant, '%s', epoch, '%s', confirmed_mac FROM evidence WHERE id = '%s'`, rest, text, otherRest))
			return w
		},
		"with all of another": func(id string) Withdrawal {
			w := addWithdrawal(t, s, newWithdrawal(id, now+1000, someDetails(t, "7")), now)
			_, rest, _ := strings.Cut(w.ID, ".")
			exec(t, s, fmt.Sprintf(`INSERT INTO evidence (merchant, id, epoch, confirmed, confirmed_mac) SELECT merchant, '%s', epoch, confirmed, confirmed_mac FROM evidence WHERE id = '%s'`, rest, otherRest))
			return w
		},
	} {
		w := make(name)
		_, rest, _ := strings.Cut(w.ID, ".")
		exec(t, s, fmt.Sprintf(say, rest))
		noPermit(t, s, name, w, now+1)
		if !alarmed(t, s, w) {
			t.Errorf("%s: no alarm", name)
		}

		exec(t, s, fmt.Sprintf(`UPDATE withdrawals SET state = 'declined' WHERE id = '%s'`, rest))
	}
	// A permit that nobody gave.
	forged := confirms(t, s, said, "forged", "2.5", now)
	_, forgedRest, _ := strings.Cut(forged.ID, ".")
	text := must(json.Marshal(given{CallBackID: "forged", Claim: "thief", Origin: "core", Permit: "forged", At: now, Until: now + 1000, Details: detailsOf(*forged.Ordered)}))(t)
	exec(t, s, fmt.Sprintf(`UPDATE evidence SET given = '%s', given_at = 10000, given_mac = confirmed_mac WHERE id = '%s'`, text, forgedRest))
	exec(t, s, fmt.Sprintf(`UPDATE withdrawals SET state = 'released', claim = 'thief', origin = 'core', permit = 'forged', released = 10000 WHERE id = '%s'`, forgedRest))
	noPermit(t, s, "a permit of his own", forged, now+1)
	// A person ended it: rows of before do not bring it back, and the one that blocked can do no more.
	w := confirms(t, s, said, "blocked", "2.5", now)
	back := keepRows(t, s, "blocked", w)
	must(s.BlockWithdrawal(ctx, w.ID, "a test", "somebody", now))(t)
	back("withdrawals", "evidence")
	noPermit(t, s, "blocked", w, now+1)
	if got := must(s.BlockWithdrawal(ctx, w.ID, "once more", "somebody", now+2))(t); got.State != WithdrawalBlocked {
		t.Errorf("a person decides, and it is %s", got.State)
	}
	// A cancelled one that is asked about again.
	w = addWithdrawal(t, s, newWithdrawal("again", now+1000, someDetails(t, "2.5")), now)
	back = keepRows(t, s, "again", w)
	must(s.CancelWithdrawal(ctx, w.ID, now))(t)
	exec(t, s, `UPDATE lanes SET next_due = 0`)
	back("withdrawals", "outbox")
	confirm(t, s, said, w, now+2)
	noPermit(t, s, "cancelled and confirmed", w, now+3)
}

// testChangedOrder: an order that was changed before it was confirmed gets no evidence.
func testChangedOrder(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	said := attacked(s)
	now := db.Millis(10_000)
	for _, set := range []string{"ordered_amount = '2.50'", "ordered_address = 'TEvil'", "call_back_id = 'another'", "tenant_user_id = 'another'", "deadline = deadline + 1", "business = 5",
		"tracking_id = 'another'", "created = 5", "epoch = 7", "mac = NULL", "ordered_address = '', ordered_chain = '', ordered_symbol = '', ordered_amount = ''"} {
		w := addWithdrawal(t, s, newWithdrawal(set, now+1000, someDetails(t, "2.5")), now)
		_, rest, _ := strings.Cut(w.ID, ".")
		exec(t, s, fmt.Sprintf(`UPDATE withdrawals SET %s WHERE id = '%s'`, set, rest))
		is := confirm(t, s, said, w, now+1)
		noPermit(t, s, set, is, now+2)
		if !alarmed(t, s, w) {
			t.Errorf("%s: no alarm", set)
		}
	}
	// One that is put back after its deadline, with the deadline of the question moved.
	w := addWithdrawal(t, s, newWithdrawal("late", now+1000, someDetails(t, "2.5")), now)
	exec(t, s, `UPDATE outbox SET deadline = 900000`)
	noPermit(t, s, "late", confirm(t, s, said, w, now+2000), now+2001)
}

// testRestoredEvidence: what may have been released before a restore is released again only after
// somebody has said that it was not, whatever its row says.
func testRestoredEvidence(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	said := attacked(s)
	now := db.Millis(10_000)
	w := confirms(t, s, said, "confirmed", "2.5", now)
	waits := addWithdrawal(t, s, newWithdrawal("awaiting", now+50_000, someDetails(t, "2.5")), now)
	for _, w := range []*Withdrawal{&w, &waits} {
		_, rest, _ := strings.Cut(w.ID, ".")
		must(s.Restored(ctx, 0, now+1))(t)
		must(s.Reconcile(ctx, now+2))(t)
		exec(t, s, fmt.Sprintf(`UPDATE withdrawals SET restored = 0 WHERE id = '%s'`, rest))
		if w.State == WithdrawalAwaiting {
			*w = confirm(t, s, said, *w, now+3)
		}
		noPermit(t, s, string(w.State), *w, now+4)
		if !alarmed(t, s, *w) {
			t.Errorf("%s: no alarm", w.State)
		}
	}
	// A person says so.
	w = confirms(t, s, said, "resumed", "2.5", now+5)
	first := must(s.Release(ctx, w.ID, Holder{"core", "core"}, "first", now+5))(t)
	if first.Duplicate || first.Epoch == 0 {
		t.Errorf("%+v", first)
	}
	w = confirms(t, s, said, "resumed too", "2.5", now+5)
	waits = addWithdrawal(t, s, newWithdrawal("asked later", now+50_000, someDetails(t, "2.5")), now+5)
	must(s.Restored(ctx, 0, now+6))(t)
	must(s.Reconcile(ctx, now+7))(t)
	for _, w := range []Withdrawal{w, waits} {
		must(s.ResumeWithdrawal(ctx, w.ID, "a test", "somebody", now+8))(t)
		if w.State == WithdrawalAwaiting {
			w = confirm(t, s, said, w, now+9)
		}
		if p := must(s.Release(ctx, w.ID, Holder{"core", "core"}, "permit", now+9))(t); p.Duplicate || p.Epoch <= first.Epoch {
			t.Errorf("%+v", p)
		}
	}
}

// testNotJudged: an answer that cannot be judged says nothing of its withdrawal, and one that
// does not confirm it any more is no evidence.
func testNotJudged(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	said := attacked(s)
	s.JudgeWith(nil)
	now := db.Millis(10_000)
	w := confirms(t, s, said, "cb", "2.5", now)
	if _, err := s.Release(ctx, w.ID, Holder{"core", "core"}, "permit", now); !errors.Is(err, ErrNotJudged) {
		t.Errorf("without a judge: %v", err)
	}
	if alarmed(t, s, w) {
		t.Error("an alarm")
	}
	judgedBy(s, map[string]countersign.Details{"sealed cb": *someDetails(t, "2.6")})
	noPermit(t, s, "it confirms another amount", w, now+1)
	judgedBy(s, nil)
	noPermit(t, s, "it confirms nothing", w, now+1)
	if !alarmed(t, s, w) {
		t.Error("no alarm")
	}
	judgedBy(s, said)
	must(s.Release(ctx, w.ID, Holder{"core", "core"}, "permit", now+2))(t)
}

// tryExec is exec of what a database may refuse.
func tryExec(s *Outbox, text string) error {
	return s.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		_, err := x.Exec(ctx, text)
		return err
	})
}
