//go:build unix

package main

import (
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// nodeFault is what becomes of one node while the others go on.
type nodeFault struct {
	name       string
	begin, end func(c *cluster, n *clusterNode, line *tcpProxy)
}

var nodeFaults = []nodeFault{
	{"stopped", // with its hands full
		func(c *cluster, n *clusterNode, _ *tcpProxy) {
			c.burst(n)
			c.stopped[n.name]++
			n.daemon().cmd.Process.Signal(syscall.SIGSTOP)
		},
		func(_ *cluster, n *clusterNode, _ *tcpProxy) { n.daemon().cmd.Process.Signal(syscall.SIGCONT) }},
	{"cut off, silently",
		func(_ *cluster, _ *clusterNode, line *tcpProxy) { line.set(silent) },
		func(_ *cluster, _ *clusterNode, line *tcpProxy) { line.set(pass) }},
	{"cut off, with a reset",
		func(_ *cluster, _ *clusterNode, line *tcpProxy) { line.set(cut) },
		func(_ *cluster, _ *clusterNode, line *tcpProxy) { line.set(pass) }},
	{"killed",
		func(_ *cluster, n *clusterNode, _ *tcpProxy) { n.daemon().kill() },
		func(c *cluster, n *clusterNode, _ *tcpProxy) { c.start(n) }},
}

// TestNodes runs four nodes on one database, first without faults, then with
// two of them at a time killed, stopped or cut off for longer than a lease. The
// others go on, and at no time is a callback in two attempts.
func TestNodes(t *testing.T) {
	dbtest.Whole(t, "this test starts several processes")
	t.Parallel()
	const concurrency = 8
	lines, urls := proxied(t, dbtest.Postgres(t), 4)
	c := newCluster(t, concurrency, urls...)
	c.wide = newRecorder(t)
	c.registerWith("wide", c.wide, 400)

	// Without faults everything is said once, and no merchant has more
	// requests than its concurrency.
	mark := time.Now()
	stop := c.load()
	c.until("every node takes and settles", func() bool { return c.allWork(mark) })
	time.Sleep(2 * time.Second)
	stop()
	c.drain()
	c.checkOnce()
	t.Logf("without faults: %s; at most %d deposits and %d questions at once", c.said(), most(c.m.all(), false), most(c.m.all(), true))

	c.m.change(func() { c.m.loses = true })
	stop = c.load()
	faults := rand.Perm(len(nodeFaults))
	victims := rand.Perm(len(c.nodes))
	for len(faults) > 0 {
		healthy := make([]*clusterNode, 0, 2)
		for _, v := range victims[2:] {
			healthy = append(healthy, c.nodes[v])
		}
		for i, v := range victims[:2] {
			f := nodeFaults[faults[i]]
			t.Logf("node %s is %s", c.nodes[v].name, f.name)
			f.begin(c, c.nodes[v], lines[v])
		}
		// The others go on at once, when the locks and when the leases of those
		// that are lost have ended.
		for range 3 {
			mark = time.Now()
			c.until("the others take and settle", func() bool { return c.allWork(mark, healthy...) })
			time.Sleep(clusterLease/3 + 500*time.Millisecond)
		}
		for i, v := range victims[:2] {
			nodeFaults[faults[i]].end(c, c.nodes[v], lines[v])
		}
		mark = time.Now()
		c.until("every node takes and settles again", func() bool { return c.allWork(mark) })
		faults, victims = faults[2:], append(victims[2:], victims[:2]...)
	}
	stop()
	c.check()
	t.Logf("the other merchant got %d requests", len(c.wide.all()))
	// A node that lost its leases may still have exchanges in flight that it
	// began before, never new ones: for each such node the merchant's
	// concurrency once more.
	for _, withdraw := range []bool{false, true} {
		if n := most(c.m.all(), withdraw); n > 3*concurrency {
			t.Errorf("the merchant had %d requests of one lane at once, with two nodes lost at most %d", n, 3*concurrency)
		}
	}
	t.Logf("in all: %s; at most %d deposits and %d questions at once", c.said(), most(c.m.all(), false), most(c.m.all(), true))
	c.stop()
}

// burst gives n work for a merchant that takes much at once, until the merchant hears of it: n has then claimed more than
// it sends in a moment.
func (c *cluster) burst(n *clusterNode) {
	c.t.Helper()
	before := c.wide.known()
	c.until("the node has its hands full", func() bool {
		var list []map[string]any
		for range 300 {
			d := aDeposit(c.n.Add(1))
			d["merchant"] = "wide"
			list = append(list, d)
		}
		if err := c.insist(c.t.Context(), n, "POST", "/v1/deposits", list, nil); err != nil {
			c.t.Fatal(err)
		}
		return c.wide.known() >= before+100
	})
}

// proxied returns n lines to a database in a socket of its own, and their URLs.
func proxied(t *testing.T, dbURL string, n int) (lines []*tcpProxy, urls []string) {
	u, err := url.Parse(dbURL)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port"))
	for range n {
		line := newProxy(t, "unix", socket)
		lines = append(lines, line)
		urls = append(urls, "postgres://postgres@"+line.addr+u.Path+"?sslmode=disable")
	}
	return lines, urls
}

// checkOnce holds a time without faults to more: each callback was with the
// merchant once, in one attempt. Attempts that a busy machine did not end in time do
// not count.
func (c *cluster) checkOnce() {
	t := c.t
	t.Helper()
	slow := map[string]bool{} // by requestUUID
	for id, list := range c.attempts(t.Context()) {
		inTime := slices.DeleteFunc(list, func(a clusterAttempt) bool {
			slow[a.RequestUUID] = a.Reason == "timeout"
			return slow[a.RequestUUID]
		})
		if len(inTime) != 1 || inTime[0].Result != "accepted" {
			t.Errorf("callback %s has the attempts %+v, want one, accepted", id, inTime)
		}
	}
	seen := map[string]int{}
	for _, r := range c.m.all() {
		if slow[r.uuid] {
			t.Logf("%s was not answered in time", r.event)
			continue
		}
		seen[r.event]++
		if r.gone {
			t.Errorf("the sender of %s did not wait for its answer", r.event)
		}
	}
	for event, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", event, n)
		}
	}
	if len(seen) != len(c.deposits)+len(c.withdrawals) {
		// What was taken when the load ended may not have been acknowledged.
		t.Logf("the merchant knows of %d events, %d were acknowledged", len(seen), len(c.deposits)+len(c.withdrawals))
	}
	for _, withdraw := range []bool{false, true} {
		if n := most(c.m.all(), withdraw); n > c.concurrency || n == 0 {
			t.Errorf("the merchant had %d requests of one lane at once, want 1 to %d", n, c.concurrency)
		}
	}
}
