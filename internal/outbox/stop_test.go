package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/endtest"
)

// stops are what may happen to a merchant between a question and its answer, with
// what ends it and the reason of an answer that comes meanwhile.
var stops = []struct {
	name       string
	reason     client.Reason
	begin, end func(s *Outbox) error
}{
	{"pause", client.ReasonPaused, pauseM0, resumeM0},
	{"freeze", client.ReasonFrozen, freezeAll, thawAll},
	{"pause and resume", client.ReasonOlderVersion, func(s *Outbox) error { return errors.Join(pauseM0(s), resumeM0(s)) }, nil},
	{"freeze and pause", client.ReasonFrozen, func(s *Outbox) error { return errors.Join(freezeAll(s), pauseM0(s)) },
		func(s *Outbox) error { return errors.Join(thawAll(s), resumeM0(s)) }},
	{"another URL", client.ReasonOlderVersion, changeM0(func(m *Merchant) { m.WithdrawURL = "https://elsewhere.example/withdraw" }), nil},
	{"another API key", client.ReasonOlderVersion, changeM0(func(m *Merchant) { m.APIKey = "another-api-key" }), nil},
	{"another key", client.ReasonOlderVersion, changeM0(func(m *Merchant) { m.ResponseKey = testPair() }), nil},
}

func pauseM0(s *Outbox) error {
	_, err := s.SetMerchantState(ctx, "m0", client.MerchantPaused, "asked for it", 2000)
	return err
}

func resumeM0(s *Outbox) error {
	_, err := s.SetMerchantState(ctx, "m0", client.MerchantActive, "", 2000)
	return err
}

func freezeAll(s *Outbox) error { _, err := s.Freeze(ctx, "a test", "tok_1", 2000); return err }
func thawAll(s *Outbox) error   { return s.Thaw(ctx, 2000) }

func changeM0(change func(*Merchant)) func(*Outbox) error {
	return func(s *Outbox) error {
		_, err := s.UpdateMerchant(ctx, "m0", 2000, func(m *Merchant) error { change(m); return nil })
		return err
	}
}

// testStopped: an answer that comes while its merchant is stopped, or was asked for
// under an older version of it, decides nothing and costs nothing. Afterwards the same
// question is decided.
func testStopped(t *testing.T, s *Outbox) {
	other := another(t, s)
	addMerchants(t, s, 1, nil)
	details := someDetails(t, "1")
	before := db.Millis(1000)
	for _, stop := range stops {
		for _, said := range []countersign.Decision{countersign.DecisionConfirmed, countersign.DecisionDeclined} {
			name := fmt.Sprintf("%s, %s", stop.name, said)
			before += 5000
			w, one := asked(t, s, name, 500_000, before)
			ok(t, stop.begin(other))
			n := answer(one, said, details)
			n.Alarm, n.Counts = "details_differ", true
			raised := raisedOf(t, s, client.AlarmAnswerDiffers)
			done := must(s.Settle(ctx, []Settlement{n}, before+1))(t)[0]
			if done != (Settled{Applied: true, Stopped: stop.reason}) {
				t.Errorf("%s: settled %+v, want %s", name, done, stop.reason)
			}
			if again := must(s.Settle(ctx, []Settlement{n}, before+2))(t)[0]; again != (Settled{Applied: true}) {
				t.Errorf("%s: settled again %+v", name, again)
			}
			if got := must(s.Withdrawal(ctx, w.ID))(t); got.State != client.WithdrawalAwaiting || got.Decision != "" || got.Details != nil {
				t.Errorf("%s: it is %+v", name, got)
			}
			c := must(s.Callback(ctx, w.ID))(t)
			if c.State != client.CallbackPending || c.Failed != 0 || c.Due > before+1 || c.LastReason != stop.reason {
				t.Errorf("%s: its callback is %+v", name, c)
			}
			if a := must(s.Attempts(ctx, w.ID))(t); len(a) != 1 || a[0].Result != "retry" || a[0].Reason != stop.reason || a[0].Late {
				t.Errorf("%s: attempts %+v", name, a)
			}
			if n := raisedOf(t, s, client.AlarmAnswerDiffers); n != raised {
				t.Errorf("%s: it raised %d", name, n-raised)
			}
			if stop.end != nil {
				if got := claim(t, s, countersign.LaneWithdraw, before+3, 100); len(got) != 0 {
					t.Errorf("%s: claimed %+v", name, got)
				}
				if due := must(s.NextDue(ctx, countersign.LaneWithdraw, 0))(t); due != db.Never {
					t.Errorf("%s: something is due at %d", name, due)
				}
				ok(t, stop.end(other))
			}
			two := claim(t, s, countersign.LaneWithdraw, before+2000, 100)
			if len(two) != 1 || two[0].ID != w.ID || two[0].Failed != 0 {
				t.Fatalf("%s: claimed again %+v", name, two)
			}
			done = must(s.Settle(ctx, []Settlement{answer(two[0], said, details)}, before+2001))(t)[0]
			if done != (Settled{Applied: true, Decision: said}) {
				t.Errorf("%s: settled afterwards %+v", name, done)
			}
			if l := lanesOf(t, s)[1]; l.InFlight != 0 {
				t.Errorf("%s: the lane has %+v", name, l)
			}
		}
	}
	if got := must(s.Decisions(ctx, 0, 100))(t); len(got) != 2*len(stops) {
		t.Errorf("%d decisions", len(got))
	}
}

