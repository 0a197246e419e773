package dispatch

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/outbox"
)

// openCounter counts the answers that were opened.
type openCounter struct {
	noObserver
	opened atomic.Int64
}

func (c *openCounter) RSA(operation string, _ time.Duration) {
	if operation == "open" {
		c.opened.Add(1)
	}
}

// zeros are blocks with bad padding, n bytes of them.
func zeros(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }

// garbage opens under k, and not to an answer.
func garbage(k *envelope.Key) string {
	sealed := must(envelope.Seal(k.Public(), envelope.PKCS1v15, []byte("\x17garbage\xff")))
	return string(sealed)
}

// someOf is an outbox whose node gets only so many callbacks of each lane.
type someOf struct {
	*store
	left [2]int // by lane, each changed by one goroutine
}

func (s *someOf) Claim(ctx context.Context, r outbox.ClaimRequest) ([]outbox.Claimed, error) {
	if r.Max = min(r.Max, s.left[r.Lane]); r.Max == 0 {
		return nil, nil
	}
	claimed, err := s.store.Claim(ctx, r)
	s.left[r.Lane] -= len(claimed)
	return claimed, err
}

// Answers in flight when the first one fails are not opened all the same: on each node
// at most twice cores and one, for the two lanes, beside the failures that pause
// the merchant (SECURITY.md).
func TestFewAnswersAreOpenedBeforeThePause(t *testing.T) {
	const perNode, cores = 40, 2
	for nodes, data := range map[int]string{1: zeros(128), 3: garbage(testPair())} { // padding that is bad, and good
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				count := &openCounter{}
				var arrived atomic.Int64
				all := make(chan struct{})
				post := func(context.Context, request) Response {
					if arrived.Add(1) == int64(nodes*perNode) {
						close(all)
					}
					<-all
					return answers(data)
				}
				for i := range nodes * perNode {
					if i%2 == 0 {
						r.addWithdrawal("m1", i, time.Hour, true)
					} else {
						r.addDeposit("m1", i)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				for n := range nodes {
					d, err := New(Config{Outbox: &someOf{store: r.store, left: [2]int{perNode / 2, perNode / 2}},
						Node: fmt.Sprint("node-", n), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), RSA: cores, Observer: count})
					ok(err)
					d.post = post
					running.Go(func() {
						if err := d.Run(ctx); err != nil {
							t.Error(err)
						}
					})
				}
				time.Sleep(10 * time.Minute)
				cancel()
				running.Wait()
				r.mu.Lock()
				defer r.mu.Unlock()
				if state := r.merchantM1().State; state != client.MerchantPaused {
					t.Errorf("after %d opened: %s", int(count.opened.Load()), state)
				}
				most := outbox.OpenFailureLimit - 1 + nodes*2*(cores+1)
				if n := int(count.opened.Load()); n < outbox.OpenFailureLimit || n > most {
					t.Errorf("%d of %d answers were opened, want %d to %d", n, arrived.Load(), outbox.OpenFailureLimit, most)
				}
				reasons := map[client.Reason]int{}
				for _, s := range r.settled {
					reasons[s.Attempt.Reason]++
					if s.OpenFailure != (s.Attempt.Reason == client.ReasonDataUnreadable) || s.Decision != "" || s.Alarm != "" {
						t.Errorf("%+v", s)
					}
				}
				if len(reasons) != 2 || reasons[client.ReasonDataUnreadable] != int(count.opened.Load()) || reasons[client.ReasonNotOpened] == 0 {
					t.Errorf("reasons %v of %d opened", reasons, int(count.opened.Load()))
				}
			})
		})
	}
}

// Data that is more than an answer needs costs no RSA and counts towards the pause.
func TestOversizedAnswersAreNotOpened(t *testing.T) {
	most := countersign.MaxAnswer(0)
	for _, test := range []struct {
		name   string
		blocks int
		reason client.Reason
		opened bool
	}{
		{"an answer's most", testPair().Blocks(envelope.PKCS1v15, most), client.ReasonDataUnreadable, true},
		{"one block more", testPair().Blocks(envelope.PKCS1v15, most) + 1, client.ReasonTooLarge, false},
		{"all that a response holds", 380, client.ReasonTooLarge, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				count := &openCounter{}
				r.d.cfg.Observer = count
				r.d.post = failing(answers(zeros(128 * test.blocks)))
				for i := range outbox.OpenFailureLimit {
					r.addWithdrawal("m1", i, time.Hour, true)
				}
				r.start(t)
				time.Sleep(time.Minute)
				r.stop()
				if (int(count.opened.Load()) > 0) != test.opened {
					t.Errorf("%d were opened", int(count.opened.Load()))
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				if state := r.merchantM1().State; state != client.MerchantPaused || r.settled[0].Attempt.Reason != test.reason {
					t.Errorf("%s after %+v", state, r.settled[0])
				}
			})
		})
	}
}

// A withdrawal does not wait for deposits. A failure keeps its place until it is settled, and who waits then finds out
// whether the merchant was paused.
func TestOpenings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const notify, withdraw = countersign.LaneNotify, countersign.LaneWithdraw
		o := newOpenings(2, time.Now)
		enter := func(l countersign.Lane) chan bool {
			done := make(chan bool, 1)
			go func() { done <- o.enter(l, time.Minute) }()
			synctest.Wait()
			return done
		}
		waits := func(c chan bool) bool { synctest.Wait(); return len(c) == 0 }
		a, b, c, d := enter(notify), enter(notify), enter(notify), enter(notify)
		if !<-a || !<-b || !waits(c) || !o.enter(withdraw, time.Minute) {
			t.Fatal("not two at once in each lane")
		}
		o.fail()
		o.leave(notify) // of b: a failed, and is not settled
		if !<-c || !waits(d) {
			t.Fatal("a failure that is not settled has no place")
		}
		time.Sleep(2 * time.Minute)
		if <-d {
			t.Fatal("opened after its time")
		}
		e, f := enter(notify), enter(notify)
		o.settled(notify, outbox.OpenFailureLimit)
		if <-e || <-f || o.enter(withdraw, time.Minute) {
			t.Fatal("opened after the merchant was paused")
		}

		// Without a count from the outbox, this node's own failures count for an hour.
		o = newOpenings(2, time.Now)
		for i := range outbox.OpenFailureLimit {
			if !o.enter(notify, time.Minute) {
				t.Fatalf("failure %d was not opened", i)
			}
			o.fail()
			o.settled(notify, 0)
		}
		if o.enter(notify, time.Minute) {
			t.Fatal("opened after too many failures")
		}
		time.Sleep(failureWindow + time.Second)
		if !o.enter(notify, time.Minute) {
			t.Fatal("failures count for ever")
		}
	})
}
