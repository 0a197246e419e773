package outbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// ended brings a new deposit to a final state other than accepted.
func ended(t testing.TB, s *Outbox, event string, state client.CallbackState, now db.Millis) Claimed {
	t.Helper()
	one := claimOne(t, s, event, now)
	n := settlementOf(one)
	n.State, n.Counts = state, true
	must(s.Settle(ctx, []Settlement{n}, now))(t)
	return one
}

func testCallbackLists(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	ended(t, s, "refused", client.CallbackRefused, 100)
	ended(t, s, "exhausted", client.CallbackExhausted, 101)
	settleAll(t, s, []Claimed{claimOne(t, s, "accepted", 102)}, 102)
	claimOne(t, s, "sending", 103)
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "pending", 104)}, 104))(t)
	must(s.Ingest(ctx, []NewCallback{deposit("m1", "accepted", 105)}, 105))(t) // same event, another merchant
	notice := NewCallback{Merchant: "m1", Type: countersign.TypeWithdraw, EventID: "cb1", TrackingID: "accepted", TxID: "tx-refused", CallBackID: "cb1",
		Payload: []byte("n"), Due: 1, Deadline: db.Never}
	must(s.Ingest(ctx, []NewCallback{notice}, 106))(t)
	addWithdrawal(t, s, newWithdrawal("cb1", 9000, nil), 107)

	for _, c := range []struct {
		name  string
		f     client.CallbackFilter
		limit int
		want  string
	}{
		{"all", client.CallbackFilter{}, 3, "cb1 cb1 accepted | pending sending accepted | exhausted refused"},
		{"of a merchant", client.CallbackFilter{Merchant: "m1"}, 10, "cb1 accepted"},
		{"of nobody", client.CallbackFilter{Merchant: "nobody"}, 10, ""},
		{"of a type", client.CallbackFilter{Type: countersign.TypeDeposited}, 4, "accepted pending sending accepted | exhausted refused"},
		{"of a rare type", client.CallbackFilter{Type: countersign.TypeWithdraw}, 4, "cb1"},
		{"of a rare type of a merchant", client.CallbackFilter{Type: countersign.TypeRequestWithdraw, Merchant: "m0"}, 4, "cb1"},
		{"of a rare type of another", client.CallbackFilter{Type: countersign.TypeRequestWithdraw, Merchant: "m1"}, 4, ""},
		{"pending", client.CallbackFilter{State: client.CallbackPending}, 2, "cb1 cb1 | accepted pending"},
		{"pending of a merchant", client.CallbackFilter{State: client.CallbackPending, Merchant: "m0"}, 9, "cb1 pending"},
		{"sending", client.CallbackFilter{State: client.CallbackSending}, 9, "sending"},
		{"accepted", client.CallbackFilter{State: client.CallbackAccepted}, 9, "accepted"},
		{"refused", client.CallbackFilter{State: client.CallbackRefused}, 9, "refused"},
		{"exhausted", client.CallbackFilter{State: client.CallbackExhausted, Merchant: "m0"}, 9, "exhausted"},
		{"cancelled", client.CallbackFilter{State: client.CallbackCancelled}, 9, ""},
		{"trackingId", client.CallbackFilter{TrackingID: "accepted"}, 2, "cb1 accepted | accepted"},
		{"trackingId of a merchant", client.CallbackFilter{TrackingID: "accepted", Merchant: "m0"}, 2, "accepted"},
		{"trackingId and state", client.CallbackFilter{TrackingID: "accepted", State: client.CallbackPending}, 9, "cb1 accepted"},
		{"trackingId and type", client.CallbackFilter{TrackingID: "accepted", Type: countersign.TypeWithdraw}, 9, "cb1"},
		{"txId", client.CallbackFilter{TxID: "tx-refused"}, 9, "cb1 refused"},
		{"txId and trackingId", client.CallbackFilter{TxID: "tx-refused", TrackingID: "refused"}, 9, "refused"},
		{"txId and state", client.CallbackFilter{TxID: "tx-refused", State: client.CallbackRefused, Merchant: "m0"}, 9, "refused"},
		{"callBackId", client.CallbackFilter{CallBackID: "cb1"}, 9, "cb1 cb1"},
		{"callBackId and merchant", client.CallbackFilter{CallBackID: "cb1", Merchant: "m0"}, 9, "cb1"},
		{"nothing like it", client.CallbackFilter{TxID: "nothing"}, 9, ""},
	} {
		var pages []string
		var whole []Callback
		for cursor := ""; ; {
			list, next, err := s.Callbacks(ctx, nil, c.f, c.limit, cursor)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			whole = append(whole, list...)
			var page []string
			for _, one := range list {
				page = append(page, one.EventID)
				if single := must(s.Callback(ctx, one.ID))(t); fmt.Sprint(single) != fmt.Sprint(one) {
					t.Errorf("%s: listed\n%+v, alone\n%+v", c.name, one, single)
				}
			}
			pages = append(pages, strings.Join(page, " "))
			if next == "" {
				break
			}
			cursor = next
		}
		if got := strings.Join(pages, " | "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		for _, span := range [][2]db.Millis{{102, 0}, {0, 105}, {101, 106}, {103, 103}, {900, 0}, {0, 1}} { // a list of a time has its rows of the whole
			f := c.f
			f.Since, f.Until = span[0], span[1]
			var got, want, of []string
			if f.Merchant == "" && f.Since != 0 {
				of = []string{"m0", "m1"}
			}
			for _, one := range whole {
				if one.Created >= f.Since && (f.Until == 0 || one.Created < f.Until) {
					want = append(want, one.ID)
				}
			}
			for cursor, pages := "", 0; pages < 20; pages++ {
				list, next, err := s.Callbacks(ctx, of, f, 2, cursor)
				if err != nil {
					t.Fatal(err)
				}
				for _, one := range list {
					got = append(got, one.ID)
				}
				if cursor = next; next == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s from %d until %d: %v, want %v", c.name, f.Since, f.Until, got, want)
			}
		}
	}
	for name, f := range map[string]client.CallbackFilter{"a state that is none": {State: "'"}, "a NUL": {TxID: "\x00"}} {
		if _, _, err := s.Callbacks(ctx, nil, f, 9, ""); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{}, 9, "nonsense"); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a cursor that is none: %v", err)
	}
}

