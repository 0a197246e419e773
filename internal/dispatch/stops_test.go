package dispatch

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
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// The steps of an exchange between which something can stop it, in their order.
var exchangeSteps = []string{"claimed", "loaded", "sealed", "posting", "answered", "opened", "settling", "settled", "releasing"}

// stopRig is two dispatchers over one database and a merchant that confirms everything,
// at its old place and at its new one. At one step of the first exchange something is
// done to the merchant, by another node.
type stopRig struct {
	stores   [2]*outbox.Outbox
	old, new *testMerchant

	mu     sync.Mutex
	of     string // the merchant of the case
	step   string
	act    func()
	posted map[string]place // by requestUUID
	ended  chan struct{}    // a settlement is over
}

// place is where a question went, and under which keys.
type place struct {
	host string
	key  *testMerchant
}

func (r *stopRig) merchant() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of
}

// reached does what is to be done at the step, once.
func (r *stopRig) reached(step string) {
	r.mu.Lock()
	act := r.act
	if step != r.step {
		act = nil
	}
	if act != nil {
		r.act = nil
	}
	r.mu.Unlock()
	if act != nil {
		act()
	}
}

// steppedOutbox is a node's outbox that tells the rig how far an exchange has come.
type steppedOutbox struct {
	*outbox.Outbox
	r *stopRig
}

func (o steppedOutbox) Claim(ctx context.Context, q outbox.ClaimRequest) ([]outbox.Claimed, error) {
	got, err := o.Outbox.Claim(ctx, q)
	if len(got) > 0 {
		o.r.reached("claimed")
	}
	return got, err
}

func (o steppedOutbox) Merchant(ctx context.Context, id string) (outbox.Merchant, error) {
	m, err := o.Outbox.Merchant(ctx, id)
	o.r.reached("loaded")
	return m, err
}

func (o steppedOutbox) Settle(ctx context.Context, list []outbox.Settlement, now db.Millis) ([]outbox.Settled, error) {
	o.r.reached("settling")
	got, err := o.Outbox.Settle(ctx, list, now)
	if slices.ContainsFunc(list, func(n outbox.Settlement) bool { return n.Merchant == o.r.merchant() }) { // not the last of the case before
		o.r.reached("settled")
	}
	o.r.end()
	return got, err
}

// GiveBack ends an attempt that had not begun when its merchant was paused.
func (o steppedOutbox) GiveBack(ctx context.Context, list []outbox.Claimed, now db.Millis) error {
	err := o.Outbox.GiveBack(ctx, list, now)
	o.r.end()
	return err
}

func (r *stopRig) end() {
	select {
	case r.ended <- struct{}{}:
	default:
	}
}

type steppedObserver struct {
	noObserver
	r *stopRig
}

func (o steppedObserver) RSA(operation string, _ time.Duration) {
	o.r.reached(map[string]string{"seal": "sealed", "open": "opened"}[operation])
}

func (r *stopRig) post(_ context.Context, q request) Response {
	for _, m := range []*testMerchant{r.old, r.new} {
		cb, err := m.open(q.body)
		if err != nil {
			continue
		}
		r.mu.Lock()
		r.posted[cb.UUID()] = place{q.url.Host, m}
		r.mu.Unlock()
		r.reached("posting")
		body, err := m.respond(q.body)
		r.reached("answered")
		if err != nil {
			return Response{Status: 500}
		}
		return Response{Status: 200, Body: body}
	}
	return Response{Failure: client.ReasonClosed}
}

// stopAct is what is done to the merchant m, what ends it, and where it is afterwards.
type stopAct struct {
	name       string
	begin, end func(s *outbox.Outbox, m string) error
	place      func(r *stopRig, m string) place
}

func stopActs(r *stopRig) []stopAct {
	ctx := context.Background()
	now := func() db.Millis { return db.MillisOf(time.Now()) }
	state := func(to client.MerchantState) func(*outbox.Outbox, string) error {
		return func(s *outbox.Outbox, m string) error {
			_, err := s.SetMerchantState(ctx, m, to, "", now())
			return err
		}
	}
	change := func(f func(*outbox.Merchant)) func(*outbox.Outbox, string) error {
		return func(s *outbox.Outbox, m string) error {
			_, err := s.ChangeMerchant(ctx, m, 0, now(), func(row *outbox.Merchant) error { f(row); return nil }, nil)
			return err
		}
	}
	stays := func(r *stopRig, m string) place { return place{m + ".example", r.old} }
	return []stopAct{
		{"pause", state(client.MerchantPaused), state(client.MerchantActive), stays},
		{"freeze", func(s *outbox.Outbox, _ string) error { _, err := s.Freeze(ctx, "a test", "tok_1", now()); return err },
			func(s *outbox.Outbox, _ string) error { return s.Thaw(ctx, now()) }, stays},
		{"URL", change(func(m *outbox.Merchant) { m.WithdrawURL = "https://new.example/withdraw" }), nil,
			func(r *stopRig, m string) place { return place{"new.example", r.old} }},
		{"keys", change(func(m *outbox.Merchant) { m.Key = otherPair() }), nil,
			func(r *stopRig, m string) place { return place{m + ".example", r.new} }},
	}
}

var otherPair = sync.OnceValue(func() *envelope.Key { return mustKey(1024) })

