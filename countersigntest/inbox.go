package countersigntest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"countersign"
	"countersign/merchant"
)

const (
	inboxRuns   = 12
	inboxSteps  = 150 // of a run
	inboxShown  = 12  // steps of a report
	inboxLease  = time.Minute
	inboxCaller = 40 // that claim at once
)

// CheckInbox tests an implementation of merchant.Inbox against its rules: in long runs of claims, settlements and
// renewals, which are the same each time, it must answer as merchant.MemoryInbox does, and of many callers at once one
// gets the claim. open returns an empty inbox and other, a second one on the same data, as another process would open
// it; both may be the same value. open is called once for each run.
func CheckInbox(tb TB, open func() (inbox, other merchant.Inbox)) {
	tb.Helper()
	for run := range uint64(inboxRuns) {
		c := &inboxRun{tb: tb, rand: rand.New(rand.NewPCG(run, 0)), at: time.UnixMilli(1_700_000_000_000),
			unbound: run%2 == 1, rules: merchant.NewMemoryInbox(), seqs: map[int64]int64{}}
		c.ends[0], c.ends[1] = open()
		for step := 0; step < inboxSteps && !c.differs; step++ {
			c.step()
		}
	}
	one, other := open()
	checkMany(tb, [2]merchant.Inbox{one, other})
}

// inboxRun is a run of steps that an inbox and the rules take side by side.
type inboxRun struct {
	tb      TB
	rand    *rand.Rand
	ends    [2]merchant.Inbox
	rules   *merchant.MemoryInbox
	at      time.Time
	unbound bool // the service does not bind, so blocks count

	sent    []countersign.Callback
	claims  []inboxClaim
	seqs    map[int64]int64 // numbers of the inbox, by those of the rules
	highest int64           // of them
	steps   []string
	differs bool
}

// inboxClaim is what was claimed: an entry, and the names of its lease in the inbox and by the rules.
type inboxClaim struct {
	entry      merchant.Entry
	name, rule int64
}

// step takes one step at one of the two ends.
func (c *inboxRun) step() {
	c.tb.Helper()
	c.at = c.at.Add(pick(c.rand, 0, 0, 0, 0, 0, time.Millisecond, inboxLease/2, inboxLease-time.Millisecond, inboxLease))
	in, n := c.ends[c.rand.IntN(2)], c.rand.IntN(20)
	switch {
	case n < 12 || len(c.claims) == 0:
		c.claim(in, c.callback())
	case n < 17:
		claimed := recent(c.rand, c.claims)
		c.settle(in, claimed)
		c.claim(in, claimed.entry.Callback)
	case n < 19:
		claimed := recent(c.rand, c.claims)
		c.renew(in, claimed)
		c.claim(in, claimed.entry.Callback)
	case c.unbound:
		c.remember(in)
	}
}

// did notes a step.
func (c *inboxRun) did(format string, args ...any) {
	c.steps = append(c.steps, fmt.Sprintf(format, args...))
}

// want reports that got is not what the rules say, with the steps that led there.
func (c *inboxRun) want(is bool, got, want any) {
	c.tb.Helper()
	if is || c.differs {
		return
	}
	c.differs = true
	c.tb.Errorf("the inbox gave %+v, want %+v, after the steps\n%s", got, want,
		strings.Join(c.steps[max(0, len(c.steps)-inboxShown):], "\n"))
}

