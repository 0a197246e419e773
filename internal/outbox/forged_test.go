package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest/ready"
)

// untilForged waits until the alarm row_forged about subject is kept, and wants it once.
func untilForged(t *testing.T, s *Outbox, subject string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		n := 0
		for _, a := range must(ready.Alarms(ctx, s))(t) {
			if a.Kind == client.AlarmRowForged && a.Subject == subject {
				n++
			}
		}
		if n == 1 {
			return
		}
		if n > 1 || time.Now().After(deadline) {
			t.Fatalf("%d alarms about %s", n, subject)
		}
	}
}

// runs lets the database raise its alarms until the test ends.
func runs(t *testing.T, s *Outbox) {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// testForgedMerchant: a merchant whose row was written past the program is as if paused. Nothing
// of it is sent, decided or released, all of it waits, and other merchants go on.
func testForgedMerchant(t *testing.T, s *Outbox) {
	runs(t, s)
	addMerchants(t, s, 2, nil)
	rotate(t, s, 1, stageAll(MerchantKeys{APIKey: "stolen once"}))
	exec(t, s, `CREATE TABLE kept AS SELECT * FROM rotations`)
	rotate(t, s, 2, (*Merchant).Cancel)
	must(s.SetMerchantState(ctx, "m1", MerchantPaused, "a test", 3))(t)
	must(s.SetMerchantState(ctx, "m1", MerchantActive, "", 3))(t)
	now := db.Millis(10_000)
	for name, attack := range map[string][2]string{
		"URL":      {`UPDATE merchants SET settings = REPLACE(settings, 'm.example', 'evil.example') WHERE id = 'm0'`, `UPDATE merchants SET settings = REPLACE(settings, 'evil.example', 'm.example') WHERE id = 'm0'`},
		"garbage":  {`UPDATE merchants SET settings = '!' || settings WHERE id = 'm0'`, `UPDATE merchants SET settings = substr(settings, 2) WHERE id = 'm0'`},
		"version":  {`UPDATE merchants SET version = version + 1 WHERE id = 'm0'`, `UPDATE merchants SET version = version - 1 WHERE id = 'm0'`},
		"deleted":  {`UPDATE merchants SET state = 'deleted' WHERE id = 'm0'`, `UPDATE merchants SET state = 'active' WHERE id = 'm0'`},
		"age":      {`UPDATE merchants SET api_key_since = 7 WHERE id = 'm0'`, `UPDATE merchants SET api_key_since = 1 WHERE id = 'm0'`},
		"rotation": {`INSERT INTO rotations SELECT * FROM kept`, `DELETE FROM rotations`},
		"its MAC":  {`UPDATE merchants SET mac = (SELECT o.mac FROM merchants o WHERE o.id = 'm1') WHERE id = 'm0'`, ``},
	} {
		undo := attack[1]
		if undo == "" {
			exec(t, s, `CREATE TABLE macs AS SELECT mac FROM merchants WHERE id = 'm0'`)
			undo = `UPDATE merchants SET mac = (SELECT m.mac FROM macs m) WHERE id = 'm0'`
		}
		now += 1_000_000
		confirmed, _ := confirmedWithdrawal(t, s, name+" confirmed", now)
		_, open := asked(t, s, name+" asked", now+500_000, now+2)
		must(s.Ingest(ctx, []NewCallback{deposit("m0", name+" sent", now+2)}, now+2))(t)
		sent := claim(t, s, countersign.LaneNotify, now+2, 1)[0]
		must(s.Ingest(ctx, []NewCallback{deposit("m0", name, now+3), deposit("m1", name, now+3)}, now+3))(t)

		if n := exec(t, s, attack[0]); n != 1 {
			t.Fatalf("%s changed %d rows", name, n)
		}
		if got := claim(t, s, countersign.LaneNotify, now+4, 100); len(got) != 1 || got[0].Merchant != "m1" {
			t.Fatalf("%s: claimed %+v, want that of the other merchant", name, got)
		} else {
			settleAll(t, s, got, now+5)
		}
		if m := must(s.Merchant(ctx, "m0"))(t); !m.Forged || m.State != MerchantPaused {
			t.Errorf("%s: it is %s, %v", name, m.State, m.Forged)
		}
		if list := must(s.Merchants(ctx, false, "", 10))(t); name != "deleted" && (len(list) != 2 || !list[0].Forged || list[1].Forged) {
			t.Errorf("%s: listed %+v", name, list)
		}
		done := must(s.Settle(ctx, []Settlement{answer(open, countersign.DecisionConfirmed, someDetails(t, "1"))}, now+6))(t)
		if done[0] != (Settled{Applied: true, Stopped: client.ReasonPaused}) {
			t.Errorf("%s: decided %+v", name, done[0])
		}
		n := settlementOf(sent)
		n.APIKey = 1
		if done := must(s.Settle(ctx, []Settlement{n}, now+6))(t); done[0].Stopped != client.ReasonPaused {
			t.Errorf("%s: accepted %+v", name, done[0])
		}
		if p, err := s.Release(ctx, confirmed.ID, Holder{Claim: "a", Origin: "core"}, "p", now+7); !errors.Is(err, db.ErrConflict) {
			t.Errorf("%s: released %+v, %v", name, p, err)
		}
		_, changed := s.UpdateMerchant(ctx, "m0", now+8, func(m *Merchant) error { m.Name = "other"; return nil })
		_, resumed := s.SetMerchantState(ctx, "m0", MerchantPaused, "x", now+8)
		if !errors.Is(changed, db.ErrForged) || !errors.Is(resumed, db.ErrForged) {
			t.Errorf("%s: what was forged was made genuine: %v, %v", name, changed, resumed)
		}
		must(s.Sweep(ctx, now+9))(t)

		exec(t, s, undo)
		if m := must(s.Merchant(ctx, "m0"))(t); m.Forged || m.State != MerchantActive {
			t.Fatalf("%s: put back it is %s, %v", name, m.State, m.Forged)
		}
		later := now + 4 + forgedAgain
		if got := claim(t, s, countersign.LaneNotify, later, 100); len(got) != 2 {
			t.Errorf("%s: claimed %+v when the row was put back", name, got)
		} else {
			settleAll(t, s, got, later+1)
		}
		if got := claim(t, s, countersign.LaneWithdraw, later, 100); len(got) != 1 {
			t.Errorf("%s: claimed %+v when the row was put back", name, got)
		} else {
			must(s.Settle(ctx, []Settlement{answer(got[0], countersign.DecisionDeclined, nil)}, later+1))(t)
		}
		settleAll(t, s, claim(t, s, countersign.LaneNotify, later+2, 100), later+3) // the end of the withdrawal
		must(s.Release(ctx, confirmed.ID, Holder{Claim: "a", Origin: "core"}, "p", later+4))(t)
	}
	untilForged(t, s, "merchants m0")

	// The copy in the lane says nothing against the row.
	must(s.SetMerchantState(ctx, "m0", MerchantPaused, "a test", now))(t)
	now += 1_000_000
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "paused", now)}, now))(t)
	exec(t, s, `UPDATE lanes SET active = 1 WHERE merchant = 'm0'`)
	if got := claim(t, s, countersign.LaneNotify, now, 100); len(got) != 0 {
		t.Errorf("claimed of a paused merchant %+v", got)
	}

	// A person believes the row as it stands: it stays paused until somebody resumes it.
	exec(t, s, `UPDATE merchants SET state = 'active' WHERE id = 'm0'`)
	m := must(s.UpdateMerchant(ctx, "m0", now, func(m *Merchant) error { m.Forged = false; return nil }))(t)
	if got := must(s.Merchant(ctx, "m0"))(t); got.Forged || got.State != MerchantPaused || got.Version != m.Version || got.APIKey == "" {
		t.Errorf("believed: %+v", got)
	}
	must(s.SetMerchantState(ctx, "m0", MerchantActive, "", now))(t)
	if got := claim(t, s, countersign.LaneNotify, now+forgedAgain, 100); len(got) != 1 {
		t.Errorf("claimed when it was resumed: %+v", got)
	}
}