func testResend(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	for i, state := range []client.CallbackState{client.CallbackRefused, client.CallbackExhausted} {
		now := db.Millis(100 + 10*i)
		one := ended(t, s, string(state), state, now)
		c := must(s.Resend(ctx, one.ID, now+1))(t)
		if c.State != client.CallbackPending || c.Due != now+1 || c.Failed != 0 || c.Attempt != 1 || c.Settled != 0 {
			t.Errorf("resent %+v", c)
		}
		again := claim(t, s, countersign.LaneNotify, now+1, 1)
		if len(again) != 1 || again[0].Attempt != 2 || again[0].Failed != 0 {
			t.Errorf("claimed %+v", again)
		}
		if _, err := s.Resend(ctx, one.ID, now+2); !errors.Is(err, db.ErrConflict) {
			t.Errorf("resending what is sending gives %v", err)
		}
		settleAll(t, s, again, now+3)
		if _, err := s.Resend(ctx, one.ID, now+4); !errors.Is(err, db.ErrConflict) {
			t.Errorf("resending what is accepted gives %v", err)
		}
	}
	if n := finals(t, s, countersign.LaneNotify); n != [4]int64{2, 0, 0, 0} || lanesOf(t, s)[0].InFlight != 0 {
		t.Errorf("ended: %v", n)
	}
	w, one := asked(t, s, "cb", 50_000, 500)
	must(s.Settle(ctx, []Settlement{answer(one, countersign.DecisionDeclined, nil)}, 510))(t)
	if _, err := s.Resend(ctx, w.Callback, 520); !errors.Is(err, db.ErrConflict) {
		t.Errorf("asking again after a decision gives %v", err)
	}
	if _, err := s.Resend(ctx, "m0."+strings.Repeat("0", 26), 1); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("resending nothing gives %v", err)
	}
}

// again settles one as failed, to be asked again at due.
func again(t testing.TB, s *Outbox, one Claimed, now, due db.Millis) {
	t.Helper()
	n := settlementOf(one)
	n.State, n.Counts, n.Held, n.Due = client.CallbackPending, true, true, due
	must(s.Settle(ctx, []Settlement{n}, now))(t)
}

const dayOf db.Millis = 24 * 3_600_000

