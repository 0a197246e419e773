package countersigntest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"countersign"
	"countersign/merchant"
)

// CheckInbox tests an implementation of merchant.Inbox against its rules. open
// gives an empty inbox and other, a second one on the same data, as another
// process would have it; both may be the same value. open is called once for each
// rule.
func CheckInbox(tb TB, open func() (inbox, other merchant.Inbox)) {
	tb.Helper()
	for _, rule := range []struct {
		name  string
		check func(c *inboxCheck)
	}{
		{"a new entry is claimed, settled once and found again", checkOnce},
		{"without a lease recording settles", checkTaken},
		{"other content changes nothing", checkContent},
		{"other content replaces what was never accepted", checkReplaced},
		{"a lease keeps others out until it ends", checkLease},
		{"a renewed lease keeps others out for longer", checkRenewal},
		{"a reply that is not final frees the entry", checkNotFinal},
		{"the first final reply stands, late ones too", checkStands},
		{"only its own claim ends a lease", checkGuard},
		{"the same transfer is a possible duplicate", checkTransfer},
		{"a txIndex that changes is looked at again", checkChangedIndex},
		{"the user of a withdrawal that names none is kept", checkReplyUser},
		{"a block of a requestUUID comes in one request", checkBlocks},
		{"a block that belongs to another callback is suspect", checkOwners},
		{"a type of its own for every identifier", checkTypes},
		{"reports are about their withdrawal", checkReports},
		{"of many at once one gets the claim", checkMany},
		{"settling what was not claimed fails", checkUnknown},
	} {
		c := &inboxCheck{tb: tb, rule: rule.name, at: time.UnixMilli(1_700_000_000_000)}
		c.inbox, c.other = open()
		rule.check(c)
	}
}

type inboxCheck struct {
	tb           TB
	rule         string
	inbox, other merchant.Inbox
	at           time.Time
}

const inboxLease = time.Minute

func (c *inboxCheck) entry(cb countersign.Callback, lease time.Duration) merchant.Entry {
	e := merchant.NewEntry(cb)
	e.At, e.Lease = c.at, lease
	return e
}

func (c *inboxCheck) claim(in merchant.Inbox, e merchant.Entry, want merchant.State) merchant.Claimed {
	c.tb.Helper()
	got, err := in.Claim(context.Background(), e)
	if err != nil {
		c.tb.Fatalf("%s: claiming: %v", c.rule, err)
	}
	if got.State != want {
		c.tb.Errorf("%s: claiming gave %v, want %v", c.rule, got.State, want)
	}
	if want != merchant.StateSpliced && got.Seq <= 0 {
		c.tb.Errorf("%s: the number is %d", c.rule, got.Seq)
	}
	return got
}

func (c *inboxCheck) settle(in merchant.Inbox, e merchant.Entry, claim int64, o merchant.Reply, final bool, want merchant.Reply) {
	c.tb.Helper()
	got, err := in.Settle(context.Background(), merchant.Settlement{
		Type: e.Callback.CallbackType(), ID: e.ID, Order: e.Order, Claim: claim, Reply: o, Final: final, At: c.at,
	})
	if err != nil {
		c.tb.Fatalf("%s: settling: %v", c.rule, err)
	}
	if got != want {
		c.tb.Errorf("%s: settling gave %+v, want %+v", c.rule, got, want)
	}
}

func confirmed(n int) merchant.Reply { return merchant.Reply{Details: Order(n)} }

func notFinal() merchant.Reply {
	return merchant.Reply{Code: countersign.CodeAwaitingApproval, Message: "wait"}
}

func checkOnce(c *inboxCheck) {
	e := c.entry(Withdrawal(1), inboxLease)
	got := c.claim(c.inbox, e, merchant.StateClaimed)
	c.settle(c.inbox, e, got.Claim, confirmed(1), true, confirmed(1))
	for _, in := range []merchant.Inbox{c.inbox, c.other} {
		again := c.claim(in, e, merchant.StateSettled)
		if again.Reply != confirmed(1) || again.Seq != got.Seq {
			c.tb.Errorf("%s: found %+v under %d, want %+v under %d", c.rule, again.Reply, again.Seq, confirmed(1), got.Seq)
		}
	}
	next := c.claim(c.other, c.entry(Withdrawal(2), inboxLease), merchant.StateClaimed)
	if next.Seq <= got.Seq {
		c.tb.Errorf("%s: number %d comes after %d", c.rule, next.Seq, got.Seq)
	}
}