// testForgedFreeze: who writes the database past the program can freeze the service and not thaw
// it. Whatever the row says, nothing is sent, decided or released until a person thaws.
func testForgedFreeze(t *testing.T, s *Outbox) {
	runs(t, s)
	other := another(t, s)
	if f := must(s.Frozen(ctx))(t); f != (Freeze{}) {
		t.Fatalf("a new database is %+v", f)
	}
	addMerchants(t, s, 1, nil)
	exec(t, s, `CREATE TABLE thawed AS SELECT * FROM frozen`)
	now := db.Millis(10_000)
	for name, attack := range map[string]string{
		"thawed":  `UPDATE frozen SET at = 0, by_token = '', reason = ''`,
		"removed": `DELETE FROM frozen`,
		"earlier": `UPDATE frozen SET changes = (SELECT changes FROM thawed), at = 0, by_token = '', reason = '', mac = (SELECT mac FROM thawed)`,
		"counted": `UPDATE frozen SET changes = changes + 1, at = 0, by_token = '', reason = '', mac = (SELECT mac FROM thawed)`,
	} {
		now += 1_000_000
		confirmed, _ := confirmedWithdrawal(t, s, name+" confirmed", now)
		_, open := asked(t, s, name+" asked", now+500_000, now+2)
		must(s.Ingest(ctx, []NewCallback{deposit("m0", name, now+3)}, now+3))(t)
		must(other.Freeze(ctx, "a token was lost", "tok_1", now+4))(t)
		must(s.Frozen(ctx))(t) // a process that never saw this freeze cannot know that an earlier row is one
		if n := exec(t, s, attack); n != 1 {
			t.Fatalf("%s changed %d rows", name, n)
		}
		done := must(s.Settle(ctx, []Settlement{answer(open, countersign.DecisionConfirmed, someDetails(t, "1"))}, now+5))(t)
		if done[0] != (Settled{Applied: true, Stopped: client.ReasonFrozen}) {
			t.Errorf("%s: decided %+v", name, done[0])
		}
		if got := claim(t, s, countersign.LaneNotify, now+6, 100); len(got) != 0 {
			t.Errorf("%s: claimed %+v", name, got)
		}
		if p, err := s.Release(ctx, confirmed.ID, Holder{Claim: "a", Origin: "core"}, "p", now+7); !errors.Is(err, db.ErrConflict) {
			t.Errorf("%s: released %+v, %v", name, p, err)
		}
		if f := must(s.Frozen(ctx))(t); f.At == 0 || f.By != "" || f.Reason != forgedFreeze {
			t.Errorf("%s: it is %+v", name, f)
		}
		if f := must(s.Freeze(ctx, "again", "tok_1", now+8))(t); f.Reason != "again" {
			t.Errorf("%s: frozen again it is %+v", name, f)
		}
		exec(t, s, attack)
		if err := s.Thaw(ctx, now+9); err != nil {
			t.Fatal(err)
		}
		if f := must(s.Frozen(ctx))(t); f != (Freeze{}) {
			t.Errorf("%s: thawed it is %+v", name, f)
		}
		later := now + 6 + forgedAgain
		settleAll(t, s, claim(t, s, countersign.LaneNotify, later, 100), later+1)
		for _, c := range claim(t, s, countersign.LaneWithdraw, later, 100) {
			must(s.Settle(ctx, []Settlement{answer(c, countersign.DecisionDeclined, nil)}, later+1))(t)
		}
		settleAll(t, s, claim(t, s, countersign.LaneNotify, later+2, 100), later+3)
		must(s.Release(ctx, confirmed.ID, Holder{Claim: "a", Origin: "core"}, "p", later+4))(t)
	}
	untilForged(t, s, "frozen service")
}

