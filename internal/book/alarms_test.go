package book

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/merchant"
)

// TestAlarmPosts: what is told of an alarm is one process's at a time, again when its lease has ended, never after it
// was posted, and in its order.
func TestAlarmPosts(t *testing.T) {
	const week = db.Millis(7 * 24 * 3_600_000)
	eachPair(t, func(t *testing.T, nodes []*Book) {
		b := nodes[0]
		// claim wants a node to claim a message at a time, or none.
		claim := func(node int, now db.Millis, want string) db.AlarmPost {
			t.Helper()
			p, found, err := nodes[node].ClaimAlarmPost(ctx, now, time.Second)
			got := ""
			if found {
				got = fmt.Sprintf("%s %s %d", p.Event, p.Alarm.Kind, p.Alarm.Number)
			}
			if err != nil || got != want {
				t.Fatalf("claimed at %d: %q, %+v, %v; want %q", now, got, p, err, want)
			}
			return p
		}
		settle := func(p db.AlarmPost, posted bool, again db.Millis) {
			t.Helper()
			ok(t, b.SettleAlarmPost(ctx, p, posted, again))
		}
		told := func(now db.Millis, want ...string) {
			t.Helper()
			for _, message := range want {
				settle(claim(0, now, message), true, 0)
			}
			claim(0, now, "")
		}
		const unknown = "alarm.raised order_unknown 1"
		raise(t, b, client.Alarm{Kind: client.AlarmOrderUnknown, Subject: "s1", First: 5}, client.Alarm{Kind: client.AlarmOrderUnknown, Subject: "s2", First: 6})
		first, beside := claim(0, 100, unknown), claim(1, 100, unknown)
		settle(beside, true, 0)
		claim(1, 1099, "")
		second := claim(1, 1100, unknown) // the lease has ended
		settle(first, false, 0)           // of an attempt that has lost its lease
		claim(0, 1101, "")
		settle(second, false, 5000)
		claim(0, 4999, "")
		last := claim(0, 5000, unknown)
		settle(last, true, 0)
		settle(last, false, 0) // late
		claim(1, 1_000_000, "")
		for i, p := range []db.AlarmPost{first, second, last} {
			if p.Alarm.Seq != 1 || p.Alarm.Subject != "s1" || p.At() != 5 || p.Attempts != i+1 || beside.Alarm.Seq != 2 || beside.At() != 6 {
				t.Errorf("claimed %+v beside %+v", p, beside)
			}
		}

		// Grown and ended, in their order, each once.
		grown := map[int64]string{7: "alarm.raised request_suspect 7", 14: "alarm.grown request_suspect 14", 105: "alarm.grown request_suspect 105",
			1001: "alarm.grown request_suspect 1001"} // 1, then 10, 100 and 1,000
		for n := int64(7); n <= 1400; n += 7 {
			raise(t, b, client.Alarm{Kind: client.AlarmRequestSuspect, Subject: fmt.Sprint(n), First: 6, Number: 7})
			if message := grown[n]; message != "" {
				told(2_000_000, message)
			} else if n > 1000 || n < 120 {
				told(2_000_000)
			}
		}
		for _, c := range []struct {
			by   int64
			told []string
		}{{400, []string{"alarm.raised possible_duplicate 400"}}, {600, []string{"alarm.grown possible_duplicate 1000"}}, {1, nil}} {
			raise(t, b, client.Alarm{Kind: client.AlarmPossibleDuplicate, Subject: "x", First: 6, Number: c.by}) // at once
			told(2_000_000, c.told...)
		}
		raise(t, b, client.Alarm{Kind: client.AlarmForwardFailing, Subject: "x", First: 5})
		ok(t, b.EndStanding(ctx, []client.Alarm{{Kind: client.AlarmPossibleDuplicate}, {Kind: client.AlarmForwardFailing}, {Kind: client.AlarmAllRefused}}, 8))
		settle(claim(0, 2_000_000, "alarm.raised forward_failing 1"), false, 3_000_000) // its end waits behind that
		told(2_999_999, "alarm.ended possible_duplicate 1001")
		told(3_000_000, "alarm.raised forward_failing 1", "alarm.ended forward_failing 1")

		// What grew while it was posted is told after it, and what has waited for a week is told no more.
		raise(t, b, client.Alarm{Kind: client.AlarmAllRefused, First: week})
		posting := claim(0, week, "alarm.raised all_refused 1")
		raise(t, b, client.Alarm{Kind: client.AlarmAllRefused, First: week + 1, Number: 30})
		claim(1, week+2, "")
		settle(posting, true, 0)
		told(week+3, "alarm.grown all_refused 31")
		raise(t, b, client.Alarm{Kind: client.AlarmOrderUnknown, Subject: "old", First: week}, client.Alarm{Kind: client.AlarmOrderUnknown, Subject: "new", First: week + 10})
		told(2*week+5, unknown)
		told(2*week + 9)
	})
}

