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

// CheckInbox tests an implementation of merchant.Inbox against its rules. open returns an empty inbox and other, a
// second one on the same data, as another process would open it; both may be the same value. open is called once for
// each rule.
func CheckInbox(tb TB, open func() (inbox, other merchant.Inbox)) {
	tb.Helper()
	for _, rule := range []struct {
		name  string
		check func(c *inboxCheck)
	}{
		{"a new entry is claimed, freed by a reply that is not final, settled once and found again", checkOnce},
		{"without a lease recording settles", checkTaken},
		{"other content changes nothing", checkContent},
		{"other content replaces what was never accepted", checkReplaced},
		{"a lease keeps others out until it ends", checkLease},
		{"a renewed lease keeps others out for longer", checkRenewal},
		{"the first final reply stands, late ones too", checkStands},
		{"only its own claim ends a lease, and settling without one fails", checkGuard},
		{"the same transfer is a possible duplicate", checkTransfer},
		{"a txIndex that changes is looked at again", checkChangedIndex},
		{"the user of a withdrawal that names none is kept", checkReplyUser},
		{"a block of a requestUUID comes in one request", checkBlocks},
		{"a block that belongs to another callback is suspect", checkOwners},
		{"every type has identifiers of its own, and reports are about their withdrawal", checkReports},
		{"of many at once one gets the claim", checkMany},
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

func (c *inboxCheck) errorf(format string, args ...any) {
	c.tb.Helper()
	c.tb.Errorf("%s: %s", c.rule, fmt.Sprintf(format, args...))
}

// open claims e, which must be free, and settles it with a reply that is not final.
func (c *inboxCheck) open(in merchant.Inbox, e merchant.Entry) merchant.Claimed {
	c.tb.Helper()
	got := c.claim(in, e, merchant.StateClaimed)
	c.settle(in, e, got.Claim, notFinal(), false, notFinal())
	return got
}

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
		c.errorf("claiming gave %v, want %v", got.State, want)
	}
	if want != merchant.StateSpliced && got.Seq <= 0 {
		c.errorf("the number is %d", got.Seq)
	}
	return got
}

func (c *inboxCheck) settle(in merchant.Inbox, e merchant.Entry, claim int64, o merchant.Reply, final bool,
	want merchant.Reply) {
	c.tb.Helper()
	got, err := in.Settle(context.Background(), merchant.Settlement{
		Type: e.Callback.CallbackType(), ID: e.ID, Order: e.Order, Claim: claim, Reply: o, Final: final, At: c.at,
	})
	if err != nil {
		c.tb.Fatalf("%s: settling: %v", c.rule, err)
	}
	if got != want {
		c.errorf("settling gave %+v, want %+v", got, want)
	}
}

func confirmed(n int) merchant.Reply { return merchant.Reply{Details: Order(n)} }

func notFinal() merchant.Reply {
	return merchant.Reply{Code: countersign.CodeAwaitingApproval, Message: "wait"}
}

func checkOnce(c *inboxCheck) {
	e := c.entry(Withdrawal(1), inboxLease)
	c.open(c.inbox, e)
	got := c.claim(c.other, e, merchant.StateClaimed)
	c.settle(c.other, e, got.Claim, confirmed(1), true, confirmed(1))
	for _, in := range []merchant.Inbox{c.inbox, c.other} {
		again := c.claim(in, e, merchant.StateSettled)
		if again.Reply != confirmed(1) || again.Seq != got.Seq {
			c.errorf("found %+v under %d, want %+v under %d", again.Reply, again.Seq, confirmed(1), got.Seq)
		}
	}
	next := c.claim(c.other, c.entry(Withdrawal(2), inboxLease), merchant.StateClaimed)
	if next.Seq <= got.Seq {
		c.errorf("number %d comes after %d", next.Seq, got.Seq)
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
		c.errorf("found %+v, want %+v", again.Reply, reply)
	}
}

