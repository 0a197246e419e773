package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"countersign"
	"countersign/countersigntest"
)

// gwLoad lets the service call several gateways and their merchant order, take
// back and read, whatever becomes of the nodes, and writes down what was
// acknowledged.
type gwLoad struct {
	*gwNodes
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu        sync.Mutex
	deposited int
	ordered   int
	lost      []int                   // orders without a final answer
	untaken   []int                   // deposits likewise
	taken     map[string]bool         // trackingId
	cancelled map[int]bool            // acknowledged as taken back
	outcomes  map[int]gwOutcome       // final answers
	acks      map[*gwNode][]time.Time // when a deposit was acknowledged
	feed      []gwDeposit             // as it was read, from the first on
}

// gwOutcome is what the service was told for good.
type gwOutcome struct {
	code    countersign.ErrCode
	details countersign.Details
}

func newGwLoad(c *gwNodes) *gwLoad {
	l := &gwLoad{gwNodes: c, taken: map[string]bool{}, cancelled: map[int]bool{}, outcomes: map[int]gwOutcome{},
		acks: map[*gwNode][]time.Time{}}
	l.ctx, l.stop = context.WithCancel(c.t.Context())
	for _, n := range c.nodes { // each works with all of them
		for range 2 {
			l.repeat(func() { l.deposit(n) })
			l.repeat(func() { l.withdraw(n) })
		}
	}
	l.repeat(l.read)
	return l
}

func (l *gwLoad) repeat(f func()) {
	l.work.Go(func() {
		for l.ctx.Err() == nil {
			f()
			select {
			case <-l.ctx.Done():
			case <-time.After(time.Duration(10+rand.IntN(40)) * time.Millisecond):
			}
		}
	})
}

// next returns the number of something new, or of what is still without an answer.
func (l *gwLoad) next(n *int, lost *[]int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := len(*lost); k > 20 || k > 0 && rand.IntN(2) == 0 { // not ever more while nobody answers
		i := rand.IntN(k)
		again := (*lost)[i]
		*lost = slices.Delete(*lost, i, i+1)
		return again
	}
	*n++
	return *n
}

// ask delivers cb, and reports whether there was an answer.
func (l *gwLoad) ask(n *gwNode, cb countersign.Callback) (r countersigntest.Result, answered bool) {
	_, to := n.process()
	// What the service has begun it finishes.
	r = l.service.Deliver(context.WithoutCancel(l.ctx), to, cb)
	var refused *countersigntest.Refusal
	return r, r.Err == nil || errors.As(r.Err, &refused)
}

func (l *gwLoad) deposit(n *gwNode) {
	i := l.next(&l.deposited, &l.untaken)
	d := countersigntest.Deposit(i)
	r, answered := l.ask(n, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case r.Err == nil:
		l.taken[d.TrackingID] = true
		l.acks[n] = append(l.acks[n], time.Now())
		if i%5 == 0 { // its acknowledgement got lost on the way
			l.untaken = append(l.untaken, i)
		}
	case answered && r.Code() != countersign.CodeInternal:
		l.t.Errorf("deposit %d: errCode %d", i, r.Code())
	default:
		l.untaken = append(l.untaken, i)
	}
}

// withdraw orders through any node, takes some back through any, and lets the
// service ask n.
func (l *gwLoad) withdraw(n *gwNode) {
	i := l.next(&l.ordered, &l.lost)
	lost := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lost = append(l.lost, i)
	}
	if l.try("/v1/orders", gwOrder(i)) != http.StatusOK {
		lost()
		return
	}
	if i%3 == 0 {
		switch l.try(orderPath(i, "/cancel"), map[string]any{}) {
		case http.StatusOK:
			l.mu.Lock()
			l.cancelled[i] = true
			l.mu.Unlock()
		case http.StatusConflict: // confirmed, in a question whose answer was lost
		default:
			lost()
			return
		}
	}
	r, answered := l.ask(n, countersigntest.Withdrawal(i))
	switch code := r.Code(); {
	case !answered || code == countersign.CodeInternal:
		lost()
	case l.final(i, r) && i%4 == 0: // the service did not get it
		lost()
	}
}

// any returns a node.
func (l *gwLoad) any() *gwNode { return l.nodes[rand.IntN(len(l.nodes))] }

// try makes a call at any node, as one that gives up soon. 0: no answer.
func (l *gwLoad) try(path string, in any) int {
	n := l.any()
	ctx, cancel := context.WithTimeout(l.ctx, 3*time.Second)
	defer cancel()
	var refused *apiError
	switch err := l.call(ctx, n, "POST", path, in, nil); {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &refused):
		if refused.status/100 == 5 && refused.status != http.StatusServiceUnavailable {
			d, _ := n.process()
			l.t.Errorf("%s at %s: %v\n%s", path, n.name, err, d.failures())
		}
		return refused.status
	}
	return 0
}