// testForgedEpoch: who writes the database past the program cannot end what a restore holds back:
// whatever the rows say, nothing is released, cancelled, blocked or expires until a person
// reconciles. Where the row itself is another, only a new process believes that person.
func testForgedEpoch(attack string, stays bool) func(t *testing.T, s *Outbox) {
	return func(t *testing.T, s *Outbox) {
		runs(t, s)
		addMerchants(t, s, 1, nil)
		now := db.Millis(1_000_000)
		must(s.Restored(ctx, 0, now))(t)
		must(s.Reconcile(ctx, now))(t)
		must(s.Restored(ctx, 0, now+1))(t)
		confirmed, _ := confirmedWithdrawal(t, s, "confirmed", now+2)
		waits, _ := asked(t, s, "asked", now+500, now+4)
		was := must(db.LastEpoch(ctx, s))(t)
		if n := exec(t, s, attack); n != 1 || !was.Open() {
			t.Fatalf("changed %d rows of %+v", n, was)
		}
		late := now + 900_000
		if e := must(db.LastEpoch(ctx, s))(t); !e.Open() {
			t.Errorf("the epoch is %+v", e)
		}
		if p, err := s.Release(ctx, confirmed.ID, Holder{Claim: "a", Origin: "core"}, "p", now+7); !errors.Is(err, db.ErrConflict) {
			t.Errorf("released %+v, %v", p, err)
		}
		if w, err := s.CancelWithdrawal(ctx, waits.ID, now+7); !errors.Is(err, db.ErrConflict) {
			t.Errorf("cancelled %+v, %v", w, err)
		}
		if w, err := s.BlockWithdrawal(ctx, confirmed.ID, "x", "tok_1", now+7); !errors.Is(err, db.ErrConflict) {
			t.Errorf("blocked %+v, %v", w, err)
		}
		if done := must(s.Sweep(ctx, late))(t); len(done.Expired)+len(done.Lapsed) > 0 {
			t.Errorf("swept %+v", done)
		}
		if err := s.WorkLeft(ctx, "m0"); !errors.Is(err, db.ErrConflict) {
			t.Errorf("nothing is left: %v", err)
		}
		untilForged(t, s, fmt.Sprint("epochs ", was.Number))
		must(s.Reconcile(ctx, late))(t)
		if e := must(db.LastEpoch(ctx, s))(t); e.Open() != stays {
			t.Errorf("the epoch is %+v after it was reconciled", e)
		}
		if !stays {
			must(s.CancelWithdrawal(ctx, waits.ID, late))(t)
			must(s.Release(ctx, confirmed.ID, Holder{Claim: "a", Origin: "core"}, "p", now+8))(t)
		}
	}
}

