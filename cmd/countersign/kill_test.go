package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// kills is how often each database's process is killed.
var kills = dbtest.Times(50, 15)

// TestKill kills a service with SIGKILL under load, again and again, and then holds it to
// what it had said, as every test of a cluster does.
func TestKill(t *testing.T) {
	dbtest.Whole(t, "this test starts a hundred processes")
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		testKill(t, "")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		testKill(t, dbtest.Postgres(t))
	})
}

func testKill(t *testing.T, url string) {
	c := newCluster(t, 16, url)
	c.m.change(func() { c.m.loses = true })
	stop := c.load()
	n := c.nodes[0]
	for range kills {
		mark := time.Now()
		time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
		c.until("something is acknowledged", func() bool { _, took := n.acked(mark); return took })
		n.daemon().kill()
		c.start(n)
	}
	mark := time.Now()
	c.until("the last process takes and settles", func() bool { return c.allWork(mark) })
	stop()
	c.check()
	t.Logf("%d kills: %s", kills, c.said())
	c.stop()
}