func checkTaken(c *inboxCheck) {
	e := c.entry(Deposit(1), 0)
	c.claim(c.inbox, e, merchant.StateTaken)
	again := c.claim(c.other, e, merchant.StateSettled)
	if again.Reply != (merchant.Reply{}) {
		c.errorf("the reply is %+v", again.Reply)
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

// checkReplaced: an entry that was not accepted and is not being worked on can be replaced, and then no longer makes
// another entry a possible duplicate.
func checkReplaced(c *inboxCheck) {
	wrong, right, copied := Deposit(1), Deposit(1), Deposit(1)
	right.Amount, right.TxID = Deposit(2).Amount, Deposit(2).TxID
	copied.TrackingID = "copied"
	e := c.entry(wrong, inboxLease)
	got := c.claim(c.inbox, e, merchant.StateClaimed)
	c.claim(c.other, c.entry(right, 0), merchant.StateOtherContent)
	c.settle(c.inbox, e, got.Claim, notFinal(), false, notFinal())
	again := c.open(c.other, c.entry(right, inboxLease))
	if again.Seq != got.Seq || again.PossibleDuplicate || !again.Replaced || got.Replaced {
		c.errorf("found %+v, then %+v", got, again)
	}
	if got := c.claim(c.inbox, c.entry(right, 0), merchant.StateTaken); got.Replaced {
		c.errorf("the same content replaces itself")
	}
	c.claim(c.other, c.entry(wrong, 0), merchant.StateOtherContent)
	c.suspected(c.other, c.entry(copied, 0), false) // the replaced transfer no longer counts
	copied = Deposit(2)
	copied.TrackingID, copied.ToAddress = "copied again", wrong.ToAddress
	c.suspected(c.other, c.entry(copied, 0), true) // the one that replaced it counts
	// What replaces an entry is compared with accepted transfers, too.
	late, other := Deposit(3), Deposit(4)
	other.TrackingID = late.TrackingID
	c.claim(c.inbox, c.entry(Deposit(4), 0), merchant.StateTaken)
	c.open(c.inbox, c.entry(late, inboxLease))
	c.suspected(c.other, c.entry(other, 0), true)
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
		c.errorf("two claims are both called %d", first.Claim)
	}
	if !first.Recorded.IsZero() && (!first.Recorded.Equal(c.at) || !second.Recorded.Equal(c.at)) {
		c.errorf("recorded at %v and %v, want %v for both", first.Recorded, second.Recorded, c.at)
	}
	if second.Seq != first.Seq {
		c.errorf("the number changed from %d to %d", first.Seq, second.Seq)
	}
}

// checkRenewal applies only to inboxes that are a merchant.Renewer.
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
			c.errorf("renewing gave %v, want %v", err, want)
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
	if _, err := c.inbox.Settle(context.Background(), merchant.Settlement{Type: e.Callback.CallbackType(), ID: "none",
		Final: true}); err == nil {
		c.errorf("what was not claimed is settled")
	}
}

func checkTransfer(c *inboxCheck) {
	same := func(d *countersign.Deposit) {
		d.TxID, d.TxIndex, d.Amount = strings.Repeat("7a", 32), 9, Order(0).Amount
	}
	for n, row := range []struct {
		change  func(*countersign.Deposit)
		suspect bool
	}{
		{func(*countersign.Deposit) {}, false},
		{func(d *countersign.Deposit) { d.TxIndex = 4 }, false},
		{func(d *countersign.Deposit) { d.TxIndex = 3 }, true},
		{func(d *countersign.Deposit) { d.TxIndex = -1 }, true},
		{func(d *countersign.Deposit) { d.TxIndex = 5 }, true}, // -1 is known by now
		{func(d *countersign.Deposit) {
			d.ChainName, d.TxID = strings.ToLower(d.ChainName)+" ", strings.ToUpper(d.TxID)
		}, true},
		{func(d *countersign.Deposit) { d.Symbol = "USDC" }, false},
		{func(d *countersign.Deposit) { d.ToAddress = Deposit(2).ToAddress }, false},
		{func(d *countersign.Deposit) { d.TxID = Deposit(2).TxID }, false},
		{func(d *countersign.Deposit) { d.ChainName = "BSC" }, false},
		{same, false},
		{func(d *countersign.Deposit) { same(d); d.TxIndex++ }, true}, // one amount, whatever the index
		{func(d *countersign.Deposit) { same(d); d.ChainName, d.Symbol = "BSC", "USDC" }, true},
	} {
		d := Deposit(1) // another amount for each n: two of one amount are possible duplicates whatever their txIndex (I2)
		d.TrackingID, d.TxIndex, d.Amount = fmt.Sprintf("transfer-%d", n), 3, Order(n).Amount
		row.change(d)
		for range 2 { // the second time from the record
			e := c.entry(d, inboxLease)
			e.At = e.At.Add(time.Duration(n) * inboxLease)
			c.suspected(c.inbox, e, row.suspect)
		}
	}
}