// TestStopsAtEveryStep: a pause, a freeze, another URL and other keys, at every step of
// an exchange. When the call has returned, nothing is confirmed by what was asked before
// it, and nothing is released during a stop. In the end the honest merchant's withdrawal
// is confirmed, by a question to where the merchant is now, and released.
func TestStopsAtEveryStep(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		s := openStore(t, dbtest.SQLite(t))
		testStopsAtEveryStep(t, [2]*outbox.Outbox{s, s})
	})
	t.Run("postgres", func(t *testing.T) {
		url := dbtest.Postgres(t)
		testStopsAtEveryStep(t, [2]*outbox.Outbox{openStore(t, url), openStore(t, url)})
	})
}

func testStopsAtEveryStep(t *testing.T, stores [2]*outbox.Outbox) {
	r := &stopRig{stores: stores, old: newTestMerchant(testPair()), new: newTestMerchant(otherPair()),
		posted: map[string]place{}, ended: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i, s := range stores {
		d, err := New(Config{Outbox: steppedOutbox{s, r}, Node: fmt.Sprint("node-", i), RSA: 2, Observer: steppedObserver{r: r},
			Poll: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		d.post = r.post
		running.Go(func() {
			if err := d.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	defer running.Wait()
	defer cancel()
	n := 0
	for _, act := range stopActs(r) {
		for _, step := range exchangeSteps {
			n++
			t.Run(act.name+"/"+step, func(t *testing.T) { r.run(t, act, step, n) })
		}
	}
}

func (r *stopRig) run(t *testing.T, act stopAct, step string, n int) {
	ctx, s := t.Context(), r.stores[0]
	m := fmt.Sprint("m", n)
	if _, err := s.CreateMerchant(ctx, testStoreMerchant(m, testPair(), "https://"+m+".example"), db.MillisOf(time.Now())); err != nil {
		t.Fatal(err)
	}
	state := func(id string) outbox.Withdrawal {
		w, err := s.Withdrawal(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for began := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
			if time.Since(began) > 5*time.Minute {
				t.Fatalf("waited in vain: %s", what)
			}
		}
	}
	done := make(chan error, 1)
	var id string
	var before client.WithdrawalState // when the act had returned
	known := make(chan struct{})
	r.mu.Lock()
	r.of, r.step, r.act = m, step, func() {
		<-known
		err := act.begin(r.stores[1], m)
		before = state(id).State
		select {
		case <-r.ended:
		default:
		}
		done <- err
	}
	r.mu.Unlock()
	payload := withdrawalPayload(t, n)
	payload.Merchant, payload.Deadline = m, db.MillisOf(time.Now().Add(time.Hour))
	w, _, err := createOne(ctx, s, payload, db.MillisOf(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	id = w.ID
	close(known)
	if step == "releasing" {
		await("it is confirmed", func() bool { return state(id).State == client.WithdrawalConfirmed })
		r.reached(step)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	undecided := before == client.WithdrawalAwaiting
	if undecided != (step != "settled" && step != "releasing") {
		t.Errorf("it is %s at this step", before)
	}
	release := func() (outbox.Permit, error) {
		return releaseOne(ctx, s, id, outbox.Holder{Claim: "wallet", Origin: "core"}, "permit", db.MillisOf(time.Now()))
	}
	if act.end != nil {
		if undecided {
			<-r.ended // of the attempt under way
		}
		if now := state(id).State; now != before {
			t.Errorf("it was %s and is %s during the stop", before, now)
		}
		if p, err := release(); !errors.Is(err, db.ErrConflict) {
			t.Errorf("released during the stop: %+v, %v", p, err)
		}
		if err := act.end(r.stores[0], m); err != nil {
			t.Fatal(err)
		}
	}
	await("it is confirmed in the end", func() bool { return state(id).State == client.WithdrawalConfirmed })
	attempts, err := s.Attempts(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	last := attempts[len(attempts)-1]
	r.mu.Lock()
	asked := r.posted[last.RequestUUID]
	r.mu.Unlock()
	want := act.place(r, m)
	if !undecided { // it was decided before
		want = place{m + ".example", r.old}
	}
	if asked != want {
		t.Errorf("it was confirmed at %s, with the new keys: %v", asked.host, asked.key == r.new)
	}
	c, err := s.Callback(ctx, id)
	if err != nil || c.Failed != 0 {
		t.Errorf("its callback is %+v, %v", c, err)
	}
	if p, err := release(); err != nil || p.Duplicate || p.Withdrawal.State != client.WithdrawalReleased {
		t.Errorf("released in the end: %+v, %v", p, err)
	}
	if d := state(id); d.Decision != countersign.DecisionConfirmed {
		t.Errorf("decided %s", d.Decision)
	}
}

func releaseOne(ctx context.Context, o *outbox.Outbox, id string, h outbox.Holder, permit string, now db.Millis) (outbox.Permit, error) {
	done, err := o.ReleaseMany(ctx, []outbox.ReleaseRequest{{ID: id, Holder: h, Permit: permit}}, nil, now)
	if err != nil {
		return outbox.Permit{}, err
	}
	return done[0].Issued, done[0].Err
}

func createOne(ctx context.Context, o *outbox.Outbox, n outbox.NewWithdrawal, now db.Millis) (outbox.Withdrawal, bool, error) {
	made, err := o.CreateWithdrawals(ctx, []outbox.NewWithdrawal{n}, now)
	if err != nil {
		return outbox.Withdrawal{}, false, err
	}
	return made[0].Withdrawal, made[0].Duplicate, nil
}
