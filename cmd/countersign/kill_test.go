//go:build unix

package main

import (
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// kills is how often a process is killed with each database.
var kills = dbtest.Times(75, 20)

// TestKill kills a service and a gateway with SIGKILL under load, again and again.
func TestKill(t *testing.T) {
	dbtest.Whole(t, "this test starts many processes")
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{
		"sqlite": func(testing.TB) string { return "" }, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t, t.TempDir(), []string{url(t)}, []string{url(t)})
			end := c.load()
			for i := range kills {
				n := []*node{c.services[0], c.services[0], c.gateways[0]}[i%3]
				acks := n.acks.Load()
				time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
				c.until("something is acknowledged", func() bool { return n.acks.Load() > acks })
				n.process().kill()
				n.start(t)
			}
			c.work()
			end()
		})
	}
}

// TestFailover kills the primary of both ends' databases under the load of several nodes and promotes the synchronous
// standby. It prints how long the pause was.
func TestFailover(t *testing.T) {
	dbtest.Whole(t, "this test starts databases and several processes")
	t.Parallel()
	for name, fail := range map[string]func(*dbtest.Pair, *tcpProxy){
		// A machine that stays up refuses connections to a server that is gone.
		"killed": func(p *dbtest.Pair, _ *tcpProxy) { p.Primary.Kill() },
		// One that lost its power or its cable does not: nobody notices.
		"silent": func(p *dbtest.Pair, line *tcpProxy) { line.set(silent); p.Primary.Kill() },
		// One that can be reached and has lost its standby takes no commit: it is left for the one that was promoted,
		// although it still answers.
		"parted": func(p *dbtest.Pair, _ *tcpProxy) { p.Part() },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "silent" {
				dbtest.NotRaced(t, "one way to fail shows the detector what it can see")
			}
			t.Parallel()
			pair := dbtest.NewPair(t)
			must(pair.Primary.Exec(t.Context(), "CREATE DATABASE shop"))
			line := newProxy(t, "tcp", pair.Primary.Addr)
			service := pair.URL(pair.Standby.Addr, line.addr) // the standby first: nobody may take it for the primary
			gateway := strings.Replace(service, "/postgres?", "/shop?", 1)
			c := newChain(t, t.TempDir(), []string{service, service}, []string{gateway, gateway})
			end := c.load()
			c.work()
			c.parted.Store(true)
			fail(pair, line)
			time.Sleep(4 * time.Second) // who watches over the databases needs to find out; nodes try less and less often
			pair.Promote()
			promoted := time.Now()
			c.work()
			t.Logf("every node works %v after the promotion", time.Since(promoted).Round(100*time.Millisecond))
			c.parted.Store(false)
			c.work()
			end()
		})
	}
}

// nodeFaults are what becomes of one node while the others go on.
var nodeFaults = []struct {
	name       string
	begin, end func(t *testing.T, n *node, line *tcpProxy)
}{
	{"stopped",
		func(_ *testing.T, n *node, _ *tcpProxy) { _ = n.process().cmd.Process.Signal(syscall.SIGSTOP) },
		func(_ *testing.T, n *node, _ *tcpProxy) { _ = n.process().cmd.Process.Signal(syscall.SIGCONT) }},
	{"cut off, silently",
		func(_ *testing.T, _ *node, line *tcpProxy) { line.set(silent) },
		func(_ *testing.T, _ *node, line *tcpProxy) { line.set(pass) }},
	{"cut off, with a reset",
		func(_ *testing.T, _ *node, line *tcpProxy) { line.set(cut) },
		func(_ *testing.T, _ *node, line *tcpProxy) { line.set(pass) }},
	{"killed",
		func(_ *testing.T, n *node, _ *tcpProxy) { n.process().kill() },
		func(t *testing.T, n *node, _ *tcpProxy) { n.start(t) }},
}

// TestNodes has four nodes of a service on one database, two of them at a time killed, stopped or cut off for longer
// than a lease. The others go on, and at no time is a callback in two attempts.
func TestNodes(t *testing.T) {
	dbtest.Whole(t, "this test starts several processes")
	t.Parallel()
	lines, urls := proxied(t, dbtest.Postgres(t), 4)
	c := newChain(t, t.TempDir(), urls, []string{""})
	end := c.load()
	c.work()
	faults, victims := rand.Perm(len(nodeFaults)), rand.Perm(len(c.services))
	for ; len(faults) > 0; faults, victims = faults[2:], append(victims[2:], victims[:2]...) {
		for i, v := range victims[:2] {
			f := nodeFaults[faults[i]]
			t.Logf("%s is %s", c.services[v].name, f.name)
			f.begin(t, c.services[v], lines[v])
		}
		// The others go on at once, and when the locks and the leases of those that are lost have ended.
		for range 3 {
			c.work(c.services[victims[2]], c.services[victims[3]])
			time.Sleep(chainLease/3 + 500*time.Millisecond)
		}
		for i, v := range victims[:2] {
			nodeFaults[faults[i]].end(t, c.services[v], lines[v])
		}
		c.work()
	}
	end()
}

// proxied returns n lines to a database in a socket of its own, and their URLs.
func proxied(t *testing.T, dbURL string, n int) (lines []*tcpProxy, urls []string) {
	u := must(url.Parse(dbURL))
	socket := filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port"))
	for range n {
		line := newProxy(t, "unix", socket)
		lines = append(lines, line)
		urls = append(urls, "postgres://postgres@"+line.addr+u.Path+"?sslmode=disable")
	}
	return lines, urls
}
