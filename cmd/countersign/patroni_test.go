//go:build linux

package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// TestPatroni works on a real cluster, as docs/operator/README.md sets one up, under the load of
// two nodes of each daemon: the leader changes on request, is killed, and is cut off from
// everybody; before the first two a member of etcd is killed, its leader first, and comes
// back after them; in the end two members are away at once. What was acknowledged stands, nothing is released or credited twice,
// and each time it prints how long the pause was.
func TestPatroni(t *testing.T) {
	if os.Getenv("COUNTERSIGN_CLUSTER") == "" {
		t.Skip("skipped: without COUNTERSIGN_CLUSTER=1 no cluster of databases is started")
	}
	t.Parallel()
	lines := map[int][]*tcpProxy{}
	p := dbtest.NewPatroni(t, func(node int, target string) string {
		line := newProxy(t, "tcp", target)
		lines[node] = append(lines[node], line)
		return line.addr
	})
	dbtest.Exec(t, p.URL("postgres"), "CREATE DATABASE gateways")
	c := newCluster(t, 16, p.URL("postgres"), p.URL("postgres"))
	c.m.loses = true
	l := newGwLoad(newGwNodes(t, nil, p.URL("gateways"), p.URL("gateways")))
	stop := c.load()
	atWork := func(since time.Time) bool { return c.allWork(since) && l.allTake(since) }
	mark := time.Now()
	c.until("every node works", func() bool { return atWork(mark) })

	// On a busy machine a server may answer too late to be seen.
	leader := func() (n *dbtest.PatroniNode, at int) {
		c.until("a server leads", func() bool {
			n = p.Leader()
			return n != nil
		})
		return n, slices.Index(p.Nodes, n)
	}
	// A server that led loses its role in the middle: others may have what it shows.
	change := func(what string, act func(n *dbtest.PatroniNode, at int), mend func(n *dbtest.PatroniNode, at int)) {
		t.Helper()
		was, at := leader()
		c.parted.Store(true)
		began := time.Now()
		act(was, at)
		var led time.Time
		c.until("another server leads", func() bool {
			now := p.Leader()
			led = time.Now()
			return now != nil && now != was
		})
		c.until("every node works after "+what, func() bool { return atWork(led) })
		c.parted.Store(false)
		t.Logf("%s: another server led after %v, every node of both daemons worked %v later", what, led.Sub(began).Round(100*time.Millisecond), time.Since(led).Round(100*time.Millisecond))
		mend(was, at)
		p.AwaitWhole()
		again := time.Now()
		c.until("every node works again", func() bool { return atWork(again) })
	}
	start := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// Two members are enough: no server loses its role, and the next change is decided by
	// two.
	without := func(member string, leads bool) (again func() error) {
		t.Helper()
		was, _ := leader()
		again = p.KillEtcd(leads)
		killed := time.Now()
		c.until("every node works without "+member+" of etcd", func() bool { return atWork(killed) })
		t.Logf("%s of etcd was killed: every node of both daemons worked within %v", member, time.Since(killed).Round(100*time.Millisecond))
		// Patroni gives up its role when it has asked etcd for so long.
		c.until("every node still works without "+member+" of etcd", func() bool { return atWork(killed.Add(dbtest.PatroniRetry)) })
		if now, _ := leader(); now != was {
			t.Errorf("without %s of etcd another server leads", member)
		}
		p.AwaitWhole()
		return again
	}
	back := without("the leader", true)
	change("a switchover", func(n *dbtest.PatroniNode, _ int) { p.Switchover(n) }, func(*dbtest.PatroniNode, int) { start(back()) })
	back = without("a member", false)
	change("a kill", func(n *dbtest.PatroniNode, _ int) { p.Kill(n) }, func(n *dbtest.PatroniNode, _ int) {
		start(back())
		start(p.Start(n))
	})
	// Everything that leads to the server, and from it to etcd, is silent.
	set := func(m proxyMode) func(*dbtest.PatroniNode, int) {
		return func(_ *dbtest.PatroniNode, at int) {
			for _, line := range lines[at] {
				line.set(m)
			}
		}
	}
	change("a partition", set(silent), set(pass))

	// Without two members nobody leads, and nothing is taken.
	member, leading := p.KillEtcd(false), p.KillEtcd(true)
	c.parted.Store(true)
	began := time.Now()
	c.until("no server leads", func() bool { return p.Leader() == nil })
	t.Logf("two members of etcd were killed: no server led after %v", time.Since(began).Round(100*time.Millisecond))
	c.until("nothing is taken", func() bool {
		since := time.Now()
		time.Sleep(2 * time.Second)
		return !c.anyWorks(since) && !l.anyTakes(since)
	})
	began = time.Now()
	start(member())
	start(leading())
	c.until("a server leads", func() bool { return p.Leader() != nil })
	led := time.Now()
	c.until("every node works with etcd again", func() bool { return atWork(led) })
	c.parted.Store(false)
	t.Logf("they came back: a server led after %v, every node of both daemons worked %v later", led.Sub(began).Round(100*time.Millisecond), time.Since(led).Round(100*time.Millisecond))
	p.AwaitWhole()
	again := time.Now()
	c.until("every node works again", func() bool { return atWork(again) })
	stop()
	l.finish()
	c.check()
	t.Log(c.said())
	c.stop()
}

// TestPgBouncer: both daemons work through a pool in session mode, wake-ups included.
func TestPgBouncer(t *testing.T) {
	dbtest.NotRaced(t, "to the detector a database behind a pool is as any")
	t.Parallel()
	url := dbtest.PgBouncer(t, dbtest.Postgres(t), 100)
	c := newCluster(t, 16, url, url)
	// Until something of everything was acknowledged.
	for len(c.permits) == 0 || len(c.feed) == 0 || len(c.deposits) == 0 {
		stop := c.load()
		mark := time.Now()
		c.until("both nodes work", func() bool { return c.allWork(mark) })
		stop()
	}
	c.check()
	t.Log(c.said())
	c.stop()
}
