package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// world is two dispatchers over one real store, taken apart into their steps, so
// that the steps come in any order and a crash can come between any two.
type world struct {
	s        *outbox.Outbox
	merchant string
	ready    *merchant
	now      db.Millis
	nodes    [2][]*heldAttempt
	next     int                 // number of the next callback
	lost     int                 // leases
	late     int                 // settlements
	old      map[string][][]byte // answers that the merchant gave before, by callback

	// What must hold is told from outside the store.
	ids       []string             // of all accepted callbacks
	leases    map[string]db.Millis // of callbacks that are being attempted
	signed    map[string]bool      // withdrawals that the merchant countersigned in time, as ordered
	decisions map[string]countersign.Decision
	permits   map[string]outbox.Permit
	claims    map[string]string
	deadlines map[string]db.Millis
}

// heldAttempt is what one node knows of one attempt.
type heldAttempt struct {
	claimed outbox.Claimed
	q       Question
	settle  *outbox.Settlement
	signs   bool // the answer is a right one, and was there before the deadline
}

var worlds atomic.Int64

func TestPropertyInterleavings(t *testing.T) {
	d, err := db.Open(t.Context(), db.Config{URL: dbtest.SQLite(t), Keys: db.NewMasterKey([32]byte{1})}, outbox.End())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := outbox.New(d)
	pair := testPair()
	happened := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		if dbtest.Race && happened["world"] == 15 {
			return // the race detector makes the database several times slower
		}
		happened["world"]++
		w := &world{
			s: s, merchant: fmt.Sprintf("w%d", worlds.Add(1)), now: 1_800_000_000_000,
			old: map[string][][]byte{}, leases: map[string]db.Millis{}, signed: map[string]bool{}, decisions: map[string]countersign.Decision{},
			permits: map[string]outbox.Permit{}, claims: map[string]string{}, deadlines: map[string]db.Millis{},
		}
		row := testStoreMerchant(w.merchant, pair, "https://"+w.merchant+".example")
		row.Concurrency = rapid.IntRange(1, 5).Draw(t, "concurrency")
		row.Retry = &client.Retry{Notify: ownSchedule(0, 0, 1000, 5000, 5000, 5000, 5000, 5000, 5000)}
		row, err := s.CreateMerchant(t.Context(), row, w.now)
		w.must(t, err)
		w.ready, err = newMerchant(row, TargetRules{})
		w.must(t, err)
		defer func() { // the next world claims nothing of this one
			_, err := s.SetMerchantState(context.Background(), w.merchant, client.MerchantPaused, "over", w.now)
			w.must(t, err)
		}()
		// Something is under way from the start.
		for range 3 {
			w.withdrawal(t)
		}
		w.deposit(t)
		w.take(t, 0, countersign.LaneWithdraw, 2)
		w.take(t, 1, countersign.LaneNotify, 2)
		t.Repeat(map[string]func(*rapid.T){
			"deposit": w.deposit, "withdrawal": w.withdrawal, "claim": w.claim, "post": w.post, "settle": w.settle,
			"claim too": w.claim, "post too": w.post, "settle too": w.settle,
			"give back": w.giveBack, "crash": w.crash, "time": w.time, "sweep": w.sweep, "cancel": w.cancel, "release": w.release,
			"": w.check,
		})
		w.finish(t)
		for _, d := range w.decisions {
			happened[string(d)]++
		}
		happened["permit"] += len(w.permits)
		happened["lost"] += w.lost
		happened["late"] += w.late
	})
	// A world in which nothing happens proves nothing. The short tests have too
	// few worlds for everything to happen.
	for _, what := range []string{"confirmed", "declined", "expired", "cancelled", "permit", "lost", "late"} {
		if happened[what] == 0 && !t.Failed() && !dbtest.Race && !testing.Short() {
			t.Errorf("%s never happened", what)
		}
	}
	t.Log(happened)
}

func (w *world) must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) deposit(t *rapid.T) {
	w.next++
	c := depositPayload(noTB{}, w.next)
	c.Merchant = w.merchant
	got, err := w.s.Ingest(t.Context(), []outbox.NewCallback{c}, w.now)
	w.must(t, err)
	w.ids = append(w.ids, got[0].ID)
}

func (w *world) withdrawal(t *rapid.T) {
	w.next++
	n := withdrawalPayload(noTB{}, w.next)
	n.Merchant = w.merchant
	n.Deadline = w.now + db.Millis(rapid.IntRange(1, 600).Draw(t, "seconds")*1000)
	if rapid.Bool().Draw(t, "without details") {
		n.Details = nil
	}
	got, _, err := createOne(t.Context(), w.s, n, w.now)
	w.must(t, err)
	w.ids = append(w.ids, got.Callback)
	w.deadlines[got.ID] = n.Deadline
}