func checkReplyUser(c *inboxCheck) {
	w := Withdrawal(1)
	w.TenantUserID = ""
	e, reply := c.entry(w, inboxLease), confirmed(1)
	reply.TenantUserID = "65515"
	got := c.claim(c.inbox, e, merchant.StateClaimed)
	c.settle(c.inbox, e, got.Claim, reply, true, reply)
	c.settle(c.other, e, got.Claim, reply, true, reply)
	if again := c.claim(c.other, e, merchant.StateSettled); again.Reply != reply {
		c.tb.Errorf("%s: found %+v, want %+v", c.rule, again.Reply, reply)
	}
}

func checkTaken(c *inboxCheck) {
	e := c.entry(Deposit(1), 0)
	c.claim(c.inbox, e, merchant.StateTaken)
	again := c.claim(c.other, e, merchant.StateSettled)
	if again.Reply != (merchant.Reply{}) {
		c.tb.Errorf("%s: the reply is %+v", c.rule, again.Reply)
	}
	// An entry that was leased for a function is claimed without one.
	e = c.entry(Deposit(2), inboxLease)
	c.claim(c.inbox, e, merchant.StateClaimed)
	e.Lease = 0
	c.claim(c.other, e, merchant.StateTaken)
	c.claim(c.inbox, e, merchant.StateSettled)
}

func checkContent(c *inboxCheck) {
	e := c.entry(Deposit(1), inboxLease)
	got := c.claim(c.inbox, e, merchant.StateClaimed)
	changed := Deposit(1)
	changed.Amount = Deposit(2).Amount
	other := c.entry(changed, inboxLease)
	c.claim(c.other, other, merchant.StateOtherContent)
	c.settle(c.inbox, e, got.Claim, merchant.Reply{}, true, merchant.Reply{})
	c.claim(c.other, other, merchant.StateOtherContent)
	c.claim(c.other, e, merchant.StateSettled)
}

// checkReplaced: what was neither accepted nor is being worked on binds nothing, and is no
// transfer of which another could be a copy.
func checkReplaced(c *inboxCheck) {
	wrong, right, copied := Deposit(1), Deposit(1), Deposit(1)
	right.Amount, right.TxID = Deposit(2).Amount, Deposit(2).TxID
	copied.TrackingID = "copied"
	e := c.entry(wrong, inboxLease)
	got := c.claim(c.inbox, e, merchant.StateClaimed)
	c.claim(c.other, c.entry(right, 0), merchant.StateOtherContent)
	c.settle(c.inbox, e, got.Claim, notFinal(), false, notFinal())
	again := c.claim(c.other, c.entry(right, inboxLease), merchant.StateClaimed)
	if again.Seq != got.Seq || again.PossibleDuplicate || !again.Replaced || got.Replaced {
		c.tb.Errorf("%s: found %+v, then %+v", c.rule, got, again)
	}
	c.settle(c.other, e, again.Claim, notFinal(), false, notFinal())
	if got := c.claim(c.inbox, c.entry(right, 0), merchant.StateTaken); got.Replaced {
		c.tb.Errorf("%s: the same content replaces itself", c.rule)
	}
	c.claim(c.other, c.entry(wrong, 0), merchant.StateOtherContent)
	if got := c.claim(c.other, c.entry(copied, 0), merchant.StateTaken); got.PossibleDuplicate {
		c.tb.Errorf("%s: what took the place of the same transfer is still compared with it", c.rule)
	}
	copied = Deposit(2)
	copied.TrackingID, copied.ToAddress = "copied again", wrong.ToAddress
	if got := c.claim(c.other, c.entry(copied, 0), merchant.StateTaken); !got.PossibleDuplicate {
		c.tb.Errorf("%s: what took the place is not compared with others", c.rule)
	}
	// A copy of a transfer that was accepted is compared when it takes the place, too.
	late, other := Deposit(3), Deposit(4)
	other.TrackingID = late.TrackingID
	c.claim(c.inbox, c.entry(Deposit(4), 0), merchant.StateTaken)
	got = c.claim(c.inbox, c.entry(late, inboxLease), merchant.StateClaimed)
	c.settle(c.inbox, c.entry(late, 0), got.Claim, notFinal(), false, notFinal())
	if got := c.claim(c.other, c.entry(other, 0), merchant.StateTaken); !got.PossibleDuplicate {
		c.tb.Errorf("%s: a copy that took the place of another deposit is not a possible duplicate", c.rule)
	}
}

