package gateway

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
	"countersign/internal/policy"
)

// TestAnySequence runs random sequences of callbacks, orders, decisions of
// persons and of the policy, passing time and restarts, and holds the gateway
// to what it may never do.
func TestAnySequence(t *testing.T) {
	service := newService(t, countersigntest.ServiceConfig{})
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			rules := &wordPolicy{effect: policy.Allow}
			m := &sequence{t: t, policy: rules, start: func() *rig {
				return newRig(t, url, service, func(c *Config) { rules.use(c) })
			}}
			m.rig = m.start()
			run := 0
			rapid.Check(t, func(rt *rapid.T) {
				run++
				m.begin(run)
				rt.Repeat(map[string]func(*rapid.T){
					"deposit": m.deposit, "order": m.addOrder, "ask": m.ask, "notice": m.notice, "person": m.person,
					"policy": func(rt *rapid.T) {
						rules.effect = rapid.SampledFrom([]policy.Effect{policy.Deny, policy.Ask, policy.Allow}).Draw(rt, "effect")
					},
					"time": func(rt *rapid.T) {
						m.clock.advance(time.Duration(rapid.IntRange(1, 40).Draw(rt, "seconds")) * time.Second)
						if _, err := m.book.ExpireOrders(t.Context(), db.MillisOf(m.clock.now()), 100); err != nil {
							rt.Fatal(err)
						}
					},
					"restart": m.restart,
					"":        m.check,
				})
			})
		})
	}
}

// sequence is the model: what may be true of each identifier.
type sequence struct {
	*rig
	t      *testing.T
	policy *wordPolicy
	start  func() *rig

	base      int // identifiers of this run begin here
	firstSeq  int64
	deposits  map[string]bool // trackingId of what was accepted
	confirmed map[int]countersign.Details
	asked     map[int]string // the user of the first question; any other is other content
	refused   map[int]bool   // finally
	final     map[int]string
}

// begin starts a run with identifiers of its own, on the database of the runs
// before.
func (m *sequence) begin(run int) {
	m.base = run * 1000
	m.firstSeq += int64(len(m.depositsAfter(m.firstSeq)))
	m.deposits, m.confirmed, m.refused, m.final = map[string]bool{}, map[int]countersign.Details{}, map[int]bool{}, map[int]string{}
	m.asked = map[int]string{}
}

func (m *sequence) n(rt *rapid.T) int { return m.base + rapid.IntRange(1, 4).Draw(rt, "n") }

func (m *sequence) deposit(rt *rapid.T) {
	c := countersigntest.Deposit(m.n(rt))
	c.TxIndex = rapid.Int64Range(-1, 1).Draw(rt, "txIndex")
	if rapid.Bool().Draw(rt, "another name") {
		c.TrackingID += "-again"
	}
	if m.deliver(c) != countersign.CodeAccepted {
		rt.Fatalf("deposit %s is not accepted\n%s", c.TrackingID, m.log)
	}
	m.deposits[c.TrackingID] = true
}

func (m *sequence) addOrder(rt *rapid.T) {
	n := m.n(rt)
	o := newOrder(n)
	if rapid.IntRange(0, 3).Draw(rt, "other") == 0 {
		o.Address = "elsewhere"
	}
	if rapid.Bool().Draw(rt, "ends") {
		o.ExpiresAt = client.Time(m.clock.now().Add(time.Minute).Truncate(time.Minute).Add(time.Minute).UnixMilli())
	}
	if _, err := m.app.AddOrder(m.t.Context(), o); err != nil && !errors.Is(err, client.ErrConflict) {
		rt.Fatal(err)
	}
}

