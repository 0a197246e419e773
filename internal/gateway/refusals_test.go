package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/book"
	"countersign/merchant"
)

// TestRefusalsAlarm: spliced, broken and contradictory callbacks raise alarms that
// name them. One row of each kind counts those that repeat.
func TestRefusalsAlarm(t *testing.T) {
	for unbound, splice := range map[bool]client.RefusalReason{true: "spliced", false: "binding_broken"} {
		eachRigOf(t, countersigntest.ServiceConfig{Unbound: unbound, UUIDFirst: true}, nil, func(t *testing.T, r *rig) {
			first, second, other := r.body(countersigntest.Deposit(1)), r.body(countersigntest.Deposit(2)), *countersigntest.Deposit(1)
			for _, honest := range [][]byte{first, second} {
				r.posts(merchant.DefaultNotifyPath, honest, countersign.CodeAccepted)
			}
			other.TenantUserID = "another"
			for range 2 {
				r.posts(merchant.DefaultNotifyPath, r.splice(first, second, 2), countersign.CodeMalformed)
				r.answers(&other, countersign.CodeDetailsDiffer)
			}
			r.wantRefused(map[client.RefusalReason]int64{splice: 2, "other_content": 2})
			r.wantAlarms(client.AlarmDepositRefused, client.AlarmDepositRefused, client.AlarmRequestSuspect)
			list := must(r.client.Alarms(t.Context(), client.AlarmFilter{}, client.PageOptions{}))(t)
			a := list.Items[0]
			causes := []string{other.TrackingID + " (other_content)", other.TrackingID + " (" + string(splice) + ")"}
			if !slices.Equal(slices.Sorted(slices.Values(a.Examples)), slices.Sorted(slices.Values(causes))) || a.Text == "" {
				t.Errorf("%+v", a)
			}
			r.wantNumbers(2, 2, 4)
		})
	}
}

// TestRefusalReasons: every reason of package merchant is either counted as a
// refusal or one of a callback that was acted on.
func TestRefusalReasons(t *testing.T) {
	acted := []merchant.Reason{
		merchant.ReasonAccepted, merchant.ReasonPossibleDuplicate, merchant.ReasonSuspect, merchant.ReasonConfirmed, merchant.ReasonRefused, merchant.ReasonHold,
		merchant.ReasonRepeated, merchant.ReasonEndedAgain, merchant.ReasonBusy, merchant.ReasonTimeout, merchant.ReasonPanic, merchant.ReasonFailed,
		merchant.ReasonInbox, merchant.ReasonSeal,
	}
	for i, reason := range acted {
		if reason.Refusal() || reason.Answered() != (i < 8) { // the first eight answer the service
			t.Errorf("%s: to package merchant a refusal: %v, answered: %v", reason, reason.Refusal(), reason.Answered())
		}
	}
	for _, reason := range client.Values[client.RefusalReason]() {
		if reason == client.RefusalLearning { // the gateway's own
			continue
		}
		acted = append(acted, merchant.Reason(reason))
		if r := merchant.Reason(reason); !r.Refusal() || r.Answered() {
			t.Errorf("%s is no refusal to package merchant", reason)
		}
	}
	slices.Sort(acted)
	if want := slices.Sorted(slices.Values(merchant.Reasons)); !slices.Equal(acted, want) {
		t.Errorf("known here: %v\nof the merchant: %v", acted, want)
	}
}