// testResendPending: what waits for its next attempt is due at once, and its schedule
// begins anew; a withdrawal's question keeps its deadline.
func testResendPending(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	one := claimOne(t, s, "a", 100)
	again(t, s, one, 110, 110+dayOf)
	_, ask := asked(t, s, "cb", 2*dayOf, 120)
	again(t, s, ask, 130, 130+dayOf)
	for _, c := range []Claimed{one, ask} {
		lane := c.Type.Lane()
		if got := claim(t, s, lane, 200, 10); len(got) != 0 {
			t.Errorf("claimed too early: %+v", got)
		}
		wake, stop := s.Watch(TopicOf(lane))
		for range 2 { // the second changes nothing
			got := must(s.Resend(ctx, c.ID, 200))(t)
			if got.State != client.CallbackPending || got.Due != 200 || got.Failed != 0 || got.Attempt != 1 || got.Deadline != db.Shown(c.Deadline) {
				t.Errorf("moved up: %+v", got)
			}
		}
		<-wake
		stop()
		got := claim(t, s, lane, 200, 10)
		if len(got) != 1 || got[0].ID != c.ID || got[0].Held != 0 {
			t.Fatalf("claimed %+v", got)
		}
		if _, err := s.Resend(ctx, c.ID, 210); !errors.Is(err, db.ErrConflict) {
			t.Errorf("what is sending: %v", err)
		}
		again(t, s, got[0], 220, 220+dayOf)
	}
	refused := ended(t, s, "r", client.CallbackRefused, 230)
	for _, c := range []struct {
		f    client.CallbackFilter
		want int64
	}{
		{client.CallbackFilter{State: client.CallbackPending}, 2},
		{client.CallbackFilter{Type: countersign.TypeRequestWithdraw}, 1},
		{client.CallbackFilter{State: client.CallbackRefused}, 1},
		{client.CallbackFilter{Merchant: "m0"}, 3},
	} {
		if n, err := s.ResendMatching(ctx, nil, c.f, true, 300); err != nil || n != c.want {
			t.Errorf("%+v selects %d, %v, want %d", c.f, n, err, c.want)
		}
	}
	if n, err := s.ResendMatching(ctx, nil, client.CallbackFilter{Merchant: "m0"}, false, 300); err != nil || n != 3 {
		t.Errorf("resent %d, %v", n, err)
	}
	if n, err := s.ResendMatching(ctx, nil, client.CallbackFilter{Merchant: "m0"}, false, 301); err != nil || n != 0 {
		t.Errorf("once more: %d, %v", n, err)
	}
	got := append(claim(t, s, countersign.LaneNotify, 302, 10), claim(t, s, countersign.LaneWithdraw, 302, 10)...)
	if len(got) != 3 {
		t.Errorf("claimed %d, want 3", len(got))
	}
	if n := finals(t, s, countersign.LaneNotify); n != [4]int64{} || lanesOf(t, s)[0].InFlight != 2 {
		t.Errorf("ended: %v; refused was %s", n, refused.ID)
	}
}

func testResendMatching(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	for i := range 4 {
		ended(t, s, fmt.Sprint("r", i), client.CallbackRefused, db.Millis(100+i))
		ended(t, s, fmt.Sprint("e", i), client.CallbackExhausted, db.Millis(100+i))
	}
	settleAll(t, s, []Claimed{claimOne(t, s, "fine", 400)}, 400)
	_, one := asked(t, s, "cb", 50_000, 500)
	must(s.Settle(ctx, []Settlement{answer(one, countersign.DecisionDeclined, nil)}, 510))(t)
	for i, f := range []client.CallbackFilter{{State: client.CallbackAccepted}, {Type: countersign.TypeRequestWithdraw}, {Merchant: "m0", TxID: "tx-r1", State: client.CallbackExhausted},
		{TrackingID: "e2"}, {State: client.CallbackRefused}, {}} {
		want := []int64{0, 0, 0, 1, 4, 3}[i]
		for _, dryRun := range []bool{true, false} {
			if n, err := s.ResendMatching(ctx, nil, f, dryRun, 700); err != nil || n != want {
				t.Errorf("%+v, dry run %v: %d, %v, want %d", f, dryRun, n, err, want)
			}
		}
	}
	// These, and the one that tells of the declined withdrawal.
	if got := claim(t, s, countersign.LaneNotify, 700, 100); len(got) != 9 {
		t.Errorf("claimed %d", len(got))
	}
	if n := finals(t, s, countersign.LaneNotify); n != [4]int64{1, 0, 0, 0} {
		t.Errorf("ended: %v", n)
	}
}
