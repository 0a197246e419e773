package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// drain waits until nothing is open any more.
func (c *cluster) drain() {
	c.t.Helper()
	c.until("every callback settled", func() bool { return c.open() == 0 })
}

// open is how many callbacks are not settled.
func (c *cluster) open() (n int64) {
	var stats struct {
		Lanes []struct {
			State string
			Count int64
		}
	}
	if err := c.insist(c.t.Context(), c.nodes[0], "GET", "/v1/stats", nil, &stats); err != nil {
		c.t.Fatal(err)
	}
	for _, lane := range stats.Lanes {
		if lane.State == "pending" || lane.State == "sending" {
			n += lane.Count
		}
	}
	return n
}

// check holds the cluster to what it has said: every deposit and withdrawal
// that it acknowledged has reached the merchant, every withdrawal has one
// decision and one permit, and the feed is the one that was read before.
func (c *cluster) check() {
	c.t.Helper()
	if !c.anyOfEach() {
		c.t.Fatal("nothing was acknowledged, released or decided under load, so nothing was tested")
	}
	c.checkAll()
}

// checkAll is check where there was no load but a few calls.
func (c *cluster) checkAll() {
	t, ctx := c.t, c.t.Context()
	t.Helper()
	c.drain()
	for id := range c.withdrawals {
		for i, claim := range []string{"wallet0", "wallet1"} {
			if err := c.releaseOne(ctx, c.nodes[i%len(c.nodes)], id, claim); err != nil {
				t.Fatal(err)
			}
		}
	}
	told := map[string]bool{}
	for _, r := range c.m.all() {
		told[r.event] = true
	}
	for trackingID := range c.deposits {
		if !told[trackingID] {
			t.Errorf("deposit %s was acknowledged and never told", trackingID)
		}
	}
	for id, callBackID := range c.withdrawals {
		if !told[callBackID] {
			t.Errorf("withdrawal %s was acknowledged and never asked for", callBackID)
		}
		if len(c.permits[id]) != 1 {
			t.Errorf("withdrawal %s has %d permits", callBackID, len(c.permits[id]))
		}
	}
	c.checkFeed(ctx)
	c.checkAttempts(ctx)
	checkOnceAtATime(t, c.m.all())
	if c.wide != nil {
		checkOnceAtATime(t, c.wide.all())
	}
}

// checkFeed reads the feed anew, each page from another node.
func (c *cluster) checkFeed(ctx context.Context) {
	var feed []string
	for i := 0; ; i++ {
		page, err := c.decisions(ctx, c.nodes[i%len(c.nodes)], len(feed), "0s")
		if err != nil {
			c.t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		feed = append(feed, page...)
	}
	if len(feed) < len(c.feed) || !slices.Equal(feed[:len(c.feed)], c.feed) {
		c.t.Errorf("the feed of decisions has changed: it had %d entries and has %d", len(c.feed), len(feed))
	}
	decided := map[string]int{}
	for _, entry := range feed {
		f := strings.Fields(entry)
		decided[f[1]]++
		if f[2] != "confirmed" {
			c.t.Errorf("decision %s, all were to be confirmed", entry)
		}
	}
	for id := range c.withdrawals {
		if decided[id] != 1 {
			c.t.Errorf("withdrawal %s has %d decisions", id, decided[id])
		}
	}
}

// clusterAttempt is an attempt as the API shows it.
type clusterAttempt struct {
	Number                            int
	RequestUUID, Result, Reason, Node string
	Started                           time.Time
	DurationMs                        int64
}

func (a clusterAttempt) ended() time.Time {
	return a.Started.Add(time.Duration(a.DurationMs) * time.Millisecond)
}

// attempts returns the attempts of every callback, by its id.
func (c *cluster) attempts(ctx context.Context) map[string][]clusterAttempt {
	all := map[string][]clusterAttempt{}
	var ids []string
	for path := "/v1/callbacks?limit=1000"; path != ""; {
		var page struct {
			Items []struct{ ID string }
			Next  *string
		}
		if err := c.insist(ctx, c.nodes[0], "GET", path, nil, &page); err != nil {
			c.t.Fatal(err)
		}
		for _, cb := range page.Items {
			ids = append(ids, cb.ID)
		}
		path = ""
		if page.Next != nil {
			path = "/v1/callbacks?limit=1000&cursor=" + *page.Next
		}
	}
	var mu sync.Mutex
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			for k := i; k < len(ids); k += 8 {
				var detail struct{ Attempts []clusterAttempt }
				if err := c.insist(ctx, c.nodes[k%len(c.nodes)], "GET", "/v1/callbacks/"+ids[k], nil, &detail); err != nil {
					c.t.Error(err)
					return
				}
				mu.Lock()
				all[ids[k]] = detail.Attempts
				mu.Unlock()
			}
		})
	}
	work.Wait()
	return all
}

