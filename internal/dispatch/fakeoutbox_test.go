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
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// fakeOutbox keeps in memory what a store keeps in a database, by the same rules,
// and lies the way the world lies: what fails may have been done.
type fakeOutbox struct {
	t   testing.TB
	now func() time.Time

	mu          sync.Mutex
	merchants   map[string]outbox.Merchant
	callbacks   []*outbox.Callback // in order of ingest
	withdrawals map[string]*outbox.Withdrawal
	attempts    map[string][]outbox.Attempt
	held        map[string]int
	settled     []outbox.Settlement // applied ones
	alarms      []client.AlarmKind
	openFailed  map[string][]db.Millis
	watchers    map[db.Topic][]chan struct{}
	returned    int

	senseless string // id of a callback whose settlements are refused

	// fault is asked before and after every call; a true answer makes it fail,
	// before with nothing done, after with everything done.
	fault func(method string, done bool) bool
}

var errFault = errors.New("the database is away")

func newFakeOutbox(t testing.TB, known ...outbox.Merchant) *fakeOutbox {
	f := &fakeOutbox{
		t: t, now: time.Now, merchants: make(map[string]outbox.Merchant), withdrawals: make(map[string]*outbox.Withdrawal),
		attempts: make(map[string][]outbox.Attempt), held: make(map[string]int),
		openFailed: make(map[string][]db.Millis), watchers: make(map[db.Topic][]chan struct{}),
		fault: func(string, bool) bool { return false },
	}
	for _, m := range known {
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

func (f *fakeOutbox) ms() db.Millis { return db.MillisOf(f.now()) }

func (f *fakeOutbox) addDeposit(merchant string, n int) string {
	c := depositPayload(f.t, n)
	c.Merchant = merchant
	return f.add(c, nil)
}

func (f *fakeOutbox) addWithdrawal(merchant string, n int, within time.Duration, ordered bool) string {
	w := withdrawalPayload(f.t, n)
	deadline := db.MillisOf(f.now().Add(within))
	row := &outbox.Withdrawal{Withdrawal: client.Withdrawal{Merchant: merchant, CallBackID: w.CallBackID, TenantUserID: w.TenantUserID, TrackingID: w.TrackingID,
		State: client.WithdrawalAwaiting, Deadline: deadline}}
	if ordered {
		row.Ordered = w.Details
	}
	return f.add(outbox.NewCallback{Merchant: merchant, Type: countersign.TypeRequestWithdraw, EventID: w.CallBackID,
		CallBackID: w.CallBackID, Payload: w.Payload, Deadline: deadline}, row)
}

func (f *fakeOutbox) add(n outbox.NewCallback, w *outbox.Withdrawal) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := fmt.Sprintf("%s.%026d", n.Merchant, len(f.callbacks))
	f.callbacks = append(f.callbacks, &outbox.Callback{Callback: client.Callback{ID: id, Merchant: n.Merchant, Type: n.Type, State: client.CallbackPending, Due: max(n.Due, f.ms()), Deadline: n.Deadline, Created: f.ms()}, EventID: n.EventID,
		Payload: n.Payload})
	if w != nil {
		w.ID, w.Callback = "w-"+id, id
		f.withdrawals[id] = w
	}
	f.wake(n.Type.Lane())
	return id
}

func (f *fakeOutbox) wake(l countersign.Lane) {
	for _, c := range f.watchers[outbox.TopicOf(l)] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (f *fakeOutbox) find(id string) *outbox.Callback {
	for _, c := range f.callbacks {
		if c.ID == id {
			return c
		}
	}
	return nil
}

func (f *fakeOutbox) callback(id string) outbox.Callback {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.find(id)
}

func (f *fakeOutbox) withdrawal(callbackID string) outbox.Withdrawal {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.withdrawals[callbackID]
}

func (f *fakeOutbox) attemptsOf(id string) []outbox.Attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.attempts[id])
}

// capacity is how many more of a merchant's lane can be claimed with that share.
func (f *fakeOutbox) capacity(merchant string, l countersign.Lane, share int) int {
	m := f.merchants[merchant]
	if m.State != client.MerchantActive {
		return 0
	}
	room := m.Concurrency
	if share > 0 {
		room = min(room, share)
	}
	for _, c := range f.callbacks {
		if c.State == client.CallbackSending && c.Merchant == merchant && c.Type.Lane() == l {
			room--
		}
	}
	return room
}