// raise raises alarms in one transaction.
func raise(t *testing.T, b *Book, list ...client.Alarm) {
	t.Helper()
	ok(t, b.Write(ctx, func(ctx context.Context, t *db.Tx) error { return db.RaiseAlarms(ctx, t, list) }))
}

// shownAlarms gives each row as number, kind, subject, times and state.
func shownAlarms(t *testing.T, b *Book) (list []string) {
	t.Helper()
	all := must(endtest.Alarms(ctx, b))(t)
	for _, a := range all {
		list = append(list, fmt.Sprintf("%s %s %d at %d-%d acked %d ended %d %s", a.Kind, a.Subject, a.Number, a.First, a.Last, a.Acked, a.Ended, a.EndedText))
	}
	return list
}

// TestAlarmRows: 400 alarms of one kind are one row with five examples, those of a kind about
// subjects one row for each; what is raised after an acknowledgement or an end opens another
// row, and an end that is older than the last raising ends nothing. An alarm is acknowledged once, by the first who
// does, and the lists by kind and state have those and no others.
func TestAlarmRows(t *testing.T) {
	eachBook(t, func(t *testing.T, b *Book) {
		for i := range 40 {
			var list []client.Alarm
			for n := range 10 {
				list = append(list, client.Alarm{Kind: client.AlarmRequestSuspect, Subject: fmt.Sprint("d", 10*i+n), First: db.Millis(i + 1)})
			}
			raise(t, b, append(list, client.Alarm{Kind: client.AlarmDepositRefused, Subject: []string{"spliced", "other_content"}[i%2], First: db.Millis(i + 1)})...)
		}
		all, err := endtest.Alarms(ctx, b)
		if err != nil || len(all) != 3 {
			t.Fatalf("%+v, %v", all, err)
		}
		if a := all[0]; a.Number != 400 || a.First != 1 || a.Last != 40 || a.Subject != "d399" || !slices.Equal(a.Examples, []string{"d399", "d398", "d397", "d396", "d395"}) {
			t.Errorf("%+v", a)
		}
		if a := all[1]; a.Subject != "spliced" || a.Number != 20 || !slices.Equal(a.Examples, []string{"spliced"}) || all[2].Subject != "other_content" {
			t.Errorf("%+v", all[1:])
		}

		for _, by := range []string{"tok_1", "tok_2"} { // the first who does
			a, err := b.AckAlarm(ctx, client.Alarm{Seq: all[0].Seq, AckedBy: by, AckedName: "name of " + by, AckedNote: "seen", Acked: 50})
			if err != nil || a.Subject != "d399" || a.Acked != 50 || a.AckedBy != "tok_1" || a.AckedName != "name of tok_1" || a.AckedNote != "seen" {
				t.Errorf("acknowledged by %s: %+v, %v", by, a, err)
			}
		}
		dbtest.Fails(b.AckAlarm(ctx, client.Alarm{Seq: 99, AckedBy: "tok_1", Acked: 9}))(t, db.ErrNotFound, "")
		dbtest.Fails(b.AckAlarm(ctx, client.Alarm{Seq: 2, AckedBy: "tok_1", AckedName: "n", AckedNote: "a\x00", Acked: 9}))(t, db.ErrInvalid, "")
		raise(t, b, client.Alarm{Kind: client.AlarmRequestSuspect, Subject: "e", First: 60})
		end := func(at db.Millis, list ...client.Alarm) {
			t.Helper()
			ok(t, b.EndStanding(ctx, list, at))
		}
		stale, err := b.StandingAlarms(ctx, client.AlarmRequestSuspect, client.AlarmDepositRefused)
		if err != nil || len(stale) != 4 {
			t.Fatalf("%+v, %v", stale, err)
		}
		raise(t, b, client.Alarm{Kind: client.AlarmDepositRefused, Subject: "spliced", First: 70})
		end(80, stale[1], stale[2])                             // spliced was raised again since
		end(90, client.Alarm{Kind: client.AlarmRequestSuspect}) // whatever was raised, the acknowledged one too
		raise(t, b, client.Alarm{Kind: client.AlarmDepositRefused, Subject: "other_content", First: 95})
		want := []string{
			"request_suspect d399 400 at 1-40 acked 50 ended 90 " + client.AlarmRequestSuspect.Ended(),
			"deposit_refused spliced 21 at 1-70 acked 0 ended 0 ",
			"deposit_refused other_content 20 at 2-40 acked 0 ended 80 " + client.AlarmDepositRefused.Ended(),
			"request_suspect e 1 at 60-60 acked 0 ended 90 " + client.AlarmRequestSuspect.Ended(),
			"deposit_refused other_content 1 at 95-95 acked 0 ended 0 ",
		}
		if got := shownAlarms(t, b); !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		if counts := must(b.AlarmCounts(ctx))(t); counts[client.AlarmRequestSuspect] != (db.AlarmCount{Raised: 401}) || counts[client.AlarmDepositRefused] != (db.AlarmCount{Raised: 42, Open: 2}) {
			t.Errorf("%+v", counts)
		}
		const suspect, open = client.AlarmRequestSuspect, client.AlarmOpen
		for _, c := range []struct {
			of     []string
			filter client.AlarmFilter
			before int64
			want   []int64
		}{
			{nil, client.AlarmFilter{}, 0, []int64{5, 4, 3, 2, 1}},
			{nil, client.AlarmFilter{}, 3, []int64{2, 1}},
			{nil, client.AlarmFilter{State: open}, 0, []int64{5, 2}},
			{nil, client.AlarmFilter{State: client.AlarmAcked}, 0, []int64{1}},
			{nil, client.AlarmFilter{State: client.AlarmEnded}, 0, []int64{4, 3, 1}},
			{nil, client.AlarmFilter{Kind: suspect}, 0, []int64{4, 1}},
			{nil, client.AlarmFilter{Kind: client.AlarmDepositRefused, State: open}, 0, []int64{5, 2}},
			{nil, client.AlarmFilter{Kind: suspect, State: open}, 0, nil},
			{[]string{}, client.AlarmFilter{}, 0, nil},
			{[]string{""}, client.AlarmFilter{State: open}, 0, []int64{5, 2}},
		} {
			list, next, err := b.AlarmsWhere(ctx, c.of, c.filter, 10, c.before)
			var got []int64
			for _, a := range list {
				got = append(got, a.Seq)
			}
			if err != nil || !slices.Equal(got, c.want) || next != 0 {
				t.Errorf("%+v before %d: %v, next %d, %v; want %v", c.filter, c.before, got, next, err, c.want)
			}
		}
		// One that has ended can be acknowledged, and is not counted as open again.
		must(b.AckAlarm(ctx, client.Alarm{Seq: all[2].Seq, AckedBy: "tok", Acked: 99}))(t)
		checkKept(t, b.DB)
	})
}