func checkLease(c *inboxCheck) {
	e := c.entry(Deposit(1), inboxLease)
	first := c.claim(c.inbox, e, merchant.StateClaimed)
	c.claim(c.other, e, merchant.StateBusy)
	e.At = e.At.Add(inboxLease - time.Millisecond)
	c.claim(c.other, e, merchant.StateBusy)
	e.At = e.At.Add(time.Millisecond)
	second := c.claim(c.other, e, merchant.StateClaimed)
	if second.Claim == first.Claim {
		c.tb.Errorf("%s: two claims are both called %d", c.rule, first.Claim)
	}
	if !first.Recorded.IsZero() && (!first.Recorded.Equal(c.at) || !second.Recorded.Equal(c.at)) {
		c.tb.Errorf("%s: recorded at %v and %v, want %v for both", c.rule, first.Recorded, second.Recorded, c.at)
	}
	if second.Seq != first.Seq {
		c.tb.Errorf("%s: the number changed from %d to %d", c.rule, first.Seq, second.Seq)
	}
}

// checkRenewal holds only inboxes that are a merchant.Renewer.
func checkRenewal(c *inboxCheck) {
	renewer, ok := c.inbox.(merchant.Renewer)
	if !ok {
		return
	}
	e := c.entry(Deposit(1), inboxLease)
	renew := func(claim int64, want error) {
		c.tb.Helper()
		err := renewer.Renew(context.Background(), merchant.Renewal{
			Type: e.Callback.CallbackType(), ID: e.ID, Order: e.Order, Claim: claim, At: c.at, Lease: inboxLease,
		})
		if !errors.Is(err, want) {
			c.tb.Errorf("%s: renewing gave %v, want %v", c.rule, err, want)
		}
	}
	renew(1, merchant.ErrNotClaimed)
	first := c.claim(c.inbox, e, merchant.StateClaimed)
	c.at = c.at.Add(inboxLease - time.Second)
	renew(first.Claim, nil)
	e.At = c.at.Add(inboxLease - time.Second)
	c.claim(c.other, e, merchant.StateBusy)
	e.At = c.at.Add(inboxLease)
	second := c.claim(c.other, e, merchant.StateClaimed)
	renew(first.Claim, merchant.ErrNotClaimed)
	c.settle(c.other, e, second.Claim, merchant.Reply{}, true, merchant.Reply{})
	renew(second.Claim, merchant.ErrNotClaimed)
}

func checkNotFinal(c *inboxCheck) {
	e := c.entry(Withdrawal(1), inboxLease)
	got := c.claim(c.inbox, e, merchant.StateClaimed)
	c.settle(c.inbox, e, got.Claim, notFinal(), false, notFinal())
	got = c.claim(c.other, e, merchant.StateClaimed)
	c.settle(c.other, e, got.Claim, confirmed(1), true, confirmed(1))
}

func checkStands(c *inboxCheck) {
	e := c.entry(Withdrawal(1), inboxLease)
	first := c.claim(c.inbox, e, merchant.StateClaimed)
	e.At = e.At.Add(inboxLease)
	second := c.claim(c.other, e, merchant.StateClaimed)
	c.settle(c.inbox, e, first.Claim, confirmed(1), true, confirmed(1)) // late, but it happened
	c.settle(c.other, e, second.Claim, confirmed(2), true, confirmed(1))
	c.settle(c.other, e, second.Claim, notFinal(), false, confirmed(1))
	c.claim(c.other, e, merchant.StateSettled)
}

func checkGuard(c *inboxCheck) {
	e := c.entry(Deposit(1), inboxLease)
	first := c.claim(c.inbox, e, merchant.StateClaimed)
	e.At = e.At.Add(inboxLease)
	c.claim(c.other, e, merchant.StateClaimed)
	c.settle(c.inbox, e, first.Claim, notFinal(), false, notFinal())
	c.claim(c.inbox, e, merchant.StateBusy)
}

