package outbox

import (
	"testing"

	"pgregory.net/rapid"

	"countersign"
	"countersign/internal/db"
)

// TestBucket: whatever the claims, no second sees more than the rate and one
// burst, and what the bucket promises for a time is there at that time.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Pace{Active: true, Concurrency: 1 << 30, Rate: rapid.SampledFrom([]float64{0.01, 0.3, 1, 3, 7.7, 10, 33, 100, 1000, 12345}).Draw(t, "rate")}
		now := db.Millis(rapid.Int64Range(1_600_000_000_000, 1_900_000_000_000).Draw(t, "start"))
		type taken struct {
			at db.Millis
			n  int
		}
		var history []taken
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			free := l.Free(now)
			if free < 1 && l.Ready() <= now {
				t.Fatalf("ready at %d, yet nothing is free at %d", l.Ready(), now)
			}
			if free > 0 {
				n := rapid.IntRange(1, free).Draw(t, "n")
				l.Take(n, now)
				history = append(history, taken{now, n})
			}
			if rapid.Bool().Draw(t, "wait for it") {
				now = max(now, l.Ready())
			} else {
				now += db.Millis(rapid.IntRange(0, 3000).Draw(t, "wait"))
			}
		}
		for i := range history {
			sum := 0
			for _, h := range history[i:] {
				if h.at >= history[i].at+1000 {
					break
				}
				sum += h.n
			}
			if most := l.Rate + l.burst() + 1e-3; float64(sum) > most {
				t.Fatalf("%d within a second from %d at %v a second", sum, history[i].at, l.Rate)
			}
		}
	})
}

func TestBreakerDoubles(t *testing.T) {
	l := Pace{Lane: countersign.LaneWithdraw, Concurrency: 9}
	now := db.Millis(0)
	for i := range 40 {
		was := l.limit()
		now = max(now, l.OpenUntil)
		l.exchanged(false, now)
		switch {
		case i+1 < BreakerThreshold && (l.OpenUntil != 0 || was != 9):
			t.Fatalf("open after %d", i+1)
		case i+1 == BreakerThreshold && l.OpenUntil != now+5000:
			t.Fatalf("open for %d at first", l.OpenUntil-now)
		case i+1 > BreakerThreshold && (l.OpenUntil != now+10_000 || was != 1):
			t.Fatalf("open for %d after %d, limit %d", l.OpenUntil-now, i+1, was)
		}
	}
	l.exchanged(true, now)
	if l.Failures != 0 || l.OpenUntil != 0 || l.limit() != 9 {
		t.Errorf("after one that arrived: %+v", l)
	}
}