func (w *world) claim(t *rapid.T) {
	node := rapid.IntRange(0, 1).Draw(t, "node")
	lane := countersign.Lane(rapid.IntRange(0, 1).Draw(t, "lane"))
	w.take(t, node, lane, rapid.IntRange(1, 4).Draw(t, "most"))
}

func (w *world) take(t *rapid.T, node int, lane countersign.Lane, most int) int {
	got, err := w.s.Claim(t.Context(), outbox.ClaimRequest{Lane: lane, Node: fmt.Sprint("node-", node), Now: w.now,
		LeaseUntil: w.now + 45_000, Max: most})
	w.must(t, err)
	n := 0
	for _, c := range got {
		if c.Merchant != w.merchant {
			continue
		}
		n++
		if until, there := w.leases[c.ID]; there {
			t.Fatalf("%s is in two attempts: its lease ends %d, now %d", c.ID, until, w.now)
		}
		w.leases[c.ID] = c.LeaseUntil
		if c.Attempt < 1 || c.State != client.CallbackSending || c.Deadline <= w.now {
			t.Fatalf("claimed %+v", c)
		}
		w.nodes[node] = append(w.nodes[node], &heldAttempt{claimed: c})
	}
	return n
}

// seldom skips most of the time.
func seldom(t *rapid.T) {
	if rapid.IntRange(0, 5).Draw(t, "seldom") > 0 {
		t.Skip("seldom")
	}
}

// pick returns one attempt that a node holds and that is, or is not, answered.
func (w *world) pick(t *rapid.T, answered bool) (node int, a *heldAttempt) {
	type place struct {
		node int
		a    *heldAttempt
	}
	var fit []place
	for node, held := range w.nodes {
		for _, a := range held {
			if (a.settle != nil) == answered {
				fit = append(fit, place{node, a})
			}
		}
	}
	if len(fit) == 0 {
		t.Skip("none")
	}
	p := fit[rapid.IntRange(0, len(fit)-1).Draw(t, "attempt")]
	return p.node, p.a
}

func (w *world) post(t *rapid.T) {
	_, a := w.pick(t, false)
	if len(w.old[a.claimed.ID]) > 0 && rapid.Bool().Draw(t, "repeats itself") {
		w.exchange(t, a, "old")
		return
	}
	w.exchange(t, a, rapid.SampledFrom([]string{"right", "right", "lost", "lost", "old", "refuse", "refuse", "refuse", "hold", "fail", "old", "other details",
		"old", "other withdrawal", "wrong key", "garbage", "unopened", "500"}).Draw(t, "merchant"))
}

// exchange posts a and judges the response, as attempt does but for RSA.
func (w *world) exchange(t *rapid.T, a *heldAttempt, behaves string) {
	q, plain, uuid, err := question(a.claimed, w.ready)
	w.must(t, err)
	a.q = q
	cb, err := countersign.ParseCallback(plain, countersign.ParseOptions{})
	w.must(t, err)
	m := newTestMerchant(testPair())
	answer, err := m.answer(cb)
	w.must(t, err)
	w.now += db.Millis(rapid.SampledFrom([]int{0, 1, 100, 1000, 15000}).Draw(t, "took"))
	code, key := countersign.CodeAccepted, testKey
	r := Response{Status: 200, Done: w.now}
	switch behaves {
	case "right":
		w.old[a.claimed.ID] = append(w.old[a.claimed.ID], answer)
	case "lost": // the merchant did its part, the response never came
		w.old[a.claimed.ID] = append(w.old[a.claimed.ID], answer)
		r = Response{Failure: client.ReasonClosed, Done: w.now}
	case "refuse":
		code = countersign.CodeRefusedPolicy
	case "hold":
		code = countersign.CodeAwaitingApproval
	case "fail":
		code = countersign.CodeInternal
	case "old": // of another attempt
		old := w.old[a.claimed.ID]
		if len(old) == 0 {
			t.Skip("no old answer")
		}
		answer = old[rapid.IntRange(0, len(old)-1).Draw(t, "which")]
	case "other details", "other withdrawal":
		if wr, ok := cb.(*countersign.WithdrawalRequest); ok {
			d := testDetails()
			if behaves == "other details" {
				d.Amount = mustAmount("2.6")
			} else {
				wr.CallBackID = "cb-other"
			}
			answer, err = wr.Answer(d).Marshal()
			w.must(t, err)
		}
	case "wrong key":
		key = "other"
	case "garbage":
		answer = []byte("garbage")
	case "500":
		r.Status = 500
	}
	if r.Status == 200 {
		msg := ""
		if code != 0 {
			msg = code.Message()
		}
		r.Body, err = countersign.Response{APIKey: key, Data: string(answer), ErrCode: code, Message: msg}.Marshal()
		w.must(t, err)
	}
	v := Judge(q, r, func(data string) ([]byte, []int, error) {
		if behaves == "unopened" {
			return nil, nil, errors.New("does not open")
		}
		return openPlain(data)
	})
	if wr := a.claimed.Withdrawal; wr != nil {
		signs := w.now < w.deadlines[wr.ID] && (behaves == "right" || behaves == "other details" && wr.Ordered == nil)
		if v.Decision == countersign.DecisionConfirmed && !signs {
			t.Fatalf("%q confirmed: %+v", behaves, v)
		}
		a.signs = signs
	}
	record := outbox.Attempt{Attempt: client.Attempt{Number: a.claimed.Attempt, RequestUUID: uuid, Started: w.now, HTTPStatus: r.Status, ErrCode: v.ErrCode, Node: "n"}}
	set := settlement(a.claimed, w.ready, v, record, w.now, 0)
	a.settle = &set
}

