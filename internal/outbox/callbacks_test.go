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
	"countersign/internal/lab/dbtest"
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

// testResend: a callback that ended is due at once and its schedule begins anew, and so is one that waits for its next
// attempt; a question keeps its deadline and is asked only once. A filter reaches those that Resend would take.
func testResend(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	refused, exhausted := ended(t, s, "r", client.CallbackRefused, 100), ended(t, s, "e", client.CallbackExhausted, 101)
	waits, accepted := claimOne(t, s, "w", 102), claimOne(t, s, "a", 103)
	again(t, s, waits, 104, dayOf)
	settleAll(t, s, []Claimed{accepted}, 104)
	_, ask := asked(t, s, "ask", 2*dayOf, 105)
	dbtest.Fails(s.Resend(ctx, ask.ID, 105))(t, db.ErrConflict, "is sending")
	again(t, s, ask, 106, dayOf)
	w, decided := asked(t, s, "decided", 50_000, 107)
	must(s.Settle(ctx, []Settlement{answer(decided, countersign.DecisionDeclined, nil)}, 108))(t)
	told := claim(t, s, countersign.LaneNotify, 109, 1) // of that decision
	settleAll(t, s, told, 110)

	for _, c := range []struct {
		f    client.CallbackFilter
		want int64
	}{
		{client.CallbackFilter{}, 4}, {client.CallbackFilter{State: client.CallbackPending}, 2},
		{client.CallbackFilter{State: client.CallbackRefused}, 1}, {client.CallbackFilter{State: client.CallbackAccepted}, 0},
		{client.CallbackFilter{Type: countersign.TypeRequestWithdraw}, 1}, {client.CallbackFilter{TrackingID: "e"}, 1},
		{client.CallbackFilter{Merchant: "m0", TxID: "tx-r", State: client.CallbackExhausted}, 0},
	} {
		if n, err := s.ResendMatching(ctx, nil, c.f, true, 200); err != nil || n != c.want {
			t.Errorf("%+v selects %d, %v, want %d", c.f, n, err, c.want)
		}
	}
	states := map[string]client.CallbackState{refused.ID: client.CallbackRefused, exhausted.ID: client.CallbackExhausted,
		waits.ID: client.CallbackPending}
	for _, byFilter := range []bool{false, true} {
		now := db.Millis(300)
		if byFilter { // all as before
			now = 400
			for _, c := range claim(t, s, countersign.LaneNotify, 350, 3) {
				n := settlementOf(c)
				n.State, n.Due, n.Counts, n.Held = states[c.ID], dayOf, true, true
				must(s.Settle(ctx, []Settlement{n}, 351))(t)
			}
			again(t, s, claim(t, s, countersign.LaneWithdraw, 350, 1)[0], 351, dayOf)
			if n, err := s.ResendMatching(ctx, nil, client.CallbackFilter{}, false, now); err != nil || n != 4 {
				t.Errorf("by filter: %d, %v", n, err)
			}
		}
		for _, c := range []Claimed{refused, exhausted, waits, ask} {
			wake, stop := s.Watch(TopicOf(c.Type.Lane()))
			for range 2 { // the second changes nothing
				got := must(s.Resend(ctx, c.ID, now))(t)
				if got.State != client.CallbackPending || got.Due != now || got.Failed != 0 || got.Settled != 0 || got.Deadline != db.Shown(c.Deadline) {
					t.Errorf("resent: %+v", got)
				}
			}
			if stop(); !byFilter {
				woken(t, wake)
			}
		}
	}
	got := append(claim(t, s, countersign.LaneNotify, 401, 10), claim(t, s, countersign.LaneWithdraw, 401, 10)...)
	for _, c := range got {
		if c.Failed != 0 || c.Held != 0 || c.Attempt != 3 {
			t.Errorf("claimed %+v", c)
		}
	}
	if n := finals(t, s, countersign.LaneNotify); len(got) != 4 || n != [4]int64{2, 0, 0, 0} || lanesOf(t, s)[0].InFlight != 3 {
		t.Errorf("claimed %d; ended: %v", len(got), n)
	}
	for id, want := range map[string]error{got[0].ID: db.ErrConflict, ask.ID: db.ErrConflict, accepted.ID: db.ErrConflict,
		w.Callback: db.ErrConflict, "m0." + strings.Repeat("0", 26): db.ErrNotFound} {
		if _, err := s.Resend(ctx, id, 500); !errors.Is(err, want) {
			t.Errorf("resending %s gives %v", id, err)
		}
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
