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
	"countersign/internal/store"
)

// fakeOutbox keeps in memory what a store keeps in a database, by the same rules,
// and lies the way the world lies: what fails may have been done.
type fakeOutbox struct {
	t   testing.TB
	now func() time.Time

	mu          sync.Mutex
	merchants   map[string]store.Merchant
	callbacks   []*store.Callback // in order of ingest
	withdrawals map[string]*store.Withdrawal
	attempts    map[string][]store.Attempt
	lanes       map[laneKey]*fakeLane
	settled     []store.Settlement // applied ones
	late        []store.Settlement
	alarms      []string
	openFailed  map[string][]store.Millis
	watchers    map[store.Topic][]chan struct{}
	returned    int

	senseless string // id of a callback whose settlements are refused

	// fault is asked before and after every call; a true answer makes it fail,
	// before with nothing done, after with everything done.
	fault func(method string, done bool) bool
}

type laneKey struct {
	merchant string
	lane     store.Lane
}

type fakeLane struct {
	failures  int
	openUntil store.Millis
}

var errFault = errors.New("the database is away")

func newFakeOutbox(t testing.TB, merchants ...store.Merchant) *fakeOutbox {
	f := &fakeOutbox{
		t: t, now: time.Now, merchants: make(map[string]store.Merchant), withdrawals: make(map[string]*store.Withdrawal),
		attempts: make(map[string][]store.Attempt), lanes: make(map[laneKey]*fakeLane),
		openFailed: make(map[string][]store.Millis), watchers: make(map[store.Topic][]chan struct{}),
		fault: func(string, bool) bool { return false },
	}
	for _, m := range merchants {
		f.merchants[m.ID] = m
	}
	return f
}

func (f *fakeOutbox) call(method string, do func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault(method, false) {
		return errFault
	}
	do()
	if f.fault(method, true) {
		return errFault
	}
	return nil
}

func (f *fakeOutbox) ms() store.Millis { return store.MillisOf(f.now()) }

func (f *fakeOutbox) lane(merchant string, l store.Lane) *fakeLane {
	k := laneKey{merchant, l}
	if f.lanes[k] == nil {
		f.lanes[k] = new(fakeLane)
	}
	return f.lanes[k]
}

func (f *fakeOutbox) addDeposit(merchant string, n int) string {
	c := depositPayload(f.t, n)
	c.Merchant = merchant
	return f.add(c, nil)
}

func (f *fakeOutbox) addWithdrawal(merchant string, n int, within time.Duration, ordered bool) string {
	w := withdrawalPayload(f.t, n)
	deadline := store.MillisOf(f.now().Add(within))
	row := &store.Withdrawal{Merchant: merchant, CallBackID: w.CallBackID, TenantUserID: w.TenantUserID, TrackingID: w.TrackingID,
		State: store.WithdrawalAwaiting, Deadline: deadline}
	if ordered {
		row.Ordered = w.Details
	}
	return f.add(store.NewCallback{Merchant: merchant, Type: countersign.TypeRequestWithdraw, EventID: w.CallBackID,
		CallBackID: w.CallBackID, Payload: w.Payload, Deadline: deadline}, row)
}

func (f *fakeOutbox) add(n store.NewCallback, w *store.Withdrawal) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := fmt.Sprintf("%s.%026d", n.Merchant, len(f.callbacks))
	f.callbacks = append(f.callbacks, &store.Callback{ID: id, Merchant: n.Merchant, Type: n.Type, EventID: n.EventID,
		Payload: n.Payload, State: store.CallbackPending, Due: max(n.Due, f.ms()), Deadline: n.Deadline, Created: f.ms()})
	if w != nil {
		w.ID, w.CallbackID = "w-"+id, id
		f.withdrawals[id] = w
	}
	f.wake(n.Type.Lane())
	return id
}

func (f *fakeOutbox) wake(l store.Lane) {
	topic := store.TopicNotify
	if l == store.LaneWithdraw {
		topic = store.TopicWithdraw
	}
	for _, c := range f.watchers[topic] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (f *fakeOutbox) find(id string) *store.Callback {
	for _, c := range f.callbacks {
		if c.ID == id {
			return c
		}
	}
	return nil
}

func (f *fakeOutbox) callback(id string) store.Callback {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.find(id)
}

func (f *fakeOutbox) withdrawal(callbackID string) store.Withdrawal {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.withdrawals[callbackID]
}

func (f *fakeOutbox) attemptsOf(id string) []store.Attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.attempts[id])
}

// capacity is how many more of a merchant's lane can be claimed.
func (f *fakeOutbox) capacity(merchant string, l store.Lane, now store.Millis) int {
	m, lane := f.merchants[merchant], f.lane(merchant, l)
	if m.State != store.MerchantActive || lane.openUntil > now {
		return 0
	}
	room := m.Concurrency
	if lane.failures >= store.BreakerThreshold {
		room = 1
	}
	for _, c := range f.callbacks {
		if c.State == store.CallbackSending && c.Merchant == merchant && c.Type.Lane() == l {
			room--
		}
	}
	return room
}

