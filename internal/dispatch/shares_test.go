package dispatch

import (
	"testing"

	"pgregory.net/rapid"
)

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
