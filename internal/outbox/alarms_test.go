package outbox

import (
	"slices"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
)

// testAlarmsEnd: every kind that client says ends by itself stands while its cause goes on, and
// ends with client's text when that is over.
func testAlarmsEnd(t *testing.T, s *Outbox) {
	ids := addMerchants(t, s, 19, nil)
	const at = db.Millis(1_000_000)
	raise := func(of string, kind client.AlarmKind, subject string) {
		t.Helper()
		ok(t, s.RaiseAlarm(ctx, client.Alarm{Merchant: of, Kind: kind, Subject: subject, First: at}))
	}
	// stands holds that the one row of a kind about a merchant stands, or has ended.
	stands := func(of string, kind client.AlarmKind, want bool) {
		t.Helper()
		list := slices.DeleteFunc(must(endtest.Alarms(ctx, s))(t), func(a client.Alarm) bool { return a.Kind != kind || a.Merchant != of })
		if len(list) != 1 || (list[0].Ended == 0) != want || !want && (kind.Ended() == "" || list[0].EndedText != kind.Ended()) {
			t.Errorf("%s about %q: %+v; want that it stands: %v", kind, of, list, want)
		}
	}
	look := func(now db.Millis) {
		t.Helper()
		ok(t, s.endAlarms(ctx, now))
	}
	accept := func(of string, now db.Millis) {
		t.Helper()
		must(s.Ingest(ctx, []NewCallback{deposit(of, "ok", 1)}, 1))(t)
		list := claim(t, s, countersign.LaneNotify, now, 1)
		if len(list) != 1 || list[0].Merchant != of {
			t.Fatalf("claimed %+v", list)
		}
		must(s.Settle(ctx, []Settlement{settlementOf(list[0])}, now))(t)
	}
	// until holds that the alarm stands until over.
	until := func(of string, kind client.AlarmKind, over func()) {
		t.Helper()
		look(at + 1)
		stands(of, kind, true)
		over()
		stands(of, kind, false)
	}
	quiet := func(of string, kind client.AlarmKind) {
		raise(of, kind, of+".x")
		look(at + 2*quietFor)
		stands(of, kind, true) // the merchant accepted nothing since
		accept(of, at+5)
		look(at + quietFor - 1)
		until(of, kind, func() { look(at + quietFor) })
	}
	exhausted := func(of string, kind client.AlarmKind) {
		must(s.Ingest(ctx, []NewCallback{deposit(of, "gone", 1)}, 1))(t)
		n := unreached(claim(t, s, countersign.LaneNotify, at, 1)[0], at)
		n.State, n.Due, n.Alarm = client.CallbackExhausted, 0, kind
		if kind == client.AlarmDepositRefused {
			code := int64(2500)
			n.State, n.Attempt.ErrCode = client.CallbackRefused, &code
		}
		must(s.Settle(ctx, []Settlement{n}, at))(t)
		until(of, kind, func() {
			must(s.Resend(ctx, n.CallbackID, at+2))(t)
			look(at + 3)
		})
		settleAll(t, s, claim(t, s, countersign.LaneNotify, at+4, 1), at+4)
	}
	next := 0
	merchant := func() string { next++; return ids[next-1] }
	cases := map[client.AlarmKind]func(of string, kind client.AlarmKind){
		client.AlarmAnswerUnusable: quiet,
		client.AlarmExhausted:      exhausted, client.AlarmDepositRefused: exhausted,
		client.AlarmMerchantFailing: func(of string, kind client.AlarmKind) {
			raise(of, kind, "timeout")
			exec(t, s, `INSERT INTO health (merchant, reached, accepted, failing, failed, callback, reason, facts, alarmed) VALUES ($1, 0, 0, 5, 5, '', '', '', 1)`, of)
			until(of, kind, func() {
				exec(t, s, `UPDATE health SET alarmed = 0 WHERE merchant = $1`, of)
				look(at + 2)
			})
		},
		client.AlarmOpenFailures: func(of string, kind client.AlarmKind) {
			raise(of, kind, of+".x")
			must(s.SetMerchantState(ctx, of, client.MerchantPaused, "", at))(t)
			until(of, kind, func() { must(s.SetMerchantState(ctx, of, client.MerchantActive, "", at+2))(t) })
		},
		client.AlarmFrozen: func(_ string, kind client.AlarmKind) {
			must(s.Freeze(ctx, "a test", "tok", at))(t)
			until("", kind, func() { ok(t, s.Thaw(ctx, at+2)) })
		},
		client.AlarmRestored: func(_ string, kind client.AlarmKind) {
			must(s.Restored(ctx, 0, at))(t)
			until("", kind, func() { must(s.Reconcile(ctx, at+2))(t) })
		},
		client.AlarmOverdue:        nil, // testOverdueAlarm
		client.AlarmApprovalWaits:  nil, // of package api
		client.AlarmAddressChanged: nil, // at the gateway
	}
	for _, k := range client.ValuesAt[client.AlarmKind](client.AtService) {
		c, known := cases[k]
		if (k.Ended() != "") != known {
			t.Errorf("%s ends by itself: %v; a case here: %v", k, k.Ended() != "", known)
			continue
		}
		if c != nil {
			c(merchant(), k)
		}
	}

	// One that a person has acknowledged ends too; kinds that only a person ends stay.
	of := merchant()
	for _, k := range []client.AlarmKind{client.AlarmExhausted, client.AlarmAnswerDiffers} {
		raise(of, k, of+".x")
	}
	list := must(endtest.Alarms(ctx, s))(t)
	i := slices.IndexFunc(list, func(a client.Alarm) bool { return a.Merchant == of && a.Kind == client.AlarmExhausted })
	must(s.AckAlarm(ctx, client.Alarm{Seq: list[i].Seq, AckedBy: "tok", Acked: at}))(t)
	look(at + 1)
	stands(of, client.AlarmExhausted, false)
	stands(of, client.AlarmAnswerDiffers, true)
	checkKept(t, s)
}