// clusterSkew is how far the clocks of two nodes may be apart here: each took
// the database's time over a connection.
const clusterSkew = time.Second

// checkAttempts: the attempts of a callback are numbered without repetition and
// follow each other, except where the lease of one had ended. And no request
// reached the merchant from a node whose lease had ended, except those of checkLate.
func (c *cluster) checkAttempts(ctx context.Context) {
	arrived := map[string]time.Time{}
	requests := c.m.all()
	if c.wide != nil {
		requests = append(requests, c.wide.all()...)
	}
	for _, r := range requests {
		arrived[r.uuid] = r.began
	}
	matched, lost := 0, 0
	late := map[string]int{} // requests, by node
	for id, list := range c.attempts(ctx) {
		slices.SortFunc(list, func(a, b clusterAttempt) int { return a.Number - b.Number })
		for i, a := range list {
			at, ok := arrived[a.RequestUUID]
			if ok {
				matched++
			}
			// The next attempt may begin before the lease of this one is over, where this
			// one was settled.
			over := a.Started.Add(clusterLease)
			if i+1 < len(list) && list[i+1].Started.Add(clusterSkew).Before(over) {
				over = list[i+1].Started.Add(clusterSkew)
			}
			if ok && at.After(over) {
				c.t.Logf("callback %s: attempt %d of node %s reached the merchant %v after it was over", id, a.Number, a.Node, at.Sub(over))
				late[a.Node]++
			}
			if a.Result == "lost" || a.ended().Sub(a.Started) > clusterLease {
				lost++
			}
			if i == 0 {
				continue
			}
			before := list[i-1]
			if a.Number == before.Number {
				c.t.Errorf("callback %s has two attempts with number %d", id, a.Number)
			}
			until := before.ended()
			if lease := before.Started.Add(clusterLease); lease.Before(until) {
				until = lease
			}
			if a.Started.Before(until.Add(-clusterSkew)) {
				c.t.Errorf("callback %s: attempt %d of node %s began %v before attempt %d of node %s was over",
					id, a.Number, a.Node, until.Sub(a.Started), before.Number, before.Node)
			}
		}
	}
	c.checkLate(late)
	c.t.Logf("%d attempts lost their lease", lost)
	if matched == 0 && len(requests) > 0 {
		c.t.Error("no request of the merchant's is among the attempts")
	}
}

// checkLate allows what no lease can prevent: a thread that is stopped after its look at
// the clock and before its write sends when the process goes on. There is one such thread
// for each core at most, and what it is told counts no more.
func (c *cluster) checkLate(late map[string]int) {
	for node, n := range late {
		if most := runtime.NumCPU() * c.stopped[node]; n > most {
			c.t.Errorf("%d requests of node %s reached the merchant when their attempts were over; it was stopped %d times, so at most %d can",
				n, node, c.stopped[node], most)
		}
	}
}

// stop ends every node as an operator would and looks for secrets in all that
// they have printed.
func (c *cluster) stop() {
	secrets := []string{c.token, testAPIKey.Reveal(), c.m.key.PublicBase64()[40:]}
	for _, permits := range c.permits {
		secrets = append(secrets, slices.Collect(maps.Values(permits))...)
	}
	// A server waits for connections that have said nothing yet.
	http.DefaultClient.CloseIdleConnections()
	for _, n := range c.nodes {
		if status := n.daemon().stop(c.t); status != 0 {
			c.t.Errorf("node %s ended with status %d:\n%s", n.name, status, n.daemon().output)
		}
		for _, log := range n.logs {
			text := log.String()
			for _, s := range secrets {
				if strings.Contains(text, s) {
					c.t.Errorf("a secret is in the log of node %s:\n%s", n.name, text)
				}
			}
		}
	}
}

// said sums up what the cluster did.
func (c *cluster) said() string {
	return fmt.Sprintf("%d deposits and %d withdrawals acknowledged, %d permits, %d requests at the merchant",
		len(c.deposits), len(c.withdrawals), len(c.permits), len(c.m.all()))
}

// until waits for what must come.
func (c *cluster) until(what string, is func() bool) {
	c.t.Helper()
	waitUntil(c.t, what, func() string {
		var logs strings.Builder
		for _, n := range c.nodes {
			fmt.Fprintf(&logs, "node %s:\n%s", n.name, grepNot(n.daemon().output.String(), "msg=attempt", "msg=request "))
		}
		return logs.String()
	}, is)
}

// allWork reports whether the nodes, all where none is named, have taken and
// settled something since a moment.
func (c *cluster) allWork(since time.Time, nodes ...*clusterNode) bool {
	if len(nodes) == 0 {
		nodes = c.nodes
	}
	for _, n := range nodes {
		_, took := n.acked(since)
		_, settled := n.settled(since)
		if !took || !settled {
			return false
		}
	}
	return true
}