func (f *fakeOutbox) Claim(_ context.Context, r outbox.ClaimRequest) (claimed []outbox.Claimed, err error) {
	err = f.call("claim", func() {
		for _, c := range f.callbacks {
			if len(claimed) == r.Max || c.State != client.CallbackPending || c.Type.Lane() != r.Lane ||
				c.Due > r.Now || c.Deadline <= r.Now || f.capacity(c.Merchant, r.Lane, r.Share) <= 0 {
				continue
			}
			c.State, c.LeaseUntil = client.CallbackSending, r.LeaseUntil
			c.Attempt++
			cl := outbox.Claimed{Callback: *c, MerchantVersion: f.merchants[c.Merchant].Version, Held: f.held[c.ID]}
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

func (f *fakeOutbox) NextDue(_ context.Context, l countersign.Lane, share int) (next db.Millis, err error) {
	next = db.Never
	err = f.call("nextdue", func() {
		for _, c := range f.callbacks {
			if c.State == client.CallbackPending && c.Type.Lane() == l && c.Due < c.Deadline && f.capacity(c.Merchant, l, share) > 0 {
				next = min(next, c.Due)
			}
		}
	})
	return next, err
}

func (f *fakeOutbox) Settle(_ context.Context, list []outbox.Settlement, now db.Millis) (out []outbox.Settled, err error) {
	for i, s := range list {
		if s.CallbackID == f.senseless {
			return nil, &db.ItemError{Item: i, Err: errFault}
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

func (f *fakeOutbox) settle(s outbox.Settlement, now db.Millis) outbox.Settled {
	c := f.find(s.CallbackID)
	for _, a := range f.attempts[c.ID] {
		if a.Number == s.Attempt.Number {
			return outbox.Settled{Applied: true} // said before
		}
	}
	if c.State != client.CallbackSending || c.Attempt != s.Attempt.Number {
		return outbox.Settled{}
	}
	f.attempts[c.ID] = append(f.attempts[c.ID], s.Attempt)
	f.settled = append(f.settled, s)
	c.State, c.LastReason, c.LeaseUntil = s.State, s.Attempt.Reason, 0
	if s.State == client.CallbackPending {
		c.Due = s.Due
	} else {
		c.Settled = now
	}
	if s.Counts {
		c.Failed++
	}
	if s.Held {
		f.held[c.ID]++
	}
	if s.Alarm != "" {
		f.alarms = append(f.alarms, s.Alarm)
	}
	out := outbox.Settled{Applied: true}
	if w := f.withdrawals[c.ID]; w != nil && s.Decision != countersign.DecisionNone {
		decision := s.Decision
		if decision == countersign.DecisionConfirmed && now >= w.Deadline {
			decision, c.State = countersign.DecisionExpired, client.CallbackExhausted
		}
		if w.State == client.WithdrawalAwaiting {
			w.Decision, w.State, w.Decided = decision, client.WithdrawalState(decision), now
			out.Decision = decision
			if decision == countersign.DecisionConfirmed {
				d := s.Details
				w.Details = (*client.Details)(&d)
			}
		} else {
			out.Late = true
		}
	}
	if s.OpenFailure {
		f.openFailed[c.Merchant] = append(f.openFailed[c.Merchant], now)
		out.OpenFailures = len(f.openFailed[c.Merchant])
		if len(f.openFailed[c.Merchant]) >= outbox.OpenFailureLimit {
			m := f.merchants[c.Merchant]
			m.State = client.MerchantPaused
			f.merchants[c.Merchant] = m
			out.Paused = true
		}
	}
	f.wake(c.Type.Lane())
	return out
}

func (f *fakeOutbox) GiveBack(_ context.Context, list []outbox.Claimed, now db.Millis) error {
	return f.call("giveback", func() {
		for _, cl := range list {
			if c := f.find(cl.ID); c.State == client.CallbackSending && c.Attempt == cl.Attempt {
				c.State, c.Due = client.CallbackPending, now
				f.returned++
			}
		}
	})
}

func (f *fakeOutbox) Sweep(_ context.Context, now db.Millis) (out outbox.Swept, err error) {
	err = f.call("sweep", func() {
		for _, c := range f.callbacks {
			if w := f.withdrawals[c.ID]; w != nil && w.State == client.WithdrawalAwaiting && w.Deadline <= now {
				w.State, w.Decision, c.State = client.WithdrawalExpired, countersign.DecisionExpired, client.CallbackExhausted
				out.Expired = append(out.Expired, w.ID)
			}
			if c.State == client.CallbackSending && c.LeaseUntil <= now {
				c.State, c.Due = client.CallbackPending, now
				out.Lost = append(out.Lost, c.ID)
				f.wake(c.Type.Lane())
			}
		}
	})
	return out, err
}

func (f *fakeOutbox) Merchant(_ context.Context, id string) (m outbox.Merchant, err error) {
	err = f.call("merchant", func() { m = f.merchants[id] })
	if err == nil && m.ID == "" {
		err = db.ErrNotFound
	}
	return m, err
}

func (f *fakeOutbox) Watch(topic db.Topic) (<-chan struct{}, func()) {
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
