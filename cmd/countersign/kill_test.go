package main

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
)

// kills is how often each database's process is killed.
var kills = dbtest.Times(50, 15)

// TestKill kills a service with SIGKILL under load, again and again, and then holds it to
// what it had said, as every test of a cluster does. Its audit log continues every
// checkpoint that was taken before a kill.
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
	var held []client.AuditProof // checkpoints, as another company would keep them
	for range kills {
		p, err := c.service().AuditCheckpoint(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, p)
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
	c.checkAudit(held)
	t.Logf("%d kills: %s", kills, c.said())
	c.stop()
}

func (c *cluster) service() *client.Service {
	api, err := client.NewService(client.Config{URL: c.nodes[0].daemon().url, Token: client.Secret(c.token)})
	if err != nil {
		c.t.Fatal(err)
	}
	return api
}

// checkAudit exports the audit log: it is whole, continues every checkpoint that was
// held, tells of each withdrawal once, of the permit that was given, and of no secret.
func (c *cluster) checkAudit(held []client.AuditProof) {
	ctx := c.t.Context()
	var b bytes.Buffer
	if err := journal.Export(ctx, &b, c.service(), 1); err != nil {
		c.t.Fatal(err)
	}
	for _, p := range held {
		if _, err := journal.Verify(bytes.NewReader(b.Bytes()), held[0].Key, []byte(p.Checkpoint)); err != nil {
			c.t.Fatal(err)
		}
	}
	told := map[string]int{} // by kind and withdrawal
	for _, line := range strings.Split(b.String(), "\n") {
		r, err := journal.Read([]byte(line))
		if err != nil || r.Kind == "" {
			continue // the first and the last line
		}
		if len(r.About) == 1 {
			told[r.Kind+" "+r.About[0]]++
		}
		if strings.Contains(line, testAPIKey.Reveal()) {
			c.t.Errorf("the API key is in %s", line)
		}
		for claim, permit := range c.permits[strings.Join(r.About, " ")] {
			if strings.Contains(line, permit) {
				c.t.Errorf("a permit is in %s", line)
			}
			if r.Kind == "withdrawal.released" && !(strings.Contains(line, `"claim":"`+journal.Fingerprint(claim)+`"`) && strings.Contains(line, journal.Fingerprint(permit))) {
				c.t.Errorf("the release to %s is told as %s", claim, line)
			}
		}
	}
	for id := range c.withdrawals {
		for _, kind := range []string{"withdrawal.created", "withdrawal.decided", "withdrawal.released"} {
			if n := told[kind+" "+id]; n != 1 {
				c.t.Errorf("%s of %s is told %d times", kind, id, n)
			}
		}
		if told["withdrawal.answered "+id] == 0 {
			c.t.Errorf("no answer about %s is told", id)
		}
	}
}
