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

// ErrFeed means that the feed of decisions is not the one that was read before: the service was restored from a backup,
// or is another one. No decision is written until a person has decided where to continue.
var ErrFeed = errors.New("the feed of decisions is not the one that was read before")

// state is what works now.
type state struct {
	log    *slog.Logger
	mu     sync.Mutex
	failed map[string]string // by part: why
}

// set notes whether a part works. It logs each failure, since a limit of the log may have dropped the one before, and
// once that the part works again.
func (s *state) set(part string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if _, failed := s.failed[part]; failed {
			delete(s.failed, part)
			s.log.Info("a part of the relay works again", "part", part)
		}
		return
	}
	s.failed[part] = err.Error()
	if errors.Is(err, ErrFeed) {
		s.log.Error("decisions are stopped; docs/provider/relay.md says how to go on", "error", err.Error())
		return
	}
	s.log.Warn("a part of the relay failed; it is tried again", "part", part, "error", err.Error())
}

// why returns why some parts do not work, or "" if all do.
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
	// longestHold is the longest time that a merchant's rows wait for another try while the service works for others.
	longestHold = time.Minute
)

// pauseAfter returns how long to wait after n failures in a row, up to most. It varies by a fifth, so that relays do
// not all call at once.
func pauseAfter(n int, most time.Duration) time.Duration {
	d := min(firstPause<<min(n-1, 20), most)
	return d*9/10 + rand.N(d/5)
}

// held are the merchants and withdrawals whose rows wait for another try, by their keys. Only turns use it.
type held struct {
	most   time.Duration
	until  map[string]pause
	parked map[int64]string // rows of withdrawals that wait, with their keys
}

type pause struct {
	until    time.Time
	failures int
}

// maxParked is how many waiting rows of withdrawals are left out by their ids. Beyond it, their merchant waits.
const maxParked = 5000

// fail holds a merchant or a withdrawal after one more failure.
func (h *held) fail(key string, now time.Time) {
	n := h.until[key].failures + 1
	h.until[key] = pause{now.Add(pauseAfter(n, h.most)), n}
}

// park leaves a row out while its key is held. It returns false if too many rows are left out already.
func (h *held) park(id int64, key string) bool {
	if len(h.parked) >= maxParked {
		return false
	}
	h.parked[id] = key
	return true
}

// holds reports whether a key is held.
func (h *held) holds(key string, at time.Time) bool {
	return h.until[key].until.After(at)
}

// rows returns the rows that are left out, and forgets those whose hold is over.
func (h *held) rows(at time.Time) []int64 {
	list := []int64{}
	for id, key := range h.parked {
		if !h.until[key].until.After(at) {
			delete(h.parked, id)
			continue
		}
		list = append(list, id)
	}
	return list
}

// work ends the hold of a key.
func (h *held) work(key string) {
	delete(h.until, key)
}

// now returns the merchants and withdrawals that are held at a time, and when the first hold ends.
func (h *held) now(at time.Time) (keys []string, first time.Time) {
	keys = []string{}
	for key, w := range h.until {
		if !w.until.After(at) {
			continue
		}
		keys = append(keys, key)
		if first.IsZero() || w.until.Before(first) {
			first = w.until
		}
	}
	return keys, first
}