// ask lets the service ask for a withdrawal, now and then for one of another
// user.
func (m *sequence) ask(rt *rapid.T) {
	n := m.n(rt)
	w := countersigntest.Withdrawal(n)
	if rapid.IntRange(0, 9).Draw(rt, "user") == 0 {
		w.TenantUserID = "another"
	}
	before, known := m.current(n)
	result := m.service.Deliver(m.t.Context(), m.to, w)
	var held *countersigntest.Refusal
	if m.asked[n] == "" && !(errors.As(result.Err, &held) && held.Code >= 3000 && held.Code < 4000) {
		m.asked[n] = w.TenantUserID // what was only held binds its identifier to nothing (PROTOCOL.md, I1)
	}
	if result.Err == nil {
		switch {
		case m.refused[n]:
			rt.Fatalf("%s was confirmed after it was refused for good", w.CallBackID)
		case !known:
			rt.Fatalf("%s was confirmed and never ordered", w.CallBackID)
		case before.TenantUserID != w.TenantUserID, m.asked[n] != w.TenantUserID:
			rt.Fatalf("%s was confirmed to another user", w.CallBackID)
		case result.Withdrawal.Differs(details(before)) != "":
			rt.Fatalf("%s was confirmed with other details than the order's", w.CallBackID)
		}
		if told, ok := m.confirmed[n]; ok && told.Differs(result.Withdrawal.Details) != "" {
			rt.Fatalf("%s was confirmed with two sets of details", w.CallBackID)
		}
		if s := client.OrderState(before.State); !s.Undecided() && s != client.OrderConfirmed {
			rt.Fatalf("%s was confirmed when it was %s", w.CallBackID, before.State)
		}
		m.confirmed[n] = result.Withdrawal.Details
		return
	}
	var refusal *countersigntest.Refusal
	if !errors.As(result.Err, &refusal) {
		rt.Fatal(result.Err)
	}
	_, told := m.confirmed[n]
	switch {
	case m.asked[n] != "" && m.asked[n] != w.TenantUserID:
		if refusal.Code != countersign.CodeDetailsDiffer {
			rt.Fatalf("%s by another user: errCode %d", w.CallBackID, refusal.Code)
		}
	case told:
		if ended := before.State == client.OrderEnded || before.State == client.OrderExecuted; !ended || refusal.Code != countersign.CodeOrderCancelled {
			rt.Fatalf("%s was confirmed before, is %s, and now errCode %d", w.CallBackID, before.State, refusal.Code)
		}
	case refusal.Code.Class() == countersign.ClassRefused:
		m.refused[n] = true
	case refusal.Code.Class() != countersign.ClassHold || m.refused[n]:
		rt.Fatalf("errCode %d\n%s", refusal.Code, m.log)
	}
}

func details(o client.Order) countersign.Details {
	return countersign.Details{Address: o.Address, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount}
}

func (m *sequence) current(n int) (client.Order, bool) {
	o, err := m.client.Order(m.t.Context(), countersigntest.Withdrawal(n).CallBackID)
	if errors.Is(err, client.ErrNotFound) {
		return o, false
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return o, true
}

func (m *sequence) notice(rt *rapid.T) {
	typ := rapid.SampledFrom([]countersign.Type{3, 5, 6, 7}).Draw(rt, "type")
	if m.deliver(countersigntest.Notice(typ, m.n(rt))) != countersign.CodeAccepted {
		rt.Fatalf("type %d is not accepted\n%s", typ, m.log)
	}
}

func (m *sequence) person(rt *rapid.T) {
	id := countersigntest.Withdrawal(m.n(rt)).CallBackID
	var err error
	switch rapid.IntRange(0, 2).Draw(rt, "decision") {
	case 0:
		_, err = m.client.ApproveOrder(m.t.Context(), id, "")
	case 1:
		_, err = m.client.DeclineOrder(m.t.Context(), id, "")
	case 2:
		_, err = m.client.CancelOrder(m.t.Context(), id, "")
	}
	if err != nil && !errors.Is(err, client.ErrConflict) && !errors.Is(err, client.ErrNotFound) {
		rt.Fatal(err)
	}
}

// restart goes on with a new process on the same database.
func (m *sequence) restart(*rapid.T) {
	at := m.clock
	if err := m.db.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.rig = m.start()
	m.clock.at.Store(at.at.Load())
}

// check looks at what must hold after every step.
func (m *sequence) check(rt *rapid.T) {
	inFeed := map[string]bool{}
	counting := map[string]int{} // deposits that count, of one transfer without an index to tell them apart
	for _, d := range m.depositsAfter(m.firstSeq) {
		if inFeed[d.TrackingID] {
			rt.Fatalf("%s is in the feed twice", d.TrackingID)
		}
		inFeed[d.TrackingID] = true
		if d.State == "taken" {
			counting[fmt.Sprint(d.TxID, d.ToAddress, d.TxIndex)]++
		}
	}
	if len(inFeed) != len(m.deposits) {
		rt.Fatalf("%d deposits were accepted, %d are in the feed", len(m.deposits), len(inFeed))
	}
	for transfer, n := range counting {
		if n > 1 {
			rt.Fatalf("transfer %s counts %d times", transfer, n)
		}
	}
	for n := m.base + 1; n <= m.base+4; n++ {
		o, known := m.current(n)
		if _, ok := m.confirmed[n]; ok && (!known || o.Confirmed == 0) {
			rt.Fatalf("order %d was confirmed and is %s", n, o.State)
		}
		if m.refused[n] && known && o.Confirmed != 0 {
			rt.Fatalf("order %d was refused for good and is %s", n, o.State)
		}
		if was := m.final[n]; was != "" && string(o.State) != was {
			rt.Fatalf("order %d was %s and is %s", n, was, o.State)
		}
		if s := client.OrderState(o.State); known && !s.Undecided() && s != client.OrderConfirmed {
			m.final[n] = string(o.State)
		}
	}
}
