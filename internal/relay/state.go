package relay

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// The parts of a relay that can fail for a while.
const (
	partCore      = "core"      // the core's database
	partService   = "service"   // the service, for what is carried
	partNotices   = "notices"   // LISTEN: rows are then found by the poll
	partDecisions = "decisions" // the feed of decisions
)

// state is what works now.
type state struct {
	log    *slog.Logger
	mu     sync.Mutex
	failed map[string]string // by part: why
}

// set notes what became of a part. It logs each failure, since whoever limits the lines may
// have left out the one before, and once that the part works again.
func (s *state) set(part string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if _, failed := s.failed[part]; failed {
			delete(s.failed, part)
			s.log.Info("works again", "part", part)
		}
		return
	}
	s.failed[part] = err.Error()
	if errors.Is(err, ErrFeed) {
		s.log.Error("decisions are stopped; docs/relay.md says how to go on", "error", err.Error())
		return
	}
	s.log.Warn("does not work; it is tried again", "part", part, "error", err.Error())
}

// why says what does not work of some parts; empty: nothing.
func (s *state) why(parts ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range parts {
		if text, failed := s.failed[p]; failed {
			return p + ": " + text
		}
	}
	return ""
}

// Pauses after failures in a row double from the first to the last.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	// longestHold is the longest time that a merchant's rows wait for another try while
	// the service works for others.
	longestHold = time.Minute
)

// pauseAfter is how long to wait after n failures in a row, up to most. It varies by a
// fifth, so that relays do not call all at once.
func pauseAfter(n int, most time.Duration) time.Duration {
	d := min(firstPause<<min(n-1, 20), most)
	return d*9/10 + rand.N(d/5)
}

// held are the merchants whose rows wait for another try.
type held struct {
	most  time.Duration
	mu    sync.Mutex
	until map[string]pause
}

type pause struct {
	until    time.Time
	failures int
}

// fail holds a merchant after one more failure.
func (h *held) fail(merchant string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.until[merchant].failures + 1
	h.until[merchant] = pause{now.Add(pauseAfter(n, h.most)), n}
}

// work ends a hold.
func (h *held) work(merchant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.until, merchant)
}

// now gives the merchants that are held at a time, and when the first of them is due.
func (h *held) now(at time.Time) (merchants []string, first time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	merchants = []string{}
	for m, w := range h.until {
		if !w.until.After(at) {
			continue
		}
		merchants = append(merchants, m)
		if first.IsZero() || w.until.Before(first) {
			first = w.until
		}
	}
	return merchants, first
}