func (f *fakeOutbox) Claim(_ context.Context, r store.ClaimRequest) (claimed []store.Claimed, err error) {
	err = f.call("claim", func() {
		for _, c := range f.callbacks {
			if len(claimed) == r.Max || c.State != store.CallbackPending || c.Type.Lane() != r.Lane ||
				c.Due > r.Now || c.Deadline <= r.Now || f.capacity(c.Merchant, r.Lane, r.Now) <= 0 {
				continue
			}
			c.State, c.LeaseUntil = store.CallbackSending, r.LeaseUntil
			c.Attempts++
			cl := store.Claimed{Callback: *c, MerchantVersion: f.merchants[c.Merchant].Version}
			if w := f.withdrawals[c.ID]; w != nil {
				copied := *w
				cl.Withdrawal = &copied
			}
			claimed = append(claimed, cl)
		}
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

func (f *fakeOutbox) NextDue(_ context.Context, l store.Lane, now store.Millis) (next store.Millis, err error) {
	next = store.Never
	err = f.call("nextdue", func() {
		for _, c := range f.callbacks {
			if c.State != store.CallbackPending || c.Type.Lane() != l || c.Due >= c.Deadline {
				continue
			}
			if open := f.lane(c.Merchant, l).openUntil; open > now {
				next = min(next, max(open, c.Due))
			} else if f.capacity(c.Merchant, l, now) > 0 {
				next = min(next, c.Due)
			}
		}
	})
	return next, err
}

func (f *fakeOutbox) Settle(_ context.Context, list []store.Settlement, now store.Millis) (out []store.Settled, err error) {
	for i, s := range list {
		if s.CallbackID == f.senseless {
			return nil, &store.ItemError{Item: i, Err: errFault}
		}
	}
	err = f.call("settle", func() {
		for _, s := range list {
			out = append(out, f.settle(s, now))
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (f *fakeOutbox) settle(s store.Settlement, now store.Millis) store.Settled {
	c := f.find(s.CallbackID)
	for _, a := range f.attempts[c.ID] {
		if a.Number == s.Attempt.Number {
			return store.Settled{Applied: true} // said before
		}
	}
	if c.State != store.CallbackSending || c.Attempts != s.Attempt.Number {
		f.late = append(f.late, s)
		return store.Settled{}
	}
	f.attempts[c.ID] = append(f.attempts[c.ID], s.Attempt)
	f.settled = append(f.settled, s)
	c.State, c.LastReason, c.LeaseUntil = s.State, s.Attempt.Reason, 0
	if s.State == store.CallbackPending {
		c.Due = s.Due
	} else {
		c.Settled = now
	}
	if s.Counts {
		c.Failed++
	}
	lane := f.lane(c.Merchant, c.Type.Lane())
	if s.Reached {
		*lane = fakeLane{}
	} else if lane.failures++; lane.failures >= store.BreakerThreshold {
		lane.openUntil = now + store.Millis(min(5000<<min(lane.failures-store.BreakerThreshold, 10), 60_000))
	}
	if s.Alarm != "" {
		f.alarms = append(f.alarms, s.Alarm)
	}
	out := store.Settled{Applied: true}
	if w := f.withdrawals[c.ID]; w != nil && s.Decision != countersign.DecisionNone {
		decision := s.Decision
		if decision == countersign.DecisionConfirmed && now >= w.Deadline {
			decision, c.State = countersign.DecisionExpired, store.CallbackExhausted
		}
		if w.State == store.WithdrawalAwaiting {
			w.Decision, w.State, w.Decided = decision, store.WithdrawalState(decision), now
			out.Decision = decision
			if decision == countersign.DecisionConfirmed {
				d := s.Details
				w.Details = &d
			}
		} else {
			out.Late = true
		}
	}
	if s.OpenFailure {
		f.openFailed[c.Merchant] = append(f.openFailed[c.Merchant], now)
		if len(f.openFailed[c.Merchant]) >= store.OpenFailureLimit {
			m := f.merchants[c.Merchant]
			m.State = store.MerchantPaused
			f.merchants[c.Merchant] = m
			out.Paused = true
		}
	}
	f.wake(c.Type.Lane())
	return out
}

func (f *fakeOutbox) GiveBack(_ context.Context, list []store.Claimed, now store.Millis) error {
	return f.call("giveback", func() {
		for _, cl := range list {
			if c := f.find(cl.ID); c.State == store.CallbackSending && c.Attempts == cl.Attempts {
				c.State, c.Due = store.CallbackPending, now
				f.returned++
			}
		}
	})
}

func (f *fakeOutbox) Sweep(_ context.Context, now store.Millis) (out store.Swept, err error) {
	err = f.call("sweep", func() {
		for _, c := range f.callbacks {
			if w := f.withdrawals[c.ID]; w != nil && w.State == store.WithdrawalAwaiting && w.Deadline <= now {
				w.State, w.Decision, c.State = store.WithdrawalExpired, countersign.DecisionExpired, store.CallbackExhausted
				out.Expired = append(out.Expired, w.ID)
			}
			if c.State == store.CallbackSending && c.LeaseUntil <= now {
				c.State, c.Due = store.CallbackPending, now
				out.Lost = append(out.Lost, c.ID)
				f.wake(c.Type.Lane())
			}
		}
	})
	return out, err
}

func (f *fakeOutbox) Merchant(_ context.Context, id string) (m store.Merchant, err error) {
	err = f.call("merchant", func() { m = f.merchants[id] })
	if err == nil && m.ID == "" {
		err = store.ErrNotFound
	}
	return m, err
}

func (f *fakeOutbox) Watch(topic store.Topic) (<-chan struct{}, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan struct{}, 1)
	f.watchers[topic] = append(f.watchers[topic], c)
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.watchers[topic] = slices.DeleteFunc(f.watchers[topic], func(w chan struct{}) bool { return w == c })
	}
}