func (c *inboxRun) claim(in merchant.Inbox, cb countersign.Callback) {
	c.tb.Helper()
	e := merchant.NewEntry(cb)
	e.At, e.Lease = c.at, pick(c.rand, 0, inboxLease, inboxLease)
	if e.Callback.CallbackType() == countersign.TypeRequestWithdraw {
		e.Lease = inboxLease // a question is answered by a function
	}
	blocks := ""
	if c.unbound {
		e.Blocks, blocks = c.blocks()
	}
	c.did("claim %+v at %d for %v, blocks %s", e.Callback, e.At.UnixMilli(), e.Lease, blocks)
	want, err := c.rules.Claim(context.Background(), e)
	if err != nil {
		c.tb.Fatalf("%v", err)
	}
	got, err := in.Claim(context.Background(), e)
	c.want(err == nil, err, want.State)
	if got.State == merchant.StateClaimed {
		c.claims = append(c.claims, inboxClaim{e, got.Claim, want.Claim})
	}
	if _, known := c.seqs[want.Seq]; !known && want.Seq > 0 {
		c.want(got.Seq > c.highest, got.Seq, fmt.Sprintf("a number above %d", c.highest))
		c.seqs[want.Seq], c.highest = got.Seq, got.Seq
	}
	want.Seq, want.Claim = c.seqs[want.Seq], got.Claim // the inbox has numbers and names of its own
	if got.Recorded.IsZero() {
		want.Recorded = got.Recorded
	}
	c.want(got.Recorded.Equal(want.Recorded), got.Recorded, want.Recorded)
	want.Recorded = got.Recorded
	c.want(got == want, got, want)
}

func (c *inboxRun) settle(in merchant.Inbox, of inboxClaim) {
	c.tb.Helper()
	s := merchant.Settlement{Type: of.entry.Callback.CallbackType(), ID: of.entry.ID, Order: of.entry.Order,
		Claim: of.rule, Final: c.rand.IntN(2) == 0, At: c.at}
	switch {
	case !s.Final:
		s.Reply = merchant.Reply{Code: countersign.CodeAwaitingApproval, Message: "wait"}
	case s.Type == countersign.TypeRequestWithdraw: // of a refusal after it the rules leave a choice
		s.Reply.Details = Order(c.rand.IntN(2))
		if of.entry.Callback.User() == "" {
			s.Reply.TenantUserID = "65515"
		}
	case c.rand.IntN(4) == 0:
		s.Reply = merchant.Reply{Code: countersign.CodeRefusedPerson, Message: "no"}
	}
	if c.rand.IntN(10) == 0 {
		s.ID += " never claimed"
	}
	c.did("settle %+v", s)
	want, fails := c.rules.Settle(context.Background(), s)
	s.Claim = of.name
	got, err := in.Settle(context.Background(), s)
	c.want((err == nil) == (fails == nil), err, fails)
	c.want(got == want || fails != nil, got, want)
}

// renew applies only to inboxes that are a merchant.Renewer.
func (c *inboxRun) renew(in merchant.Inbox, of inboxClaim) {
	c.tb.Helper()
	renewer, is := in.(merchant.Renewer)
	if !is {
		return
	}
	r := merchant.Renewal{Type: of.entry.Callback.CallbackType(), ID: of.entry.ID, Order: of.entry.Order, Claim: of.rule,
		At: c.at, Lease: inboxLease}
	c.did("renew %+v", r)
	want := c.rules.Renew(context.Background(), r)
	r.Claim = of.name
	err := renewer.Renew(context.Background(), r)
	c.want(errors.Is(err, want), err, want)
}

// remember applies only to inboxes that are a merchant.Rememberer.
func (c *inboxRun) remember(in merchant.Inbox) {
	c.tb.Helper()
	if rememberer, is := in.(merchant.Rememberer); is {
		blocks, text := c.blocks()
		e := merchant.Entry{At: c.at, Blocks: blocks}
		c.did("remember blocks %s", text)
		_ = c.rules.Remember(context.Background(), e)
		err := rememberer.Remember(context.Background(), e)
		c.want(err == nil, err, nil)
	}
}

