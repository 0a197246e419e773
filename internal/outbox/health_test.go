package outbox

import (
	"fmt"
	"slices"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// TestHealth: what attempts say of a merchant is by the clock, whatever the reason: an alarm
// after ten minutes without an acceptance, or when half of twenty failed, and one again only
// after the merchant was well.
func TestHealth(t *testing.T) {
	for _, dialect := range dialects {
		t.Run(dialect.name, func(t *testing.T) {
			s := openAt(t, dialect.url(t))
			addMerchants(t, s, 5, nil)
			const start = 1000 * minute
			n := 0
			// attempts makes one attempt for each merchant of list; those of reason "" are accepted.
			attempts := func(now db.Millis, reason client.Reason, list ...string) {
				t.Helper()
				var batch []Settlement
				for _, m := range list {
					n++
					must(s.Ingest(ctx, []NewCallback{deposit(m, fmt.Sprint("d", n), now)}, now))(t)
				}
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
				if got := alarmsOf(t, s, client.AlarmMerchantFailing); !slices.Equal(got, want) {
					t.Errorf("at %d: alarms %q, want %q", now-start, got, want)
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
			alarms(start+11*minute, "m0 response_malformed: errCode is not a whole number")
			alarms(start+14*minute, "m0 response_malformed: errCode is not a whole number")
			if h := health("m0"); !h.Failing {
				t.Errorf("the alarm is not noted: %+v", h)
			}
			attempts(start+15*minute, "", "m0")
			alarms(start+16*minute, "m0 response_malformed: errCode is not a whole number ended")
			if h := health("m0"); h.Failing || h.FailingSince != 0 || h.LastAccepted != start+15*minute {
				t.Errorf("well again: %+v", h)
			}
			// Half of twenty: the last one was accepted.
			for range 10 {
				attempts(start+20*minute, client.ReasonTimeout, "m1")
			}
			for range 9 {
				attempts(start+20*minute, "", "m1")
			}
			alarms(start+21*minute, "m0 response_malformed: errCode is not a whole number ended")
			attempts(start+21*minute, "", "m1")
			alarms(start+22*minute, "m0 response_malformed: errCode is not a whole number ended", "m1 timeout: errCode is not a whole number")
			for range 10 { // a third: it would come and go
				attempts(start+22*minute, "", "m1")
			}
			alarms(start+23*minute, "m0 response_malformed: errCode is not a whole number ended", "m1 timeout: errCode is not a whole number")
			for range 11 { // under a quarter
				attempts(start+23*minute, "", "m1")
			}
			alarms(start+24*minute, "m0 response_malformed: errCode is not a whole number ended", "m1 timeout: errCode is not a whole number ended")
			// Three failed, and nothing was ever accepted.
			attempts(start+25*minute, client.ReasonConnect, "m2")
			attempts(start+25*minute, client.ReasonConnect, "m2")
			alarms(start+26*minute, "m0 response_malformed: errCode is not a whole number ended", "m1 timeout: errCode is not a whole number ended")
			attempts(start+26*minute, client.ReasonConnect, "m2")
			alarms(start+27*minute, "m0 response_malformed: errCode is not a whole number ended", "m1 timeout: errCode is not a whole number ended", "m2 connect: errCode is not a whole number")
			attempts(start+28*minute, "", "m2")
			alarms(start+29*minute, "m0 response_malformed: errCode is not a whole number ended", "m1 timeout: errCode is not a whole number ended", "m2 connect: errCode is not a whole number ended")
			// Ten of ten failed, of one that had accepted; nine say nothing yet.
			attempts(start+31*minute, "", "m4")
			for range 9 {
				attempts(start+42*minute, client.ReasonTLS, "m4")
			}
			alarms(start+43*minute, "m0 response_malformed: errCode is not a whole number ended", "m1 timeout: errCode is not a whole number ended", "m2 connect: errCode is not a whole number ended")
			attempts(start+43*minute, client.ReasonTLS, "m4")
			alarms(start+44*minute, "m0 response_malformed: errCode is not a whole number ended", "m1 timeout: errCode is not a whole number ended", "m2 connect: errCode is not a whole number ended",
				"m4 tls: errCode is not a whole number")
			attempts(start+45*minute, "", "m4")
			alarms(start+46*minute, "m0 response_malformed: errCode is not a whole number ended", "m1 timeout: errCode is not a whole number ended", "m2 connect: errCode is not a whole number ended",
				"m4 tls: errCode is not a whole number ended")
			// What failed long ago counts no more: half of ten.
			attempts(start+70*minute, client.ReasonTLS, "m4", "m4", "m4", "m4", "m4")
			attempts(start+70*minute, "", "m4", "m4", "m4", "m4", "m4")
			alarms(start+71*minute, "m0 response_malformed: errCode is not a whole number ended", "m1 timeout: errCode is not a whole number ended", "m2 connect: errCode is not a whole number ended",
				"m4 tls: errCode is not a whole number ended")
			if h := health("m3"); h.LastReached != 0 {
				t.Errorf("never called: %+v", h)
			}
		})
	}
}
