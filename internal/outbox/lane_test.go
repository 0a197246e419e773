package outbox

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign"
	"countersign/internal/db"
)

// TestBucket: whatever the claims, no second sees more than the rate and one
// burst, and what the bucket promises for a time is there at that time.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := laneRow{active: true, concurrency: 1 << 30, rate: rapid.SampledFrom([]float64{0.01, 0.3, 1, 3, 7.7, 10, 33, 100, 1000, 12345}).Draw(t, "rate")}
		now := db.Millis(rapid.Int64Range(1_600_000_000_000, 1_900_000_000_000).Draw(t, "start"))
		type taken struct {
			at db.Millis
			n  int
		}
		var history []taken
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			free := l.free(now)
			if free < 1 && l.ready() <= now {
				t.Fatalf("ready at %d, yet nothing is free at %d", l.ready(), now)
			}
			if free > 0 {
				n := rapid.IntRange(1, free).Draw(t, "n")
				l.take(n, now)
				history = append(history, taken{now, n})
			}
			if rapid.Bool().Draw(t, "wait for it") {
				now = max(now, l.ready())
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
			if most := l.rate + l.burst() + 1e-3; float64(sum) > most {
				t.Fatalf("%d within a second from %d at %v a second", sum, history[i].at, l.rate)
			}
		}
	})
}

func TestBreakerDoubles(t *testing.T) {
	l := laneRow{lane: countersign.LaneWithdraw, concurrency: 9}
	now := db.Millis(0)
	for i := range 40 {
		was := l.limit()
		now = max(now, l.openUntil)
		l.exchanged(false, now)
		switch {
		case i+1 < BreakerThreshold && (l.openUntil != 0 || was != 9):
			t.Fatalf("open after %d", i+1)
		case i+1 == BreakerThreshold && l.openUntil != now+5000:
			t.Fatalf("open for %d at first", l.openUntil-now)
		case i+1 > BreakerThreshold && (l.openUntil != now+10_000 || was != 1):
			t.Fatalf("open for %d after %d, limit %d", l.openUntil-now, i+1, was)
		}
	}
	l.exchanged(true, now)
	if l.failures != 0 || l.openUntil != 0 || l.limit() != 9 {
		t.Errorf("after one that arrived: %+v", l)
	}
}

func TestIDs(t *testing.T) {
	var m idMaker
	last := ""
	for i := range 5000 {
		id := m.next(db.Millis(1_700_000_000_000 + i/1000))
		if id <= last || len(id) != idLength || strings.Trim(id, idAlphabet) != "" {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
	if m.next(1<<60) <= last {
		t.Error("a time out of range")
	}
	if first, second := m.next(-5), m.next(-5); first == second {
		t.Error("the same id twice before 1970")
	}
	var other idMaker
	if other.next(5) == m.next(5) {
		t.Error("two makers made the same")
	}
	for _, bad := range []string{"", ".", "a", "a." + last[1:], "a.b." + last, "A." + last, "a." + strings.ToUpper(last), "a." + last + "0"} {
		if _, _, err := splitID(bad); err == nil {
			t.Errorf("took %q", bad)
		}
	}
	if merchant, rest, err := splitID(joinID("a-b_1", last)); err != nil || merchant != "a-b_1" || rest != last {
		t.Errorf("got %s, %s, %v", merchant, rest, err)
	}
}
