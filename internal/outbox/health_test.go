package outbox

import (
	"fmt"
	"slices"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// testHealth: what attempts say of a merchant is by the clock, whatever the reason: an alarm
// after ten minutes without an acceptance, when half of twenty failed, or when no exchange of a
// lane reached the merchant for ten minutes, and one again only after the merchant was well.
func testHealth(t *testing.T, s *Outbox) {
	addMerchants(t, s, 5, nil)
	const start = 1000 * minute
	const fact = ": errCode is not a whole number"
	const m0, m1, m2, m4 = "m0 response_malformed" + fact, "m1 timeout" + fact, "m2 connect" + fact, "m4 tls" + fact
	n := 0
	// attempts makes one attempt for each merchant of list; those of reason "" are accepted.
	attempts := func(now db.Millis, reason client.Reason, list ...string) {
		t.Helper()
		var batch []Settlement
		var items []NewCallback
		for _, m := range list {
			n++
			items = append(items, deposit(m, fmt.Sprint("d", n), now))
		}
		must(s.Ingest(ctx, items, now))(t)
		for _, c := range claim(t, s, countersign.LaneNotify, now, 100) {
			b := settlementOf(c)
			if reason != "" {
				b.State, b.Due, b.Reached = client.CallbackPending, now+120*minute, reason != client.ReasonConnect
				b.Attempt.Result, b.Attempt.Reason = client.AttemptRetry, reason
				b.Attempt.Facts = &client.Fact{Member: "errCode", Cause: "is not a whole number"}
			}
			batch = append(batch, b)
		}
		must(s.Settle(ctx, batch, now))(t)
		must(s.Settle(ctx, batch, now))(t) // repeated: counts once
	}
	health := func(m string) (h client.MerchantHealth) {
		t.Helper()
		if is := must(s.Health(ctx, []string{"m0", "m1", "m2", "m3", "m4"}))(t)[m]; is != nil {
			h = *is
		}
		return h
	}
	alarms := func(now db.Millis, want ...string) {
		t.Helper()
		must(s.Sweep(ctx, now))(t)
		got, raised := alarmsOf(t, s, client.AlarmMerchantFailing), raisedOf(t, s, client.AlarmMerchantFailing)
		if !slices.Equal(got, want) || raised != int64(len(want)) {
			t.Errorf("at %d: alarms %q, raised %d times, want %q", now-start, got, raised, want)
		}
	}
	attempts(start, "", "m0", "m1")
	if h := health("m0"); h.LastReached != start || h.LastAccepted != start || h.FailingSince != 0 || h.LastFailure != nil {
		t.Errorf("well: %+v", h)
	}
	attempts(start+minute, client.ReasonConnect, "m0")
	attempts(start+2*minute, client.ReasonResponseMalformed, "m0", "m0")
	attempts(start+2*minute, client.ReasonOlderVersion, "m0") // says nothing of it
	h := health("m0")
	if h.LastReached != start+2*minute || h.LastAccepted != start || h.FailingSince != start+minute || h.LastFailure == nil || h.LastFailure.At != start+2*minute ||
		h.LastFailure.Reason != client.ReasonResponseMalformed || h.LastFailure.Facts.Member != "errCode" {
		t.Errorf("failing: %+v", h)
	}
	alarms(start + 10*minute)
	alarms(start+11*minute, m0)
	alarms(start+14*minute, m0)
	if h := health("m0"); !h.Failing {
		t.Errorf("the alarm is not noted: %+v", h)
	}
	attempts(start+15*minute, "", "m0")
	alarms(start+16*minute, m0+" ended")
	if h := health("m0"); h.Failing || h.FailingSince != 0 || h.LastAccepted != start+15*minute {
		t.Errorf("well again: %+v", h)
	}
	for _, step := range []struct {
		at     db.Millis
		reason client.Reason
		of     string
		times  int
		want   []string // a minute later, beside m0's; nil: nothing looks
	}{
		{20, client.ReasonTimeout, "m1", 10, nil},
		{20, "", "m1", 9, []string{}},
		{21, "", "m1", 1, []string{m1}},  // half of twenty, though the last one was accepted
		{22, "", "m1", 10, []string{m1}}, // a third: it would come and go
		{23, "", "m1", 11, []string{m1 + " ended"}},
		{25, client.ReasonConnect, "m2", 2, []string{m1 + " ended"}},
		{26, client.ReasonConnect, "m2", 1, []string{m1 + " ended", m2}}, // three, and nothing was ever accepted
		{28, "", "m2", 1, []string{m1 + " ended", m2 + " ended"}},
		{31, "", "m4", 1, nil},
		{42, client.ReasonTLS, "m4", 9, []string{m1 + " ended", m2 + " ended"}},
		{43, client.ReasonTLS, "m4", 1, []string{m1 + " ended", m2 + " ended", m4}}, // ten of ten, of one that had accepted
		{45, "", "m4", 1, []string{m1 + " ended", m2 + " ended", m4 + " ended"}},
		{70, client.ReasonTLS, "m4", 5, nil}, // what failed long ago counts no more: half of ten
		{70, "", "m4", 5, []string{m1 + " ended", m2 + " ended", m4 + " ended"}},
	} {
		for range step.times {
			attempts(start+step.at*minute, step.reason, step.of)
		}
		if step.want != nil {
			alarms(start+(step.at+1)*minute, append([]string{m0 + " ended"}, step.want...)...)
		}
	}
	want := []string{m0 + " ended", m1 + " ended", m2 + " ended", m4 + " ended"}
	for _, began := range []db.Millis{80, 110} { // two outages of one lane, while most attempts are accepted in the other
		for at := began; at < began+15; at++ {
			now := start + at*minute
			if at%2 == 0 {
				attempts(now, client.ReasonConnect, "m0")
			}
			for i := range 3 {
				_, one := asked(t, s, fmt.Sprint("w", at, " ", i), now+1000, now)
				must(s.Settle(ctx, []Settlement{answer(one, countersign.DecisionConfirmed, someDetails(t, "1"))}, now))(t)
			}
			if at == began+10 {
				want = append(want, "m0 connect"+fact)
			}
			alarms(now, want...)
		}
		attempts(start+(began+16)*minute, "", "m0")
		want[len(want)-1] += " ended"
		alarms(start+(began+17)*minute, want...)
	}
	if h := health("m3"); h.LastReached != 0 {
		t.Errorf("never called: %+v", h)
	}
}
