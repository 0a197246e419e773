package dispatch

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const block = 400 * time.Microsecond // about one of 1024 bits

func runBlock(int) { time.Sleep(block) }

// A merchant whose messages take as long as messages may costs another one a few
// blocks for each of its own messages, however many of its answers wait.
func TestLongAnswersDoNotHoldUpOthers(t *testing.T) {
	for _, lane := range []turn{turnWithdrawOpen, turnNotifyOpen} {
		for name, first := range map[string]turn{"its seal": lane + 1, "its opening": lane} {
			synctest.Test(t, func(t *testing.T) {
				c := newCores(2)
				hostile, other := new(account), new(account)
				var all sync.WaitGroup
				for range 60 {
					all.Go(func() {
						if _, err := c.each(t.Context(), hostile, lane, 36, runBlock); err != nil {
							t.Error(err)
						}
					})
				}
				time.Sleep(50 * time.Millisecond)
				start := time.Now()
				took, err := c.each(t.Context(), other, first, 5, runBlock)
				if err != nil || took != 5*block {
					t.Errorf("%v of RSA, %v", took, err)
				}
				// The core that it gets has at most a stretch and a block to go; then its
				// own blocks come one after the other.
				if waited := time.Since(start); waited > stretch+block+5*block {
					t.Errorf("turn %d: %s took %v", lane, name, waited)
				}
				all.Wait()
				if c.busy != 0 || len(c.accounts) != 0 || c.waiting != [turns]int{} {
					t.Errorf("%d busy, %d accounts and %v messages wait", c.busy, len(c.accounts), c.waiting)
				}
			})
		}
	}
}

// Whatever they ask for, merchants that always wait get the same time, up to
// the length of a message, and none gets less than its share.
func TestCoresAreShared(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := newCores(1 + r.IntN(3))
			accounts := make([]account, 2+r.IntN(6))
			end := time.Now().Add(5 * time.Second)
			var all sync.WaitGroup
			for i := range accounts {
				blocks := 1 + r.IntN(36)
				for range c.most { // so that one more waits while the others are worked on
					all.Go(func() {
						for time.Now().Before(end) {
							if _, err := c.each(t.Context(), &accounts[i], turnNotifySeal, blocks, runBlock); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			all.Wait()
			least, most := accounts[0].used, accounts[0].used
			for i := range accounts {
				least, most = min(least, accounts[i].used), max(most, accounts[i].used)
			}
			share := 5 * time.Second * time.Duration(c.most) / time.Duration(len(accounts))
			if slack := time.Duration(c.most*36+1)*block + lead; most-least > slack || least < share-slack {
				t.Errorf("seed %d: %d merchants at %d places used %v to %v, a share is %v", seed, len(accounts), c.most, least, most, share)
			}
		})
	}
}