// TestAllRefused: three callbacks that were refused, or ten minutes of them, raise one alarm that names the commonest reason. One that is answered, here or at another
// node, prevents it, and strangers do not cause it.
func TestAllRefused(t *testing.T) {
	required := func(c *Config) { c.Callbacks.Profile.Binding = merchant.BindingRequired }
	eachUnbound(t, required, func(t *testing.T, strict *rig) {
		service := strict.service
		other := newRigOn(t, strict.db, service, func(c *Config) { c.Now = strict.clock.now }).to
		keep := func(after time.Duration) {
			t.Helper()
			strict.clock.advance(after)
			ok(t, strict.refusals.raise(t.Context()))
		}
		refuse := func() { strict.deliver(countersigntest.Deposit(1)) }

		service.Post(t.Context(), strict.to, merchant.DefaultNotifyPath, []byte("garbage"))
		keep(10 * time.Minute)
		strict.wantAlarms() // a single one may be a stranger's

		refuse()
		keep(5 * time.Minute)
		refuse()
		keep(4 * time.Minute)
		strict.wantAlarms(client.AlarmDepositRefused, client.AlarmRequestSuspect)
		if result := service.Deliver(t.Context(), other, countersigntest.Deposit(2)); result.Err != nil {
			t.Fatal(result.Err)
		}
		keep(2 * time.Minute)
		strict.wantAlarms(client.AlarmDepositRefused, client.AlarmRequestSuspect) // another node took one

		refuse()
		service.Post(t.Context(), strict.to, merchant.DefaultNotifyPath, []byte("garbage"))
		keep(time.Second)
		strict.wantAlarms(client.AlarmDepositRefused, client.AlarmRequestSuspect) // of two, the second may be a stranger's
		refuse()
		keep(time.Second)
		strict.wantAlarms(client.AlarmDepositRefused, client.AlarmRequestSuspect, client.AlarmAllRefused)
		list, err := strict.client.Alarms(t.Context(), client.AlarmFilter{}, client.PageOptions{})
		if a := list.Items[0]; err != nil || a.Subject != "not_bound" || !strings.Contains(a.Text, "--learn") {
			t.Errorf("%+v, %v", a, err)
		}
		if a := list.Items[1]; a.Subject != countersigntest.Deposit(1).TrackingID+" (not_bound)" || !strings.Contains(a.Text, "--binding seen") {
			t.Errorf("%+v", a)
		}
		keep(10 * time.Minute)
		strict.wantNumbers(4, 4, 1) // nothing came
		// The log tells of it once an hour, and of each refusal with the setting.
		for i, after := range []time.Duration{time.Second, time.Hour} {
			for range 3 {
				refuse()
			}
			keep(after)
			strict.wantNumbers(4+3*int64(i+1), 4+3*int64(i+1), 2+int64(i))
			if log := strict.log.String(); strings.Count(log, "advice=") != 1+i || !strings.Contains(log, `setting="--provider other, or --binding seen`) {
				t.Errorf("log:\n%s", log)
			}
		}
	})
}

// TestFloods: whoever sends requests that raise one alarm keeps no other from being raised, and takes no more memory
// while the database is away. What is refused for one reason fills neither the table, the log nor the room of another.
func TestFloods(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), nil)
	kept := 0
	for range 2 * book.MaxRefusedRows {
		if r.refusals.takes(book.Refused{RefusedCallback: client.RefusedCallback{Reason: "spliced", Body: "x"}}, "") {
			kept++
		}
	}
	if lines := strings.Count(r.log.String(), "\n"); kept != book.MaxRefusedRows || lines != 1 ||
		!r.refusals.takes(book.Refused{RefusedCallback: client.RefusedCallback{Reason: "malformed"}}, "") {
		t.Errorf("%d would be kept, and the log has %d lines", kept, lines)
	}
	away, cancel := context.WithCancel(t.Context())
	cancel()
	const requests = 1000
	for range 3 {
		for range requests {
			r.refusals.Observe(merchant.Observation{Reason: merchant.ReasonSignatureInvalid})
		}
		r.refusals.Observe(merchant.Observation{Reason: merchant.ReasonAccepted}) // so that not all are refused
		if err := r.refusals.raise(away); err == nil {
			t.Fatal("it was raised while the database was away")
		}
		if n := len(r.refusals.alarms); n != 1 {
			t.Fatalf("%d alarms wait", n)
		}
	}
	r.refusals.mu.Lock()
	r.refusals.alarm(client.AlarmDepositRefused, "other_content")
	r.refusals.mu.Unlock()
	ok(t, r.refusals.raise(t.Context()))
	r.wantAlarms(client.AlarmRequestSuspect, client.AlarmDepositRefused)
	r.wantNumbers(3*requests, 1)
}

// wantRefused wants these numbers of refused requests, and their alarms to be raised.
func (r *rig) wantRefused(want map[client.RefusalReason]int64) {
	r.t.Helper()
	ok(r.t, r.refusals.raise(r.t.Context()))
	got := map[client.RefusalReason]int64{}
	for _, x := range all(r.t, client.All(r.t.Context(), r.client.Refused, client.RefusedFilter{})) {
		got[x.Reason] += x.Number
	}
	if !maps.Equal(got, want) {
		r.t.Fatalf("refused are %v, want %v", got, want)
	}
}
