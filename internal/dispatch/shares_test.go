package dispatch

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
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

// stuck is a lane whose merchants give nothing back.
type stuck struct {
	width, unsent int
	has           []int // by merchant
}

func (l *stuck) free() int {
	free := l.width
	for _, n := range l.has {
		free -= n
	}
	return free
}

func (l *stuck) places() (most, share int) {
	return placesOf(l.width, l.free(), claimBatch, claimBatch-l.unsent)
}

// claim divides what the lane gives as outbox.Claim does: those with nothing first.
// wants is how much more each merchant would take.
func (l *stuck) claim(wants func(merchant int) int) {
	most, share := l.places()
	for _, holders := range []bool{false, true} {
		for m, n := range l.has {
			if (n > 0) == holders {
				n = max(0, min(wants(m), share-n, most))
				l.has[m] += n
				l.unsent += n
				most -= n
			}
		}
	}
}

// However many merchants are slow, and however much waits for them: none has more than
// a quarter of a lane, and there is a place for one that has nothing.
func TestNoMerchantFillsALane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &stuck{width: rapid.IntRange(1, 6000).Draw(t, "width")}
		l.has = make([]int, rapid.IntRange(1, max(1, l.width/9)).Draw(t, "slow merchants"))
		for range 100 {
			l.claim(func(int) int { return rapid.IntRange(0, 1000).Draw(t, "wanted") })
			for m, n := range l.has {
				if n > max(1, l.width/4) {
					t.Fatalf("%d has %d of %d places", m, n, l.width)
				}
			}
			if l.unsent > claimBatch {
				t.Fatalf("%d were claimed and not sent", l.unsent)
			}
			if l.width < 8 {
				continue // no place is for newcomers alone
			}
			if free := l.free(); free < l.width/8-len(l.has) {
				t.Fatalf("%d of %d places are free", free, l.width)
			}
			most, share := l.places()
			if newcomer := l.unsent < claimBatch; newcomer && (most < 1 || share < 1) {
				t.Fatalf("nothing for a newcomer of %d places", l.free())
			}
			l.unsent = rapid.IntRange(0, l.unsent).Draw(t, "not sent yet")
		}
	})
}

// The more slow merchants there are, the less each has, and alone one has the quarter.
func TestSharesShrink(t *testing.T) {
	for _, test := range []struct{ width, slow, each int }{
		{5000, 1, 1093}, {5000, 2, 875}, {5000, 9, 364}, {5000, 500, 8}, {512, 1, 112}, {64, 2, 11},
	} {
		l := &stuck{width: test.width, has: make([]int, test.slow)}
		for range 20_000 { // one place for each in turn
			for m := range l.has {
				if most, share := l.places(); most > 0 && l.has[m] < share {
					l.has[m]++
				}
			}
		}
		for m, n := range l.has {
			if n < test.each-1 || n > test.each+1 {
				t.Errorf("%d of %d slow merchants has %d of %d places, want %d", m, test.slow, n, test.width, test.each)
			}
		}
	}
}
