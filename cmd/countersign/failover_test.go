//go:build unix

package main

import (
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// TestFailover kills the database's primary under the load of three nodes and
// promotes the synchronous standby. Nothing that was acknowledged is lost,
// nothing is released twice, and what a reader of the feed has seen stays as it
// was. It prints how long the pause was.
func TestFailover(t *testing.T) {
	dbtest.Whole(t, "this test starts databases and several processes")
	t.Parallel()
	// A machine that stays up refuses connections to a server that is gone.
	t.Run("killed", func(t *testing.T) {
		dbtest.NotRaced(t, "one way to fail shows the detector what it can see")
		t.Parallel()
		pair := dbtest.NewPair(t)
		// The standby first: nobody may take it for the one to write to.
		url := pair.URL(pair.Standby.Addr, pair.Primary.Addr)
		testFailover(t, pair, url, pair.Primary.Kill)
	})
	// One that lost its power or its cable does not: nobody is told.
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		pair := dbtest.NewPair(t)
		line := newProxy(t, "tcp", pair.Primary.Addr)
		testFailover(t, pair, pair.URL(line.addr, pair.Standby.Addr), func() {
			line.set(silent)
			pair.Primary.Kill()
		})
	})
	// One that can be reached and has lost its standby takes no commit: it is
	// left for the one that was promoted, although it still answers.
	t.Run("parted", func(t *testing.T) {
		dbtest.NotRaced(t, "one way to fail shows the detector what it can see")
		t.Parallel()
		pair := dbtest.NewPair(t)
		testFailover(t, pair, pair.URL(), pair.Part)
	})
}

func testFailover(t *testing.T, pair *dbtest.Pair, url string, fail func()) {
	c := newCluster(t, 16, url, url, url)
	c.m.loses = true
	stop := c.load()
	underLoad := func() {
		t.Helper()
		mark := time.Now()
		c.until("every node takes and settles", func() bool { return c.allWork(mark) })
	}
	underLoad()
	time.Sleep(500 * time.Millisecond)

	failed := time.Now()
	c.parted.Store(true)
	fail()
	time.Sleep(4 * time.Second) // whoever watches over the databases needs to find out; the nodes try less and less often
	pair.Promote()
	promoted := time.Now()
	c.until("every node takes and settles after the promotion", func() bool { return c.allWork(promoted) })
	c.parted.Store(false)
	underLoad()
	stop()

	worst := time.Duration(0)
	for _, n := range c.nodes {
		took, _ := n.acked(promoted)
		settled, _ := n.settled(promoted)
		worst = max(worst, took.Sub(promoted), settled.Sub(promoted))
		t.Logf("node %s: first acknowledged %v after the promotion, first settled %v", n.name,
			took.Sub(promoted).Round(time.Millisecond), settled.Sub(promoted).Round(time.Millisecond))
	}
	t.Logf("%s: failover pause %v after the promotion, which came %v after the failure", t.Name(), worst.Round(time.Millisecond),
		promoted.Sub(failed).Round(time.Millisecond))
	c.check()
	t.Log(c.said())
	c.stop()
}
