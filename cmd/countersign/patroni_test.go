//go:build linux

package main

import (
	"os"
	"testing"
	"time"

	"countersign/internal/db/dbtest"
)

// TestPatroni works on a real cluster, as docs/cluster.md sets one up, under the load of
// two nodes of each daemon: the leader changes on request, is killed, and is cut off from
// everybody. What was acknowledged stands, nothing is released or credited twice, and
// each time it prints how long the pause was.
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

	leader := func() (n *dbtest.PatroniNode, at int) {
		n = p.Leader()
		for i, node := range p.Nodes {
			if node == n {
				return n, i
			}
		}
		t.Fatal("there is no leader")
		return nil, 0
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
	none := func(*dbtest.PatroniNode, int) {}
	change("a switchover", func(n *dbtest.PatroniNode, _ int) { p.Switchover(n) }, none)
	change("a kill", func(n *dbtest.PatroniNode, _ int) { p.Kill(n) }, func(n *dbtest.PatroniNode, _ int) {
		if err := p.Start(n); err != nil {
			t.Fatal(err)
		}
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
	stop()
	l.finish()
	c.check()
	t.Log(c.said())
	c.stop()
}

// TestPgBouncer: both daemons work through a pool in session mode, wake-ups included.
func TestPgBouncer(t *testing.T) {
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