// testFreeze: the first freeze stands with its reason, stops both lanes and raises an
// alarm.
func testFreeze(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "a", 10)}, 10))(t)
	want := client.Freeze{Frozen: true, At: 2000, By: "tok_1", Reason: "a test"}
	for _, reason := range []string{"a test", "another"} {
		if f := must(s.Freeze(ctx, reason, "tok_1", 2000))(t); f != want {
			t.Errorf("frozen %+v", f)
		}
	}
	if f := must(another(t, s).Frozen(ctx))(t); f != want {
		t.Errorf("another node sees %+v", f)
	}
	if got := must(endtest.Alarms(ctx, s))(t); len(got) != 1 || got[0].Kind != client.AlarmFrozen || got[0].Subject != "a test" || got[0].Merchant != "" {
		t.Errorf("alarms %+v", got)
	}
	if got := claim(t, s, countersign.LaneNotify, 2001, 10); len(got) != 0 {
		t.Errorf("claimed %+v", got)
	}
	wake, stop := s.Watch(TopicOf(countersign.LaneNotify))
	defer stop()
	for range 2 {
		ok(t, s.Thaw(journal.By(ctx, journal.Actor{Token: "tok_2"}), 2000))
	}
	select {
	case <-wake:
	default:
		t.Error("nobody was woken")
	}
	if got := must(endtest.Alarms(ctx, s))(t)[1:]; len(got) != 1 || got[0].Kind != client.AlarmControlChanged || got[0].Subject != "the freeze of 1970-01-01T00:00:02Z was ended, by tok_2" || got[0].Merchant != "" {
		t.Errorf("alarms of the end of it %+v", got)
	}
	if f := must(s.Frozen(ctx))(t); f != (client.Freeze{}) {
		t.Errorf("thawed: %+v", f)
	}
	if got := claim(t, s, countersign.LaneNotify, 2002, 10); len(got) != 1 {
		t.Errorf("claimed after the thaw %+v", got)
	}
	for _, text := range []string{"a\x00", "\xff", strings.Repeat("a", 2000)} {
		if _, err := s.Freeze(ctx, text, "tok_1", 1); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("reason %.10q gives %v", text, err)
		}
	}
}

// TestStopsAreInOrder: a freeze waits for a decision that is being made, and a decision
// that begins after it waits for the freeze.
func TestStopsAreInOrder(t *testing.T) {
	url := endtest.Postgres(End())(t) // SQLite has one writer
	s, other := openAt(t, url), openAt(t, url)
	looked, goOn, frozen := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	end := sync.OnceFunc(func() { close(goOn) })
	defer end()
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			_, look := s.lookAt([]string{"m0"})
			if err := x.Batch(ctx, look); err != nil {
				return err
			}
			close(looked)
			<-goOn
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-looked
	go func() { frozen <- freezeAll(other) }()
	waits := func() bool {
		var n int64
		must(db.One(ctx, s, `SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'frozen'::regclass`, nil, &n))(t)
		return n > 0
	}
	for !waits() {
		select {
		case err := <-frozen:
			t.Fatalf("frozen beside a decision: %v", err)
		default:
		}
	}
	end()
	wg.Wait()
	ok(t, <-frozen)
}
