package dispatch

import (
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

func TestDueAfter(t *testing.T) {
	const end = 100_000
	for _, test := range []struct {
		now    db.Millis
		delay  time.Duration
		jitter float64
		due    db.Millis
		more   bool
	}{
		{0, 10 * time.Second, 0.5, 10_500, true},
		{0, 10 * time.Second, 7, 10_000, true}, // not a jitter
		{50_000, time.Minute, 0, 95_000, true}, // one last chance
		{94_999, time.Minute, 0, 95_000, true}, //
		{95_000, time.Minute, 0, end, false},   // none left
		{99_000, time.Second, 0, end, false},   // due at the deadline is too late
		{200_000, 0, 0, end, false},            // after it
	} {
		due, more := dueAfter(test.now, test.delay, test.jitter, end)
		if due != test.due || more != test.more {
			t.Errorf("%v after %d with %v: got %d %v, want %d %v", test.delay, test.now, test.jitter, due, more, test.due, test.more)
		}
	}
}

// TestSettlement: what becomes of a callback after each verdict, with its schedule, its holds and its deadline.
func TestSettlement(t *testing.T) {
	const now, far = 1_000_000, db.Millis(1_000_000_000)
	own := ownSchedule(0, 0, 1000, 3000)
	retry, hold := Verdict{Result: client.AttemptRetry, Reason: client.ReasonMerchantFailure}, Verdict{Result: client.AttemptHold, Reason: client.ReasonMerchantHold}
	because := func(v Verdict, reason client.Reason) Verdict { v.Reason = reason; return v }
	alarmed := retry
	alarmed.Alarm = client.AlarmAnswerUnusable
	const notify, ask = countersign.TypeDeposited, countersign.TypeRequestWithdraw
	for _, c := range []struct {
		name         string
		typ          countersign.Type
		v            Verdict
		failed, held int
		deadline     db.Millis
		retry        *client.Schedule
		state        client.CallbackState
		after        db.Millis // due so much later
		counts       bool
		alarm        client.AlarmKind
	}{
		{"accepted", notify, Verdict{Result: client.AttemptAccepted}, 3, 0, db.Never, nil, client.CallbackAccepted, 0, false, ""},
		{"refused", notify, Verdict{Result: client.AttemptRefused}, 0, 0, db.Never, nil, client.CallbackRefused, 0, false, client.AlarmDepositRefused},
		{"declined", ask, Verdict{Result: client.AttemptRefused, Decision: countersign.DecisionDeclined}, 0, 0, far, nil, client.CallbackRefused, 0, false, ""},
		{"expired", ask, Verdict{Result: client.AttemptRetry, Decision: countersign.DecisionExpired}, 0, 0, far, nil, client.CallbackExhausted, 0, false, ""},
		{"failed once", notify, retry, 0, 0, db.Never, nil, client.CallbackPending, 5_000, true, ""},
		{"failed, with the verdict's alarm", notify, alarmed, 10, 0, db.Never, nil, client.CallbackPending, 86_400_000, true, client.AlarmAnswerUnusable},
		{"failed for the last time", notify, alarmed, 11, 0, db.Never, nil, client.CallbackExhausted, 0, true, client.AlarmExhausted},
		{"an own schedule", notify, retry, 1, 0, db.Never, own, client.CallbackPending, 3_000, true, ""},
		{"an own schedule ends", notify, retry, 2, 0, db.Never, own, client.CallbackExhausted, 0, true, client.AlarmExhausted},
		{"its deadline comes first", notify, retry, 5, 0, now + 4_000, nil, client.CallbackExhausted, 0, true, client.AlarmExhausted},
		{"a question failed", ask, retry, 2, 0, far, nil, client.CallbackPending, 10_000, true, ""},
		{"a question's last chance", ask, retry, 9, 0, now + 30_000, nil, client.CallbackPending, 25_000, true, ""},
		{"a question until its deadline", ask, retry, 9, 0, now + 4_000, nil, client.CallbackPending, 4_000, true, ""},
		{"held", notify, hold, 2, 1, db.Never, nil, client.CallbackPending, 120_000, false, ""},
		{"held for too long", notify, hold, 0, 57, db.Never, nil, client.CallbackExhausted, 0, false, client.AlarmExhausted},
		{"held, the last time", notify, hold, 0, 56, db.Never, nil, client.CallbackPending, 2_375_000, false, ""},
		{"held under a schedule without an end", notify, hold, 0, 900, db.Never, ownSchedule(1000), client.CallbackPending, 3_600_000, false, ""},
		{"held under a schedule of one attempt", notify, hold, 0, 0, db.Never, ownSchedule(0, 0), client.CallbackExhausted, 0, false, client.AlarmExhausted},
		{"a schedule of a century", notify, retry, 0, 0, db.Never, ownSchedule(0, 0, 1<<42), client.CallbackPending, 365 * 86_400_000, true, ""},
		{"a schedule of one interval", notify, retry, 900, 0, db.Never, ownSchedule(1500), client.CallbackPending, 1500, true, ""},
		{"a question held at first", ask, hold, 0, 0, far, nil, client.CallbackPending, 5_000, false, ""},
		{"a question held", ask, hold, 0, 40, far, nil, client.CallbackPending, 60_000, false, ""},
		{"stopped", notify, because(retry, client.ReasonStopped), 11, 0, db.Never, nil, client.CallbackPending, 0, false, ""},
		{"keys refused", notify, because(retry, client.ReasonKeyRefused), 11, 0, db.Never, nil, client.CallbackPending, 0, false, ""},
		{"too many files", notify, because(retry, client.ReasonOpenFiles), 11, 0, db.Never, nil, client.CallbackPending, 10_000, false, ""},
	} {
		m := &merchant{version: 7, schedules: [2]Schedule{notifySchedule, withdrawSchedule}}
		if c.retry != nil {
			m.schedules[0] = ScheduleFor(countersign.LaneNotify, c.retry)
		}
		claimed := outbox.Claimed{Callback: outbox.Callback{Callback: client.Callback{ID: "m1.x", Merchant: "m1", Type: c.typ, Failed: c.failed, Deadline: c.deadline}}, Held: c.held}
		s := settlement(claimed, m, c.v, outbox.Attempt{}, now, 0)
		if s.Type != claimed.Type || s.Failed != claimed.Failed {
			t.Errorf("%s: type %d after %d failures", c.name, s.Type, s.Failed)
		}
		if due := s.Due; s.State != c.state || s.State == client.CallbackPending && due != now+c.after || s.State != client.CallbackPending && due != 0 ||
			s.Counts != c.counts || s.Held != (c.v.Result == client.AttemptHold) || s.Alarm != c.alarm || s.Decision != c.v.Decision || s.MerchantVersion != 7 {
			t.Errorf("%s: %s, due after %d, counts %v, held %v, alarm %q", c.name, s.State, due-now, s.Counts, s.Held, s.Alarm)
		}
	}
}

// ownSchedule is a merchant's schedule in milliseconds.
func ownSchedule(every int64, delays ...int64) *client.Schedule {
	s := &client.Schedule{Every: client.Duration(time.Duration(every) * time.Millisecond)}
	for _, d := range delays {
		s.Delays = append(s.Delays, client.Duration(time.Duration(d)*time.Millisecond))
	}
	return s
}
