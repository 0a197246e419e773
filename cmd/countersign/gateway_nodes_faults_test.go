//go:build unix

package main

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// TestGatewayNodesFaults kills, stops and cuts off nodes under load. What they
// have said stands, a node without a database says so and confirms nothing,
// and each comes back by itself.
func TestGatewayNodesFaults(t *testing.T) {
	dbtest.Whole(t, "this test starts several processes and stops one for a while")
	t.Parallel()
	takenOver := takeOver(t)
	lines, urls := proxied(t, dbtest.Postgres(t), 4)
	l := newGwLoad(newGwNodes(t, nil, urls...))
	killed, reset, dark, stopped := l.nodes[0], l.nodes[1], l.nodes[2], l.nodes[3]
	start := time.Now()
	l.until("every node takes", func() bool { return l.allTake(start) })

	d, _ := stopped.process()
	send := func(sig syscall.Signal) {
		t.Helper()
		if err := d.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	othersTake := func(after time.Time) bool {
		return !slices.ContainsFunc(l.nodes[:3], func(n *gwNode) bool { _, ok := l.acked(n, after); return !ok })
	}
	// One stands still at any point of its work, now and then inside a
	// transaction with the lock on the inbox. The others go on.
	l.mute[stopped].Store(true)
	longest := time.Duration(0)
	for range 3 {
		send(syscall.SIGSTOP)
		mark := time.Now()
		l.until("the others take", func() bool { return othersTake(mark) })
		longest = max(longest, time.Since(mark))
		send(syscall.SIGCONT)
		mark = time.Now()
		l.until("every node takes", func() bool { return l.allTake(mark) })
	}
	t.Logf("where one node stood still the others took again after %v at most", longest.Round(time.Millisecond))

	// It stands still for longer than its leases and the time of its requests.
	l.mute[dark].Store(true)
	send(syscall.SIGSTOP)
	stood := time.Now()
	var work sync.WaitGroup
	work.Go(func() { // one is killed again and again
		for range 5 {
			time.Sleep(time.Duration(500+rand.IntN(1000)) * time.Millisecond)
			d, _ := killed.process()
			d.kill()
			killed.start(t)
		}
	})
	work.Go(func() { l.cutOff(reset, lines[1], cut, 3*time.Second) })
	work.Go(func() { l.cutOff(dark, lines[2], silent, 12*time.Second) })
	work.Wait()
	mark := time.Now()
	l.until("those that were cut off take again", func() bool { return othersTake(mark) })
	time.Sleep(time.Until(stood.Add(15 * time.Second)))
	l.mute[stopped].Store(false)
	l.mute[dark].Store(false)
	send(syscall.SIGCONT)
	mark = time.Now()
	l.until("every node takes", func() bool { return l.allTake(mark) })
	takenOver()
	t.Logf("the longest answer of a node without a database took %v", l.longest.Round(time.Millisecond))
	l.finish()
}

// cutOff parts n from the database for a while.
func (l *gwLoad) cutOff(n *gwNode, line *tcpProxy, how proxyMode, long time.Duration) {
	line.set(how)
	l.until("it says that it is not ready", func() bool { return l.ready(n) == http.StatusServiceUnavailable })
	l.away[n].Store(true)
	began := time.Now()
	l.work.Go(func() { l.deposit(n) })
	if got := l.status(n, "POST", "/v1/orders", gwOrder(1_000_000)); got != http.StatusServiceUnavailable {
		l.t.Errorf("the API of node %s has no database and answers %d", n.name, got)
	}
	l.t.Logf("the API of node %s said so after %v", n.name, time.Since(began).Round(time.Millisecond))
	time.Sleep(time.Until(began.Add(long)))
	l.away[n].Store(false)
	line.set(pass)
	healed := time.Now()
	l.until("it is ready again", func() bool { return l.ready(n) == http.StatusOK })
	l.until("it takes again", func() bool { _, ok := l.acked(n, healed); return ok })
	at, _ := l.acked(n, healed)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.later[n] == 0 {
		l.t.Errorf("node %s was not asked while it was cut off", n.name)
	}
	l.t.Logf("node %s took again %v after it got its database back", n.name, at.Sub(healed).Round(time.Millisecond))
}

// TestGatewayFailover kills the database's primary under the load of three
// gateways and promotes the synchronous standby. What was acknowledged is there
// and counts once. It prints how long the pause was.
func TestGatewayFailover(t *testing.T) {
	dbtest.Whole(t, "this test starts databases and several processes")
	t.Parallel()
	t.Run("killed", func(t *testing.T) {
		dbtest.NotRaced(t, "one way to fail shows the detector what it can see")
		t.Parallel()
		pair := dbtest.NewPair(t)
		testGatewayFailover(t, pair, pair.URL(), pair.Primary.Kill)
	})
	t.Run("silent", func(t *testing.T) {
		dbtest.NotRaced(t, "one way to fail shows the detector what it can see")
		t.Parallel()
		pair := dbtest.NewPair(t)
		line := newProxy(t, "tcp", pair.Primary.Addr)
		testGatewayFailover(t, pair, pair.URL(line.addr, pair.Standby.Addr), func() {
			line.set(silent)
			pair.Primary.Kill()
		})
	})
	// It goes on answering, but has lost its standby: its commits wait.
	t.Run("parted", func(t *testing.T) {
		t.Parallel()
		pair := dbtest.NewPair(t)
		testGatewayFailover(t, pair, pair.URL(), pair.Part)
	})
}

func testGatewayFailover(t *testing.T, pair *dbtest.Pair, url string, fail func()) {
	app, secret := newGwApp(t)
	l := newGwLoad(newGwNodes(t, []string{"--forward-url", app.URL, "--forward-secret", secret}, url, url, url))
	start := time.Now()
	l.until("every node takes", func() bool { return l.allTake(start) })
	time.Sleep(time.Second)
	failed := time.Now()
	fail()
	time.Sleep(2 * time.Second)
	pair.Promote()
	promoted := time.Now()
	l.until("every node takes after the promotion", func() bool { return l.allTake(promoted) })
	worst := time.Duration(0)
	for _, n := range l.nodes {
		at, _ := l.acked(n, promoted)
		worst = max(worst, at.Sub(promoted))
		t.Logf("node %s: first acknowledged %v after the promotion", n.name, at.Sub(promoted).Round(time.Millisecond))
	}
	t.Logf("failover pause: %v after the promotion, which came %v after the failure", worst.Round(time.Millisecond), promoted.Sub(failed).Round(time.Millisecond))
	time.Sleep(time.Second)
	l.checkTold(app)
	l.finish()
}
