//go:build unix

package main

import (
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

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