func checkTransfer(c *inboxCheck) {
	n := 0
	claim := func(change func(*countersign.Deposit), want bool) {
		c.tb.Helper()
		d := Deposit(1)
		d.TrackingID, d.TxIndex, d.Amount = fmt.Sprintf("transfer-%d", n), 3, amountOf(n)
		n++
		change(d)
		for range 2 { // the second time from the record
			e := c.entry(d, inboxLease)
			e.At = e.At.Add(time.Duration(n) * inboxLease)
			got := c.claim(c.inbox, e, merchant.StateClaimed)
			if got.PossibleDuplicate != want {
				c.tb.Errorf("%s: %s with txIndex %d is %v, want %v", c.rule, d.TrackingID, d.TxIndex, got.PossibleDuplicate, want)
			}
			c.settle(c.inbox, e, got.Claim, notFinal(), false, notFinal())
		}
	}
	claim(func(*countersign.Deposit) {}, false)
	claim(func(d *countersign.Deposit) { d.TxIndex = 4 }, false)
	claim(func(d *countersign.Deposit) { d.TxIndex = 3 }, true)
	claim(func(d *countersign.Deposit) { d.TxIndex = -1 }, true)
	claim(func(d *countersign.Deposit) { d.TxIndex = 5 }, true) // -1 is known by now
	claim(func(d *countersign.Deposit) {
		d.ChainName, d.TxID = strings.ToLower(d.ChainName)+" ", strings.ToUpper(d.TxID)
	}, true)
	claim(func(d *countersign.Deposit) { d.Symbol = "USDC" }, false)
	claim(func(d *countersign.Deposit) { d.ToAddress = Deposit(2).ToAddress }, false)
	claim(func(d *countersign.Deposit) { d.TxID = Deposit(2).TxID }, false)
	claim(func(d *countersign.Deposit) { d.ChainName = "BSC" }, false)
	same := func(d *countersign.Deposit) {
		d.TxID, d.TxIndex, d.Amount = strings.Repeat("7a", 32), int64(n), amountOf(0)
	}
	claim(same, false)
	claim(same, true) // one amount, whatever the index
	claim(func(d *countersign.Deposit) { same(d); d.ChainName, d.Symbol = "BSC", "USDC" }, true)
}

// amountOf is another amount for each n: two deposits of one amount are possible duplicates
// whatever their txIndex (PROTOCOL.md, I2).
func amountOf(n int) countersign.Amount {
	a, err := countersign.ParseAmount(fmt.Sprintf("%d.5", n+1))
	if err != nil {
		panic(err)
	}
	return a
}

// checkChangedIndex: an entry that is still open comes again with another txIndex, which makes
// it the transfer of another entry. Whichever of the two gets the index last is the duplicate.
func checkChangedIndex(c *inboxCheck) {
	deposit := func(n int, index int64, lease time.Duration) merchant.Entry {
		d := Deposit(1)
		d.TrackingID, d.TxIndex, d.Amount = fmt.Sprintf("index-%d", n), index, amountOf(n)
		return c.entry(d, lease)
	}
	open := func(in merchant.Inbox, n int, index int64, want bool) {
		c.tb.Helper()
		e := deposit(n, index, inboxLease)
		got := c.claim(in, e, merchant.StateClaimed)
		if got.PossibleDuplicate != want {
			c.tb.Errorf("%s: %s with txIndex %d is %v, want %v", c.rule, e.ID, index, got.PossibleDuplicate, want)
		}
		c.settle(in, e, got.Claim, notFinal(), false, notFinal())
	}
	taken := func(in merchant.Inbox, n int, index int64, want bool) {
		c.tb.Helper()
		if got := c.claim(in, deposit(n, index, 0), merchant.StateTaken); got.PossibleDuplicate != want {
			c.tb.Errorf("%s: index-%d, taken with txIndex %d, is %v, want %v", c.rule, n, index, got.PossibleDuplicate, want)
		}
	}
	open(c.inbox, 1, 1, false)
	open(c.other, 2, 2, false)
	open(c.other, 2, 3, false) // nobody has 3
	open(c.inbox, 1, 1, false)
	taken(c.inbox, 1, 1, false)
	open(c.other, 2, 1, true)
	open(c.inbox, 2, 7, true) // for ever
	taken(c.other, 2, 7, true)

	open(c.inbox, 3, 10, false)
	taken(c.inbox, 4, 11, false)
	taken(c.other, 3, 11, true) // the later entry has taken effect already

	open(c.inbox, 5, 20, false)
	open(c.inbox, 6, 21, false)
	leased := c.claim(c.inbox, deposit(5, 20, inboxLease), merchant.StateClaimed)
	c.claim(c.other, deposit(5, 21, inboxLease), merchant.StateBusy) // changes nothing
	c.settle(c.inbox, deposit(5, 20, 0), leased.Claim, notFinal(), false, notFinal())
	taken(c.other, 6, 21, false)
	taken(c.other, 5, -1, true)
}