func (w *world) settle(t *rapid.T) {
	node, a := w.pick(t, true)
	batch := []*heldAttempt{a}
	for _, other := range w.nodes[node] {
		if other != a && other.settle != nil && rapid.Bool().Draw(t, "with it") {
			batch = append(batch, other)
		}
	}
	var list []outbox.Settlement
	for _, b := range batch {
		list = append(list, *b.settle)
	}
	got, err := w.s.Settle(t.Context(), list, w.now)
	w.must(t, err)
	if rapid.Bool().Draw(t, "again") { // it failed but was done
		again, err := w.s.Settle(t.Context(), list, w.now)
		w.must(t, err)
		for i := range got {
			if again[i].Applied != got[i].Applied || again[i].Decision != countersign.DecisionNone {
				t.Fatalf("settled %+v, again %+v", got[i], again[i])
			}
		}
	}
	for i, b := range batch {
		w.nodes[node] = slices.DeleteFunc(w.nodes[node], func(h *heldAttempt) bool { return h == b })
		if got[i].Applied {
			delete(w.leases, b.claimed.ID)
		} else {
			w.late++
		}
		if d := got[i].Decision; d != countersign.DecisionNone {
			if w.decisions[b.claimed.ID] != "" {
				t.Fatalf("%s decided twice: %s and %s", b.claimed.ID, w.decisions[b.claimed.ID], d)
			}
			w.decisions[b.claimed.ID] = d
			if d == countersign.DecisionConfirmed {
				if !b.signs {
					t.Fatalf("%s confirmed without a right answer", b.claimed.ID)
				}
				w.signed[b.claimed.ID] = true
			}
		}
	}
}

func (w *world) giveBack(t *rapid.T) {
	seldom(t)
	node, a := w.pick(t, false)
	w.must(t, w.s.GiveBack(t.Context(), []outbox.Claimed{a.claimed}, w.now))
	w.nodes[node] = slices.DeleteFunc(w.nodes[node], func(h *heldAttempt) bool { return h == a })
	if c, err := w.s.Callback(t.Context(), a.claimed.ID); err != nil {
		t.Fatal(err)
	} else if c.State != client.CallbackSending {
		delete(w.leases, a.claimed.ID)
	}
}

// crash forgets all that a node knows.
func (w *world) crash(t *rapid.T) {
	seldom(t)
	w.nodes[rapid.IntRange(0, 1).Draw(t, "node")] = nil
}

func (w *world) time(t *rapid.T) {
	w.now += db.Millis(rapid.SampledFrom([]int{-10_000, -1000, 1, 1000, 1000, 2000, 5000, 5000, 46_000}).Draw(t, "step"))
}

func (w *world) sweep(t *rapid.T) {
	for more := true; more; {
		swept, err := w.s.Sweep(t.Context(), w.now)
		w.must(t, err)
		for _, id := range swept.Lost {
			if until, there := w.leases[id]; there && until > w.now {
				t.Fatalf("%s lost its lease of %d at %d", id, until, w.now)
			}
			if _, ours := w.leases[id]; ours {
				w.lost++
			}
			delete(w.leases, id)
		}
		for _, id := range swept.Expired {
			if end, ours := w.deadlines[id]; ours {
				if w.now < end || w.decisions[id] != "" {
					t.Fatalf("%s expired at %d, deadline %d, decided %q", id, w.now, end, w.decisions[id])
				}
				w.decisions[id] = countersign.DecisionExpired
				delete(w.leases, id)
			}
		}
		more = swept.More
	}
}

func (w *world) anyWithdrawal(t *rapid.T) string {
	ids := slices.Sorted(maps.Keys(w.deadlines))
	return ids[rapid.IntRange(0, len(ids)-1).Draw(t, "withdrawal")]
}