// TestAlarmNodes: nodes that raise, end and acknowledge the same alarms at once, together with
// the feeds of their end, do not stop each other, and count every alarm once in at most one
// open row.
func TestAlarmNodes(t *testing.T) {
	eachPair(t, func(t *testing.T, nodes []*Book) {
		one := nodes[0]
		const rounds = 20
		var wg sync.WaitGroup
		for i, b := range append(nodes, nodes...) {
			wg.Go(func() {
				for n := range rounds {
					err := b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
						l := ledger{}
						kinds := []client.AlarmKind{client.AlarmAllRefused, client.AlarmPossibleDuplicate}
						if i%2 == 1 { // in the other order
							slices.Reverse(kinds)
						}
						for _, k := range kinds {
							l.alarm(k, fmt.Sprint(i, " ", n), db.Millis(n+1))
						}
						l.event(client.EventEntry{Kind: client.EventOrderHeld, At: 1})
						return l.write(ctx, t)
					})
					if err == nil && n%3 == i%3 {
						err = b.EndStanding(ctx, []client.Alarm{{Kind: client.AlarmPossibleDuplicate}, {Kind: client.AlarmAllRefused}}, db.Millis(n+1))
					}
					if err == nil && n%5 == 0 {
						var list []client.Alarm
						if list, _, err = b.AlarmsWhere(ctx, nil, client.AlarmFilter{State: client.AlarmOpen}, 10, 0); err == nil && len(list) > 2 {
							t.Errorf("%d open rows of two kinds", len(list))
						}
						for _, a := range list {
							if err == nil {
								_, err = b.AckAlarm(ctx, client.Alarm{Seq: a.Seq, AckedBy: "tok", Acked: 5})
							}
						}
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if counts := must(one.AlarmCounts(ctx))(t); counts[client.AlarmAllRefused].Raised != 4*rounds || counts[client.AlarmPossibleDuplicate].Raised != 4*rounds {
			t.Errorf("%+v", counts)
		}
		checkKept(t, one.DB) // what the rows have is what was raised
	})
}

// TestAlarmsEnd: every kind that client says ends by itself stands while its cause goes on, and
// ends with client's text when that is over.
func TestAlarmsEnd(t *testing.T) {
	eachBook(t, func(t *testing.T, b *Book) {
		const at = db.Millis(10_000_000)
		stands := func(kind client.AlarmKind, want ...string) {
			t.Helper()
			var got []string
			list, err := b.StandingAlarms(ctx, kind)
			for _, a := range list {
				got = append(got, a.Subject)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %q stand, %v; want %q", kind, got, err, want)
			}
		}
		look := func(now db.Millis) {
			t.Helper()
			ok(t, b.EndAlarms(ctx, now))
		}
		refuse := func(name, reason string) {
			t.Helper()
			r := Refused{Content: []byte(name), RefusedCallback: client.RefusedCallback{Body: name, Opened: true, Type: countersign.TypeDeposited,
				CallbackID: name, Reason: client.RefusalReason(reason), Facts: []client.Fact{}}}
			ok(t, b.KeepRefused(ctx, r, []client.Alarm{{Kind: client.AlarmDepositRefused, Subject: reason, First: at}}, at))
		}
		const hour = 3_600_000
		cases := map[client.AlarmKind]func(client.AlarmKind){
			client.AlarmPossibleDuplicate: func(kind client.AlarmKind) {
				for _, id := range []string{"one", "two", "three"} {
					take(t, b, id, "same", "1", at)
				}
				look(at)
				stands(kind, "three")
				list := must(b.Deposits(ctx, 0, 100))(t)
				for i, d := range list[len(list)-2:] {
					must(b.DecideDeposit(ctx, d.Seq, []client.DepositState{client.DepositCredited, client.DepositRejected}[i], "tok", "", at))(t)
					look(at + 1)
					stands(kind, []string{"three"}[:1-i]...)
				}
			},
			client.AlarmAddressChanged: func(kind client.AlarmKind) {
				for _, user := range []string{"u1", "u2"} {
					for i, address := range []string{"TOld", "TNew", "TNewer"} {
						id := fmt.Sprint(user, i)
						e := merchant.Entry{ID: id, At: at.Time(), Callback: &countersign.AddressChange{Head: countersign.Head{TrackingID: id, TenantUserID: user}, ChainName: "TRON", NewAddress: address}}
						must(b.Claim(ctx, e))(t)
					}
				}
				look(at)
				stands(kind, "u1", "u2")
				list, _, err := b.Addresses(ctx, client.AddressFilter{State: client.AddressHeld, TenantUserID: "u1"}, 10, 0)
				if err != nil || len(list) != 2 {
					t.Fatalf("%+v, %v", list, err)
				}
				for i, a := range list {
					must(b.DecideAddress(ctx, a.Seq, client.AddressRejected, "tok", "", at))(t)
					look(at + 1)
					stands(kind, [][]string{{"u1", "u2"}, {"u2"}}[i]...)
				}
			},
			client.AlarmDepositRefused: func(kind client.AlarmKind) {
				refuse("a", "spliced")
				refuse("b", "spliced")
				refuse("c", "other_content")
				look(at)
				stands(kind, "spliced", "other_content")
				for i, to := range []client.RefusedState{client.RefusedTaken, client.RefusedDismissed} {
					ok(t, b.DecideRefused(ctx, int64(i+1), to, "tok", "", at))
				}
				look(at + 1)
				stands(kind, "other_content")
			},
			client.AlarmAllRefused: func(kind client.AlarmKind) {
				raise(t, b, client.Alarm{Kind: kind, Subject: "x", First: at + 10*hour})
				look(at + 10*hour)
				stands(kind, "x")
				take(t, b, "again", "again", "1", at+11*hour)
				look(at + 11*hour)
				stands(kind)
			},
			client.AlarmForwardFailing: func(kind client.AlarmKind) {
				forwards := func(now db.Millis, want ...string) {
					t.Helper()
					ok(t, b.LookAtForwards(ctx, now))
					stands(kind, want...)
				}
				settle := func(reason string, attempts int) {
					t.Helper()
					list, err := b.ClaimForwards(ctx, 30*at, time.Minute, 10)
					if err != nil || len(list) == 0 {
						t.Fatal(list, err)
					}
					for _, f := range list {
						if reason == "" {
							err = errors.Join(err, b.ForwardDone(ctx, f))
						} else {
							err = errors.Join(err, b.ForwardFailed(ctx, f, reason, 30*at))
						}
					}
					if err != nil || list[0].Attempts != attempts {
						t.Fatal(list[0].Attempts, err)
					}
				}
				must(b.BeginForwarding(ctx, true, at))(t)
				take(t, b, "told on", "told on", "1", 30*at)
				settle("status 500", 1)
				forwards(30*at + 1)
				settle("status 500", 2)
				forwards(30*at + 2)
				settle("status 502", 3)
				forwards(30*at+3, "status 502")
				forwards(30*at+4, "status 502") // once
				settle("", 4)
				forwards(30*at + 5)
				take(t, b, "again later", "again later", "1", 30*at)
				settle("connect", 1)
				forwards(30*at + forwardWaits - 1)
				forwards(30*at+forwardWaits, "connect")
			},
			client.AlarmRestored:      func(client.AlarmKind) {}, // as at the service
			client.AlarmApprovalWaits: func(client.AlarmKind) {}, // of package api
		}
		for _, k := range client.ValuesAt[client.AlarmKind](client.AtGateway) {
			c, known := cases[k]
			if (k.Ended() != "") != known {
				t.Errorf("%s ends by itself: %v; a case here: %v", k, k.Ended() != "", known)
			} else if known {
				c(k)
			}
		}
		list := must(endtest.Alarms(ctx, b))(t)
		for _, a := range list {
			if a.Ended != 0 && a.EndedText != a.Kind.Ended() {
				t.Errorf("%s ended: %q", a.Kind, a.EndedText)
			}
		}
		checkKept(t, b.DB)
	})
}