// testWrittenEpoch: an epoch that no restore has begun is none, and holds back until a person
// reconciles.
func testWrittenEpoch(t *testing.T, s *Outbox) {
	runs(t, s)
	addMerchants(t, s, 1, nil)
	exec(t, s, `INSERT INTO epochs (number, began, ends, reconciled, size, root, mac, reconciled_mac) SELECT 900000000, 1, '{}', 0, 0, mac, mac, mac FROM frozen`)
	if e := must(db.LastEpoch(ctx, s))(t); !e.Open() || e.Number != 0 {
		t.Errorf("an epoch that was written by hand: %+v", e)
	}
	untilForged(t, s, "epochs 900000000")
	if open := must(s.Reconcile(ctx, 10))(t); !open {
		t.Error("it was not open")
	}
	if e := must(db.LastEpoch(ctx, s))(t); e.Open() {
		t.Errorf("the epoch is %+v after it was reconciled", e)
	}
}

// testEarlierMerchant: a merchant's row of before its URL, its keys or its state changed, which has
// its MAC, counts at no node that has seen the change. A row that is removed is not made again.
func testEarlierMerchant(t *testing.T, s *Outbox) {
	runs(t, s)
	other := another(t, s)
	if other != s {
		runs(t, other)
	}
	addMerchants(t, s, 3, nil)
	exec(t, s, `CREATE TABLE earlier AS SELECT * FROM merchants`)
	put := func(from string) {
		t.Helper()
		var set []string
		for _, c := range []string{"state", "paused_reason", "settings", "version", "updated", "api_key_since", "secret_version",
			"data_key", "api_key", "callback_api_key", "request_key", "response_key", "mac"} {
			set = append(set, c+` = (SELECT e.`+c+` FROM `+from+` e WHERE e.id = 'm0')`)
		}
		exec(t, s, `UPDATE merchants SET `+strings.Join(set, ", ")+` WHERE id = 'm0'`)
	}
	n := db.Millis(10)
	for name, change := range map[string]func(){
		"URL": func() {
			must(s.UpdateMerchant(ctx, "m0", n, func(m *Merchant) error { m.NotifyURL = fmt.Sprint("https://fresh.example/", n); return nil }))(t)
		},
		"API key": func() {
			must(s.UpdateMerchant(ctx, "m0", n, func(m *Merchant) error { m.APIKey = countersign.APIKey(fmt.Sprint("fresh", n)); return nil }))(t)
		},
		"pause": func() { must(s.SetMerchantState(ctx, "m0", MerchantPaused, "a test", n))(t) },
	} {
		n += 1_000_000
		change()
		is := must(s.Merchant(ctx, "m0"))(t)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if numbers, _ := other.RowNumbers(); numbers["merchants"]["m0"] == is.Version {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the other node does not learn of the change")
			}
		}
		exec(t, s, `CREATE TABLE newest AS SELECT * FROM merchants`)
		put("earlier")
		for _, o := range []*Outbox{s, other} {
			if m := must(o.Merchant(ctx, "m0"))(t); !m.Forged || m.State != MerchantPaused {
				t.Errorf("%s: put back it is %+v", name, m)
			}
			if _, err := o.SetMerchantState(ctx, "m0", MerchantActive, "", n+1); !errors.Is(err, db.ErrForged) {
				t.Errorf("%s: resumed: %v", name, err)
			}
		}
		must(s.Ingest(ctx, []NewCallback{deposit("m0", name, n), deposit("m1", name, n)}, n))(t)
		got := claim(t, other, countersign.LaneNotify, n+1, 100)
		if len(got) != 1 || got[0].Merchant != "m1" {
			t.Fatalf("%s: claimed %+v", name, got)
		}
		settleAll(t, s, got, n+2)
		put("newest")
		exec(t, s, `DROP TABLE newest`)
		if m := must(other.Merchant(ctx, "m0"))(t); m.Forged || m.Version != is.Version {
			t.Errorf("%s: as it was it is %+v", name, m)
		}
		if is.State == MerchantPaused {
			must(s.SetMerchantState(ctx, "m0", MerchantActive, "", n+3))(t)
		}
		settleAll(t, s, claim(t, s, countersign.LaneNotify, n+3+forgedAgain, 100), n+4+forgedAgain)
	}
	untilForged(t, s, "merchants m0")

	// A person believes the earlier row as it stands: it gets a number of its own.
	was := must(s.Merchant(ctx, "m0"))(t).Version
	put("earlier")
	m := must(s.UpdateMerchant(ctx, "m0", n, func(m *Merchant) error { m.Forged = false; return nil }))(t)
	if got := must(s.Merchant(ctx, "m0"))(t); got.Forged || m.Version <= was {
		t.Errorf("believed: %+v, the version before was %d", got, was)
	}

	exec(t, s, `DELETE FROM lanes WHERE merchant = 'm2'`)
	exec(t, s, `DELETE FROM merchants WHERE id = 'm2'`)
	if m, err := s.CreateMerchant(ctx, newMerchant("m2"), n); !errors.Is(err, db.ErrForged) {
		t.Errorf("a removed merchant was made again: %+v, %v", m, err)
	}
	untilForged(t, s, "merchants m2")
	exec(t, s, `INSERT INTO merchants SELECT * FROM earlier WHERE id = 'm2'`)
	if m := must(s.Merchant(ctx, "m2"))(t); m.Forged {
		t.Errorf("as it was it is %+v", m)
	}
}

// testEarlierFreeze: the row of before a freeze that is put back while no process runs is a
// freeze, for a process whose directory has the numbers.
func testEarlierFreeze(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	exec(t, s, `CREATE TABLE thawed AS SELECT * FROM frozen`)
	must(s.Freeze(ctx, "a token was lost", "tok_1", 5))(t)
	numbers, _ := s.RowNumbers()
	exec(t, s, `DELETE FROM frozen`)
	exec(t, s, `INSERT INTO frozen SELECT * FROM thawed`)
	later := s
	if s.Dialect().Shared {
		later = another(t, s)
		later.ExpectRows(numbers)
	}
	if f := must(later.Frozen(ctx))(t); f.Reason != forgedFreeze {
		t.Errorf("it is %+v", f)
	}
	if err := later.Thaw(ctx, 6); err != nil {
		t.Fatal(err)
	}
	if f := must(later.Frozen(ctx))(t); f != (Freeze{}) {
		t.Errorf("thawed it is %+v", f)
	}
}