// blocks are those of a request body, one for each letter of list. Capital letters
// are blocks of the requestUUID.
func blocks(body, list string) *merchant.Blocks {
	digest := func(s string) (d merchant.BlockDigest) {
		sum := sha256.Sum256([]byte(s))
		copy(d[:], sum[:])
		return d
	}
	b := &merchant.Blocks{Body: digest(body)}
	for _, letter := range list {
		b.List = append(b.List, merchant.Block{Digest: digest(string(letter)), Own: letter < 'a'})
	}
	return b
}

func checkBlocks(c *inboxCheck) {
	e := c.entry(Deposit(1), 0)
	e.Blocks = blocks("1", "aB")
	c.claim(c.inbox, e, merchant.StateTaken)
	c.claim(c.other, e, merchant.StateSettled) // the same request once more
	e.Blocks = blocks("2", "aC")
	c.claim(c.other, e, merchant.StateSettled) // another attempt
	e.Blocks = blocks("3", "aB")
	c.claim(c.other, e, merchant.StateSpliced)

	spliced := c.entry(Deposit(2), 0)
	for _, list := range []string{"bB", "bC", "a"} { // the last has no new block
		spliced.Blocks = blocks("4", list)
		if got := c.claim(c.other, spliced, merchant.StateSpliced); got.Seq != 0 {
			c.tb.Errorf("%s: a spliced request was recorded under %d", c.rule, got.Seq)
		}
	}
	spliced.Blocks = blocks("5", "aD") // so nothing of it was recorded
	if got := c.claim(c.other, spliced, merchant.StateTaken); got.Suspect {
		c.tb.Errorf("%s: a request with a requestUUID of its own is suspect", c.rule)
	}
	// What is refused for its content, or before it comes to the inbox, is remembered.
	changed := Deposit(1)
	changed.Amount = Deposit(2).Amount
	other := c.entry(changed, 0)
	other.Blocks = blocks("6", "E")
	c.claim(c.inbox, other, merchant.StateOtherContent)
	next := c.entry(Deposit(3), 0)
	next.Blocks = blocks("7", "E")
	c.claim(c.inbox, next, merchant.StateSpliced)
	refused, ok := c.other.(merchant.Rememberer)
	if !ok {
		return
	}
	for _, list := range []string{"mN", "aN"} { // N is of the first
		if err := refused.Remember(context.Background(), merchant.Entry{At: c.at, Blocks: blocks(list, list)}); err != nil {
			c.tb.Errorf("%s: %v", c.rule, err)
		}
	}
	next.Blocks = blocks("8", "nN")
	c.claim(c.inbox, next, merchant.StateSpliced)
	next.Blocks = blocks("mN", "mN") // this very request
	c.claim(c.inbox, next, merchant.StateTaken)

	joined := c.entry(Deposit(4), 0)
	joined.Blocks = blocks("9", "am") // of two requests, and nothing of its own
	c.claim(c.inbox, joined, merchant.StateSpliced)
	joined.Blocks.ByPerson = true
	if got := c.claim(c.inbox, joined, merchant.StateTaken); !got.Suspect {
		c.tb.Errorf("%s: what a person has taken and shares all blocks with others is not suspect", c.rule)
	}
}