func (w *world) cancel(t *rapid.T) {
	seldom(t)
	id := w.anyWithdrawal(t)
	switch _, err := w.s.CancelWithdrawal(t.Context(), id, w.now); {
	case err == nil:
		if d := w.decisions[id]; d != "" && d != countersign.DecisionCancelled {
			t.Fatalf("%s was %s and is cancelled", id, d)
		}
		w.decisions[id] = countersign.DecisionCancelled
		delete(w.leases, id)
	case !errors.Is(err, db.ErrConflict):
		t.Fatal(err)
	case w.decisions[id] == "":
		t.Fatalf("%s cannot be cancelled: %v", id, err)
	}
}

func (w *world) release(t *rapid.T) {
	id := w.anyWithdrawal(t)
	if !w.signed[id] {
		if more := slices.Sorted(maps.Keys(w.signed)); len(more) > 0 {
			id = more[0] // there is more to learn from that one
		}
	}
	w.releaseTo(t, id, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "claim"))
}

func (w *world) releaseTo(t *rapid.T, id, claim string) {
	w.next++
	p, err := releaseOne(t.Context(), w.s, id, outbox.Holder{Claim: claim, Origin: "core"}, fmt.Sprint("permit-", w.next), w.now)
	switch {
	case errors.Is(err, db.ErrConflict):
		if w.signed[id] && (w.claims[id] == "" || w.claims[id] == claim) {
			t.Fatalf("%s is confirmed and not released: %v", id, err)
		}
	case err != nil:
		t.Fatal(err)
	case !w.signed[id]:
		t.Fatalf("%s was released and never countersigned", id)
	case w.claims[id] == "":
		w.claims[id], w.permits[id] = claim, p
	case w.claims[id] != claim || w.permits[id].Permit != p.Permit:
		t.Fatalf("%s has two permits", id)
	}
}

// check holds after every step: the store's decisions are those that were seen,
// one each.
func (w *world) check(t *rapid.T) {
	for id := range w.deadlines {
		got, err := w.s.Withdrawal(t.Context(), id)
		w.must(t, err)
		if got.Decision != w.decisions[id] {
			t.Fatalf("%s is %q in the store and was %q", id, got.Decision, w.decisions[id])
		}
	}
}

// finish lets the world come to rest with a merchant that does all well: every
// callback then is final.
func (w *world) finish(t *rapid.T) {
	w.nodes = [2][]*heldAttempt{}
	w.now += 300_000
	for range 60 {
		w.sweep(t)
		for _, lane := range []countersign.Lane{countersign.LaneNotify, countersign.LaneWithdraw} {
			for w.take(t, 0, lane, 8) > 0 {
				for _, a := range slices.Clone(w.nodes[0]) {
					w.exchange(t, a, "right")
					got, err := w.s.Settle(t.Context(), []outbox.Settlement{*a.settle}, w.now)
					w.must(t, err)
					if got[0].Applied {
						delete(w.leases, a.claimed.ID)
					}
					if got[0].Decision != "" {
						w.decisions[a.claimed.ID] = got[0].Decision
						w.signed[a.claimed.ID] = got[0].Decision == countersign.DecisionConfirmed
					}
				}
				w.nodes[0] = nil
			}
		}
		w.now += 61_000
	}
	for _, id := range slices.Sorted(maps.Keys(w.deadlines)) {
		for _, claim := range []string{"b", "a", "b"} {
			w.releaseTo(t, id, claim)
		}
	}
	seen := map[string]int{}
	for after := int64(0); ; {
		feed, err := w.s.Decisions(t.Context(), after, 1000)
		w.must(t, err)
		for _, f := range feed {
			if f.Seq != after+1 {
				t.Fatalf("decision %d follows %d", f.Seq, after)
			}
			after = f.Seq
			seen[f.Withdrawal.ID]++
		}
		if len(feed) == 0 {
			break
		}
	}
	for _, id := range w.ids {
		c, err := w.s.Callback(t.Context(), id)
		w.must(t, err)
		switch c.State {
		case client.CallbackAccepted, client.CallbackRefused, client.CallbackExhausted, client.CallbackCancelled:
		default:
			t.Fatalf("%s never ends: %s, due %d, now %d", id, c.State, c.Due, w.now)
		}
	}
	for id := range w.deadlines {
		if seen[id] != 1 {
			t.Fatalf("%s is %d times in the feed", id, seen[id])
		}
	}
}

// noTB lets the fixtures fail outside of a *testing.T.
type noTB struct{ testing.TB }

func (noTB) Helper()           {}
func (noTB) Fatal(args ...any) { panic(fmt.Sprint(args...)) }
