package outbox

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// together is what the callers of testTogether were told.
type together struct {
	clock, frozen atomic.Int64 // frozen: the freeze that stands, by when it began; 0: none that has returned

	mu                     sync.Mutex
	callbacks, withdrawals []string
	told                   map[string]string         // ids, by merchant and event
	claimed                map[string]bool           // attempts
	decided, ended         map[string]bool           // withdrawals
	permits                map[string]ReleaseRequest // who got the permit of a withdrawal first
	versions               map[string]int64          // of merchants whose change has returned
}

func (w *together) pick(r *rand.Rand, from *[]string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(*from) == 0 {
		return ""
	}
	recent := (*from)[max(0, len(*from)-20):] // so that callers meet
	return recent[r.IntN(len(recent))]
}

// during returns a function that reports whether one freeze stood from now until it is called.
func (w *together) during() func() bool {
	before := w.frozen.Load()
	return func() bool { return before != 0 && w.frozen.Load() == before }
}

// testTogether runs everything beside everything, on two nodes where there can be two. Whatever is
// interleaved: an event has one id, no attempt is claimed twice, a withdrawal is decided once, has one
// permit and one outcome, nothing is decided or released during a freeze, nor decided by a question of
// before a change, and who follows the feed sees each decision once. Then it counts: the counters say what
// the rows say, and nothing waits unseen, though nothing repaired what was overlooked.
func testTogether(t *testing.T, s *Outbox) {
	nodes := []*Outbox{s, another(t, s)}
	ids := addMerchants(t, s, 3, func(m *Merchant) { m.Concurrency = 10 })
	w := &together{told: map[string]string{}, claimed: map[string]bool{}, decided: map[string]bool{}, ended: map[string]bool{},
		permits: map[string]ReleaseRequest{}, versions: map[string]int64{}}
	w.clock.Store(10_000)
	steps := 45
	if dbtest.IsWhole() {
		steps = 90
	}
	var all, following sync.WaitGroup
	done := make(chan struct{})
	following.Go(func() { w.follow(t, nodes[1], done) })
	for caller := range 6 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(caller), 42))
			for i := range steps {
				if err := w.step(t, r, nodes[caller%2], ids, fmt.Sprint(caller, "-", i)); err != nil && !errors.Is(err, db.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	close(done)
	following.Wait()
	checkCounts(t, s, db.Millis(w.clock.Load()))
	t.Logf("%d events, %d attempts, %d decisions, %d permits, %d outcomes", len(w.told), len(w.claimed), len(w.decided), len(w.permits), len(w.ended))
	if len(w.permits) == 0 || len(w.ended) == 0 {
		t.Error("nothing was released")
	}
}

// follow reads the feed of decisions until done, and then to its end.
func (w *together) follow(t *testing.T, node *Outbox, done chan struct{}) {
	seen := map[string]bool{}
	for after, last := int64(0), false; ; {
		select {
		case <-done:
			last = true
		default:
		}
		list, err := node.Decisions(ctx, after, 7)
		if err != nil {
			t.Error(err)
			return
		}
		for _, d := range list {
			if d.Seq != after+1 || seen[d.Withdrawal.ID] || d.Withdrawal.Decision == countersign.DecisionNone {
				t.Errorf("after %d comes %+v", after, d)
			}
			after, seen[d.Withdrawal.ID] = d.Seq, true
		}
		if last && len(list) == 0 {
			return
		}
	}
}

func (w *together) step(t *testing.T, r *rand.Rand, node *Outbox, ids []string, name string) error {
	now := db.Millis(w.clock.Add(1))
	switch k := r.IntN(24); {
	case k < 4:
		var items []NewCallback
		for range 1 + r.IntN(5) {
			items = append(items, deposit(ids[r.IntN(3)], fmt.Sprint("e", r.IntN(150)), now+db.Millis(r.IntN(20))))
		}
		got, err := node.Ingest(ctx, items, now)
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, g := range got {
			key := items[i].Merchant + items[i].EventID
			if was := w.told[key]; was != "" && was != g.ID {
				t.Errorf("%s has the ids %s and %s", key, was, g.ID)
			}
			w.told[key] = g.ID
			w.callbacks = append(w.callbacks, g.ID)
		}
		return err
	case k < 7:
		n := newWithdrawal(name, now+db.Millis(r.IntN(2000)), nil)
		n.Merchant = ids[r.IntN(3)]
		made, _, err := node.CreateWithdrawal(ctx, n, now)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil {
			w.withdrawals = append(w.withdrawals, made.ID)
		}
		return err
	case k < 15:
		claimed, err := node.Claim(ctx, ClaimRequest{Lane: countersign.Lane(r.IntN(2)), Now: now, LeaseUntil: now + 60, Max: 1 + r.IntN(8)})
		if err != nil {
			return err
		}
		w.mu.Lock()
		for _, c := range claimed {
			key := fmt.Sprint(c.ID, " ", c.Attempt)
			if w.claimed[key] {
				t.Errorf("attempt %s was claimed twice", key)
			}
			w.claimed[key] = true
		}
		w.mu.Unlock()
		switch r.IntN(8) {
		case 0:
			return node.GiveBack(ctx, claimed, now)
		case 1:
			return nil // the node dies
		}
		return w.settle(t, r, node, claimed, db.Millis(w.clock.Add(int64(r.IntN(90)))))
	case k == 15:
		if id := w.pick(r, &w.withdrawals); id != "" {
			_, err := node.CancelWithdrawal(ctx, id, now)
			return err
		}
	case k == 16: // a sweep that repairs nothing
		var swept Swept
		return errors.Join(node.sweepWithdrawals(ctx, now, &swept), node.sweepDeadlines(ctx, now, &swept), node.sweepLapsed(ctx, now, &swept), node.sweepLeases(ctx, now, &swept))
	case k == 17:
		if id := w.pick(r, &w.callbacks); id != "" {
			_, err := node.Resend(ctx, id, now)
			return err
		}
	case k == 18:
		m, err := node.UpdateMerchant(ctx, ids[r.IntN(3)], now, func(m *Merchant) error { m.Concurrency = 5 + r.IntN(10); return nil })
		w.mu.Lock()
		defer w.mu.Unlock()
		w.versions[m.ID] = max(w.versions[m.ID], m.Version)
		return err
	case k == 19:
		_, err := node.ResendMatching(ctx, nil, client.CallbackFilter{}, false, now)
		return err
	case k < 23:
		return w.release(t, r, node, name, now)
	case r.IntN(2) == 0:
		if id := w.pick(r, &w.withdrawals); id != "" {
			_, err := node.BlockWithdrawal(ctx, id, "a test", "tok_1", now)
			return err
		}
	default:
		f, err := node.Freeze(ctx, "a test", name, now)
		if err == nil && f.By == name {
			w.frozen.Store(int64(now))
			_, err = node.Stats(ctx)
			w.frozen.Store(0)
			err = errors.Join(err, node.Thaw(ctx, now))
		}
		return err
	}
	return nil
}

// settle settles what was claimed, each somehow.
func (w *together) settle(t *testing.T, r *rand.Rand, node *Outbox, claimed []Claimed, now db.Millis) error {
	var list []Settlement
	for _, c := range claimed {
		n := settlementOf(c)
		switch k := r.IntN(6); {
		case c.Type == countersign.TypeRequestWithdraw && k < 3:
			n = answer(c, countersign.DecisionConfirmed, someDetails(t, "1"))
		case c.Type == countersign.TypeRequestWithdraw && k < 4:
			n = answer(c, countersign.DecisionDeclined, nil)
		case c.Type == countersign.TypeRequestWithdraw || k < 2:
			n = unreached(c, now+db.Millis(r.IntN(50)))
			n.Reached = k > 0
		case k == 2:
			n.State, n.Alarm = client.CallbackRefused, "not_understood"
		case k == 3:
			n.State = client.CallbackExhausted
		}
		list = append(list, n)
	}
	w.mu.Lock()
	changed := maps.Clone(w.versions)
	w.mu.Unlock()
	frozen := w.during()
	settled, err := node.Settle(ctx, list, now)
	stopped := frozen()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, d := range settled {
		id := list[i].CallbackID
		if d.Decision == countersign.DecisionNone {
			continue
		}
		if w.decided[id] {
			t.Errorf("%s was decided twice", id)
		}
		w.decided[id] = true
		if answered(d.Decision) && (stopped || list[i].MerchantVersion < changed[list[i].Merchant]) {
			t.Errorf("%s was decided during a freeze (%v), or by a question of before a change", id, stopped)
		}
	}
	return err
}

// release asks for a permit, and reports an outcome under it.
func (w *together) release(t *testing.T, r *rand.Rand, node *Outbox, name string, now db.Millis) error {
	id := w.pick(r, &w.withdrawals)
	if id == "" {
		return nil
	}
	asked := ReleaseRequest{ID: id, Holder: Holder{Claim: fmt.Sprint("claim", r.IntN(2)), Origin: "core"}, Permit: name}
	frozen := w.during()
	p, err := node.Release(ctx, id, asked.Holder, name, now)
	if err != nil {
		return err
	}
	if frozen() {
		t.Errorf("%s was released during a freeze", id)
	}
	w.mu.Lock()
	if _, known := w.permits[id]; !known {
		w.permits[id] = ReleaseRequest{ID: id, Holder: asked.Holder, Permit: p.Permit}
	}
	if first := w.permits[id]; first.Holder != asked.Holder || first.Permit != p.Permit {
		t.Errorf("%s was released to %+v and to %+v as %s", id, first, asked.Holder, p.Permit)
	}
	w.mu.Unlock()
	if r.IntN(4) == 0 {
		return nil
	}
	_, duplicate, err := node.RecordOutcome(ctx, id, executedBy(p.Withdrawal, p.Permit, "0x"+p.Withdrawal.CallBackID, now), now)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && !duplicate {
		if w.ended[id] {
			t.Errorf("%s ended twice", id)
		}
		w.ended[id] = true
	}
	return err
}

// checkCounts compares what is kept twice.
func checkCounts(t *testing.T, s *Outbox, now db.Millis) {
	t.Helper()
	count := func(text string, args ...any) (n int64) {
		t.Helper()
		must(db.One(ctx, s, text, args, &n))(t)
		return n
	}
	for _, l := range lanesOf(t, s) {
		if n := count(`SELECT COUNT(*) FROM outbox WHERE merchant = $1 AND lane = $2 AND state = 'sending'`, l.Merchant, int64(l.Lane)); int64(l.InFlight) != n {
			t.Errorf("%s %s counts %d in flight, %d are", l.Merchant, l.Lane, l.InFlight, n)
		}
		due := db.Millis(count(`SELECT COALESCE(MIN(due), 4611686018427387904) FROM outbox
			WHERE merchant = $1 AND lane = $2 AND state = 'pending' AND deadline > $3`, l.Merchant, int64(l.Lane), int64(now)))
		if l.NextDue > due {
			t.Errorf("%s %s says that %d is next due, %d is", l.Merchant, l.Lane, l.NextDue, due)
		}
	}
	total := finals(t, s, countersign.LaneNotify)[0] + finals(t, s, countersign.LaneWithdraw)[0]
	if n := count(`SELECT COUNT(*) FROM attempts WHERE accepted = 1`); n != total {
		t.Errorf("%d attempts were accepted, %d callbacks counted", n, total)
	}
	decided, inFeed := count(`SELECT COUNT(*) FROM withdrawals WHERE state <> 'awaiting'`), count(`SELECT COUNT(DISTINCT withdrawal) FROM decisions`)
	rows, last := count(`SELECT COUNT(*) FROM decisions`), count(`SELECT last_seq FROM feeds WHERE name = 'decisions'`)
	if decided != inFeed || rows != inFeed || last != rows {
		t.Errorf("%d withdrawals are decided, the feed has %d in %d rows up to %d", decided, inFeed, rows, last)
	}
	if n := count(`SELECT COUNT(*) FROM withdrawals w LEFT JOIN outbox o ON o.merchant = w.merchant AND o.id = w.id
		WHERE (w.state = 'awaiting') <> (COALESCE(o.state, 'accepted') IN ('pending', 'sending'))`); n != 0 {
		t.Errorf("%d withdrawals and their callbacks do not agree", n)
	}
	if decided == 0 || total == 0 {
		t.Error("nothing happened")
	}
}