// suspected checks whether e, which must be free, is a possible duplicate: without a lease it is taken, and with one it
// stays open.
func (c *inboxCheck) suspected(in merchant.Inbox, e merchant.Entry, want bool) {
	c.tb.Helper()
	var got merchant.Claimed
	if e.Lease == 0 {
		got = c.claim(in, e, merchant.StateTaken)
	} else {
		got = c.open(in, e)
	}
	if got.PossibleDuplicate != want {
		d := e.Callback.(*countersign.Deposit)
		c.errorf("%s with txIndex %d is a possible duplicate: %v, want %v", e.ID, d.TxIndex, got.PossibleDuplicate, want)
	}
}

// checkChangedIndex: an entry that is still open comes again with another txIndex, which makes
// it the transfer of another entry. Whichever of the two gets the index last is the duplicate.
func checkChangedIndex(c *inboxCheck) {
	const open, taken = inboxLease, 0
	entry := func(n int, index int64, lease time.Duration) merchant.Entry {
		d := Deposit(1)
		d.TrackingID, d.TxIndex, d.Amount = fmt.Sprintf("index-%d", n), index, Order(n).Amount
		return c.entry(d, lease)
	}
	for i, row := range []struct {
		n       int
		index   int64
		lease   time.Duration
		suspect bool
	}{
		{1, 1, open, false},
		{2, 2, open, false},
		{2, 3, open, false}, // nobody has 3
		{1, 1, open, false},
		{1, 1, taken, false},
		{2, 1, open, true},
		{2, 7, open, true}, // for ever
		{2, 7, taken, true},
		{3, 10, open, false},
		{4, 11, taken, false},
		{3, 11, taken, true}, // the later entry has taken effect already
		{5, 20, open, false},
		{6, 21, open, false},
	} {
		c.suspected([]merchant.Inbox{c.inbox, c.other}[i%2], entry(row.n, row.index, row.lease), row.suspect)
	}
	leased := c.claim(c.inbox, entry(5, 20, open), merchant.StateClaimed)
	c.claim(c.other, entry(5, 21, open), merchant.StateBusy) // changes nothing
	c.settle(c.inbox, entry(5, 20, taken), leased.Claim, notFinal(), false, notFinal())
	c.suspected(c.other, entry(6, 21, taken), false)
	c.suspected(c.other, entry(5, -1, taken), true)
}

// blocks returns the blocks of a request body, one for each letter of list. Capital letters are blocks of the
// requestUUID.
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
			c.errorf("a spliced request was recorded under %d", got.Seq)
		}
	}
	spliced.Blocks = blocks("5", "aD") // so nothing of it was recorded
	if got := c.claim(c.other, spliced, merchant.StateTaken); got.Suspect {
		c.errorf("a request with a requestUUID of its own is suspect")
	}
	// The blocks of what is refused for its content, or before it reaches the inbox, are remembered.
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
			c.errorf("%v", err)
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
		c.errorf("what a person has taken and shares all blocks with others is not suspect")
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
				c.errorf("with owner %d suspect is %v, want %v", owner, got.Suspect, want)
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

// checkReports: reports about two withdrawals with one trackingId are two entries, leased or not. Another report about
// one of them is a repetition.
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
	for _, t := range countersign.TypeUnknown.Values() {
		if n := Notice(t, 9); n != nil && n.EventID() != "" {
			c.claim(c.inbox, c.entry(n, 0), merchant.StateTaken)
		}
	}
}

// inboxCallers is how many claim at once.
const inboxCallers = 40

func checkMany(c *inboxCheck) {
	claims := func(entry func(i int) merchant.Entry) (all []merchant.Claimed) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range inboxCallers {
			wg.Go(func() {
				in := []merchant.Inbox{c.inbox, c.other}[i%2]
				got, err := in.Claim(context.Background(), entry(i))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					c.errorf("%v", err)
					return
				}
				all = append(all, got)
			})
		}
		wg.Wait()
		return all
	}
	claimed := 0
	for _, got := range claims(func(int) merchant.Entry { return c.entry(Deposit(1), inboxLease) }) {
		switch got.State {
		case merchant.StateClaimed:
			claimed++
		case merchant.StateBusy:
		default:
			c.errorf("a state is %v", got.State)
		}
	}
	if claimed != 1 {
		c.errorf("%d got the claim", claimed)
	}
	// The same transfer under many trackingIds at once: all but one are possible duplicates.
	clean := 0
	for _, got := range claims(func(i int) merchant.Entry {
		d := Deposit(2)
		d.TrackingID = fmt.Sprintf("many-%d", i)
		return c.entry(d, 0)
	}) {
		if !got.PossibleDuplicate {
			clean++
		}
	}
	if clean != 1 {
		c.errorf("%d of one transfer are not possible duplicates", clean)
	}
}