func checkOwners(c *inboxCheck) {
	owned := func(body, list string, owner byte) *merchant.Blocks {
		b := blocks(body, list)
		b.List[0].Owner = merchant.BlockDigest{owner}
		return b
	}
	e := c.entry(Deposit(1), 0)
	e.Blocks = owned("1", "aB", 1)
	c.claim(c.inbox, e, merchant.StateTaken)
	for n, owner := range []byte{1, 2, 0} {
		d := c.entry(Deposit(2+n), 0)
		d.Blocks = owned(d.ID, string("a"+string(rune('C'+n))), owner)
		want := owner != 1
		for _, state := range []merchant.State{merchant.StateTaken, merchant.StateSettled} {
			if got := c.claim(c.other, d, state); got.Suspect != want {
				c.tb.Errorf("%s: with owner %d suspect is %v, want %v", c.rule, owner, got.Suspect, want)
			}
		}
	}
	// What cannot be held for a person is refused.
	notice := c.entry(Notice(countersign.TypeWithdraw, 1), 0)
	notice.Blocks = owned("2", "aG", 2)
	c.claim(c.inbox, notice, merchant.StateSpliced)
	open := c.entry(Deposit(9), inboxLease)
	open.Blocks = blocks("3", "H")
	c.claim(c.inbox, open, merchant.StateClaimed)
	open.Blocks = owned("4", "aI", 2)
	c.claim(c.inbox, open, merchant.StateSpliced)
}

// checkReports: reports about two withdrawals with one trackingId are two, also where they are
// leased, and of each the same withdrawal again is a repetition.
func checkReports(c *inboxCheck) {
	report := func(n int, lease time.Duration) merchant.Entry {
		end := Notice(countersign.TypeInvalidAddress, 1).(*countersign.WithdrawalEnded)
		end.CallBackID = fmt.Sprintf("order-%d", n)
		return c.entry(end, lease)
	}
	c.claim(c.inbox, report(1, 0), merchant.StateTaken)
	c.claim(c.other, report(2, 0), merchant.StateTaken)
	c.claim(c.inbox, report(1, 0), merchant.StateSettled)
	claims := map[int]merchant.Claimed{}
	for n := range 2 {
		claims[n] = c.claim(c.other, report(3+n, inboxLease), merchant.StateClaimed)
	}
	for n, got := range claims {
		c.settle(c.inbox, report(3+n, 0), got.Claim, merchant.Reply{}, true, merchant.Reply{})
		c.claim(c.inbox, report(3+n, 0), merchant.StateSettled)
	}
}

func checkTypes(c *inboxCheck) {
	for _, t := range countersign.TypeUnknown.Values() {
		if n := Notice(t, 1); n != nil && n.EventID() != "" {
			c.claim(c.inbox, c.entry(n, 0), merchant.StateTaken)
		}
	}
}

// inboxCallers is how many claim at once.
const inboxCallers = 40

func checkMany(c *inboxCheck) {
	e := c.entry(Deposit(1), inboxLease)
	states := make(chan merchant.State, inboxCallers)
	errs := make(chan error, inboxCallers)
	var wg sync.WaitGroup
	for i := range inboxCallers {
		in := c.inbox
		if i%2 == 1 {
			in = c.other
		}
		wg.Go(func() {
			got, err := in.Claim(context.Background(), e)
			if err != nil {
				errs <- err
				return
			}
			states <- got.State
		})
	}
	wg.Wait()
	close(states)
	close(errs)
	for err := range errs {
		c.tb.Errorf("%s: %v", c.rule, err)
	}
	claimed := 0
	for s := range states {
		switch s {
		case merchant.StateClaimed:
			claimed++
		case merchant.StateBusy:
		default:
			c.tb.Errorf("%s: a state is %v", c.rule, s)
		}
	}
	if claimed != 1 {
		c.tb.Errorf("%s: %d got the claim", c.rule, claimed)
	}
	// The same transfer under many trackingIds at once: all but one are possible
	// duplicates.
	suspects := make(chan bool, inboxCallers)
	for i := range inboxCallers {
		wg.Go(func() {
			d := Deposit(2)
			d.TrackingID = fmt.Sprintf("many-%d", i)
			got, err := c.inbox.Claim(context.Background(), c.entry(d, 0))
			suspects <- err == nil && got.PossibleDuplicate
		})
	}
	wg.Wait()
	close(suspects)
	clean := 0
	for s := range suspects {
		if !s {
			clean++
		}
	}
	if clean != 1 {
		c.tb.Errorf("%s: %d of one transfer are not possible duplicates", c.rule, clean)
	}
}

func checkUnknown(c *inboxCheck) {
	_, err := c.inbox.Settle(context.Background(), merchant.Settlement{Type: countersign.TypeDeposited, ID: "none", Final: true})
	if err == nil {
		c.tb.Errorf("%s: it did not", c.rule)
	}
}