// callback returns one of few callbacks, so that they meet: repetitions, also with another index, other content under
// one identifier, and the same transfer under several.
func (c *inboxRun) callback() (cb countersign.Callback) {
	n, index := c.rand.IntN(3), pick[int64](c.rand, -1, 2, 3, 4, 5)
	switch again := c.rand.IntN(12); {
	case again < 6 && len(c.sent) > 0:
		cb = recent(c.rand, c.sent)
		if d, is := cb.(*countersign.Deposit); is && again < 2 {
			other := *d
			other.TxIndex, cb = index, &other
		}
	case again == 9:
		w := Withdrawal(n)
		w.TenantUserID, cb = pick(c.rand, "", "60001"), w
	case again == 10:
		end := Notice(countersign.TypeInvalidAddress, 10).(*countersign.WithdrawalEnded)
		end.CallBackID, cb = fmt.Sprintf("ended-%d", n), end // reports about several withdrawals under one trackingId
	case again == 11:
		cb = Notice(pick(c.rand, countersign.TypeWithdraw, countersign.TypeNotEnoughHotMoney), 11+n)
	default:
		d := Deposit(1)
		d.TrackingID, d.TxIndex, d.Amount = fmt.Sprintf("deposit-%d", c.rand.IntN(16)), index, Order(c.rand.IntN(12)).Amount
		d.TxID = pick(c.rand, d.TxID, strings.ToUpper(d.TxID), Deposit(2).TxID, Deposit(3).TxID, strings.Repeat("7a", 32))
		d.ChainName, d.Symbol = pick(c.rand, "ETH", "eth ", "BSC"), pick(c.rand, "USDT", "USDT", "USDC")
		cb = d
	}
	c.sent = append(c.sent, cb)
	return cb
}

// blocks returns the blocks of a body, and their names: some of few that several requests have, each as the part of one
// of three callbacks, and one of a requestUUID.
func (c *inboxRun) blocks() (b *merchant.Blocks, names string) {
	digest := func(s string) (d merchant.BlockDigest) {
		sum := sha256.Sum256([]byte(s))
		copy(d[:], sum[:])
		return d
	}
	b = &merchant.Blocks{ByPerson: c.rand.IntN(10) == 0}
	for range c.rand.IntN(3) {
		block, owner := pick(c.rand, "a", "b", "c"), byte(c.rand.IntN(3))
		b.List = append(b.List, merchant.Block{Digest: digest(block), Owner: merchant.BlockDigest{owner}})
		names += fmt.Sprint(block, " of ", owner, ", ")
	}
	uuid := fmt.Sprint(c.rand.IntN(200))
	b.List, names = append(b.List, merchant.Block{Digest: digest(uuid), Own: true}), names+uuid
	b.Body = digest(names)
	if c.rand.IntN(4) == 0 {
		b.Body = digest("another")
	}
	return b, names
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// recent returns one of a list, often one of the last.
func recent[T any](r *rand.Rand, list []T) T {
	if r.IntN(2) == 0 {
		list = list[max(0, len(list)-5):]
	}
	return pick(r, list...)
}

// checkMany claims at once: of one callback one caller gets the claim, and of the same transfer under many trackingIds
// all but one are possible duplicates.
func checkMany(tb TB, ends [2]merchant.Inbox) {
	tb.Helper()
	claims := func(entry func(i int) merchant.Entry) (all []merchant.Claimed) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range inboxCaller {
			wg.Go(func() {
				got, err := ends[i%2].Claim(context.Background(), entry(i))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					tb.Errorf("claiming at once: %v", err)
				}
				all = append(all, got)
			})
		}
		wg.Wait()
		return all
	}
	entry := func(d *countersign.Deposit, lease time.Duration) merchant.Entry {
		e := merchant.NewEntry(d)
		e.At, e.Lease = time.UnixMilli(1_700_000_000_000), lease
		return e
	}
	states := map[merchant.State]int{}
	for _, got := range claims(func(int) merchant.Entry { return entry(Deposit(1), inboxLease) }) {
		states[got.State]++
	}
	if states[merchant.StateClaimed] != 1 || states[merchant.StateBusy] != inboxCaller-1 {
		tb.Errorf("of %d that claim at once %d get the claim, and the states are %v", inboxCaller,
			states[merchant.StateClaimed], states)
	}
	clean := 0
	for _, got := range claims(func(i int) merchant.Entry {
		d := Deposit(2)
		d.TrackingID = fmt.Sprintf("many-%d", i)
		return entry(d, 0)
	}) {
		if !got.PossibleDuplicate {
			clean++
		}
	}
	if clean != 1 {
		tb.Errorf("of %d deposits of one transfer at once %d are no possible duplicates, not 1", inboxCaller, clean)
	}
}