// final compares an answer that is for good with the one before.
func (l *gwLoad) final(i int, r countersigntest.Result) bool {
	is := gwOutcome{code: r.Code()}
	if is.code == 0 {
		if is.details = r.Details(); is.details.Differs(countersigntest.Order(i)) != "" {
			l.t.Errorf("order %d was confirmed as %+v", i, is.details)
		}
	} else if is.code != countersign.CodeOrderCancelled {
		l.t.Errorf("order %d: errCode %d", i, is.code)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.outcomes[i]; ok && (was.code != is.code || was.details.Differs(is.details) != "" && is.code == 0) {
		l.t.Errorf("order %d: the service was told %+v, then %+v", i, was, is)
	}
	if is.code == 0 && l.cancelled[i] {
		l.t.Errorf("order %d was confirmed after it was taken back", i)
	}
	l.outcomes[i] = is
	return true
}

// read follows the feed of deposits, now through one node and now through
// another.
func (l *gwLoad) read() {
	ctx, cancel := context.WithTimeout(l.ctx, 3*time.Second)
	defer cancel()
	var page struct{ Items []gwDeposit }
	err := l.call(ctx, l.any(), "GET", fmt.Sprintf("/v1/deposits?wait=1s&after=%d", len(l.feed)), nil, &page)
	if err != nil {
		return
	}
	for _, d := range page.Items {
		if d.Seq != int64(len(l.feed)+1) {
			l.t.Errorf("the feed has %d where %d was due", d.Seq, len(l.feed)+1)
		}
		l.feed = append(l.feed, d)
	}
}

// until waits for ok, which needs the load to go on.
func (l *gwLoad) until(what string, ok func() bool) {
	l.t.Helper()
	waitUntil(l.t, what, func() string { return "" }, ok)
}

// acked returns when n first acknowledged a deposit after a moment.
func (l *gwLoad) acked(n *gwNode, after time.Time) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.acks[n], after.Before)
	if i < 0 {
		return time.Time{}, false
	}
	return l.acks[n][i], true
}

// allTake reports whether every node acknowledged something after a moment.
func (l *gwLoad) allTake(after time.Time) bool {
	return !slices.ContainsFunc(l.nodes, func(n *gwNode) bool { _, ok := l.acked(n, after); return !ok })
}

// checkTold ends the load and wants the application to have been told of every entry.
func (l *gwLoad) checkTold(app *gwApp) {
	l.stop()
	l.work.Wait()
	l.untilTold(l.nodes[0])
	app.mu.Lock()
	defer app.mu.Unlock()
	again := 0
	for _, n := range app.tries {
		if n > 1 {
			again++
		}
	}
	if entries := len(l.deposits(l.nodes[0])) + len(l.events(l.nodes[0])); len(app.tries) != entries || len(app.faults) > 0 {
		l.t.Errorf("%d messages for %d entries; %v", len(app.tries), entries, app.faults)
	}
	l.t.Logf("%d messages to the application, %d of them more than once", len(app.tries), again)
}

// finish ends the load and holds the nodes to what they had said.
func (l *gwLoad) finish() {
	t := l.t
	l.stop()
	l.work.Wait()
	feed := l.deposits(l.nodes[0])
	for _, n := range l.nodes[1:] {
		if !slices.Equal(l.deposits(n), feed) {
			t.Errorf("node %s has another feed", n.name)
		}
	}
	if len(l.feed) > len(feed) || !slices.Equal(l.feed, feed[:len(l.feed)]) {
		t.Errorf("a reader saw %d deposits that are not those of the feed", len(l.feed))
	}
	inFeed := map[string]bool{}
	for _, d := range feed {
		if inFeed[d.TrackingID] || d.State != "taken" {
			t.Errorf("the feed has %+v", d)
		}
		inFeed[d.TrackingID] = true
	}
	for trackingID := range l.taken {
		if !inFeed[trackingID] {
			t.Errorf("%s was acknowledged and is not in the feed", trackingID)
		}
	}
	told := map[string]int{}
	for _, e := range l.events(l.nodes[len(l.nodes)-1]) {
		told[e.Kind+" "+e.CallBackID]++
	}
	for i, was := range l.outcomes {
		var o struct{ State string }
		l.must(l.nodes[i%len(l.nodes)], "GET", orderPath(i, ""), nil, &o)
		want := map[countersign.ErrCode]string{0: "confirmed", countersign.CodeOrderCancelled: "cancelled"}[was.code]
		if o.State != want || told["order."+want+" "+countersigntest.Withdrawal(i).CallBackID] != 1 {
			t.Errorf("order %d was answered %+v and is %s", i, was, o.State)
		}
	}
	// Asked once more, every node says the same. Those whose answers were lost
	// get one now.
	l.until("every question gets its answer", func() bool {
		settled := true
		for i := 1; i <= l.ordered; i += 1 + l.ordered/100 {
			for _, n := range l.nodes {
				var refused *countersigntest.Refusal
				r := l.deliver(n, countersigntest.Withdrawal(i))
				switch {
				case r.Err != nil && !errors.As(r.Err, &refused):
					t.Fatal(r.Err)
				case r.Code() == countersign.CodeInternal, r.Code().Class() == countersign.ClassHold:
					settled = false // a lease that nobody works under has not ended; it was never ordered
				case r.Code() == countersign.CodeUnknownOrder: // never ordered with success
				default:
					l.final(i, r)
				}
			}
		}
		return settled
	})
	if len(l.taken) == 0 || len(l.cancelled) == 0 || len(l.outcomes) == len(l.cancelled) {
		t.Errorf("too little happened")
	}
	t.Logf("%d deposits in the feed, %d orders, %d answered for good, %d taken back; the reader had %d", len(feed), l.ordered, len(l.outcomes), len(l.cancelled), len(l.feed))
	for _, n := range l.nodes {
		if d, _ := n.process(); d.stop(t) != 0 {
			t.Errorf("node %s did not stop as it should:\n%s", n.name, d.output)
		}
	}
}
