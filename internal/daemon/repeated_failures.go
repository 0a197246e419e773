package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Seldom limits repeated failures: the first seldomFirst lines are written, then one every seldomEvery, which says how
// many were left out (notLogged). So an outage hides nothing else and does not fill the disk. A line is a failure if it
// has an error or a cause, or tells of a failed attempt. Lines with the same text and the same seldomKeys are the same
// failure.
func Seldom(h slog.Handler) slog.Handler {
	return &seldom{Handler: h, state: &seldomState{failures: map[string]*failure{}}}
}

const (
	seldomFirst = 5
	seldomEvery = time.Minute
	seldomMost  = 10_000 // failures that are known at once
)

// seldomKeys are the attributes that distinguish failures.
var seldomKeys = map[string]bool{"merchant": true, "part": true, "lane": true, "reason": true, "route": true,
	"page": true, "feed": true, "kind": true, "result": true}

type seldom struct {
	slog.Handler
	state *seldomState // of all handlers that came from one
}

type seldomState struct {
	mu       sync.Mutex
	failures map[string]*failure
}

type failure struct {
	last    time.Time // when it came last
	logged  time.Time // when a line was written last
	lines   int
	skipped int // lines since then that were not written
}

// Handle implements slog.Handler.
func (s *seldom) Handle(ctx context.Context, r slog.Record) error {
	key, failed := r.Message, false
	r.Attrs(func(a slog.Attr) bool {
		switch {
		case a.Key == "error", a.Key == "result" && a.Value.String() == "retry":
			failed = true
		}
		if seldomKeys[a.Key] {
			key += "\x00" + a.Value.String()
		}
		return true
	})
	if failed {
		write, skipped := s.state.count(key, r.Time)
		if !write {
			return nil
		}
		if skipped > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("notLogged", skipped))
		}
	}
	return s.Handler.Handle(ctx, r)
}

// count reports whether a line is written at now, and how many before it were left out.
func (s *seldomState) count(key string, now time.Time) (write bool, skipped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.failures[key]
	if f == nil {
		if len(s.failures) >= seldomMost {
			clear(s.failures)
		}
		f = &failure{}
		s.failures[key] = f
	}
	if now.Sub(f.last) >= seldomEvery {
		f.lines = 0 // it begins anew
	}
	f.last = now
	if f.lines >= seldomFirst && now.Sub(f.logged) < seldomEvery {
		f.skipped++
		return false, 0
	}
	f.lines, f.logged = f.lines+1, now
	skipped, f.skipped = f.skipped, 0
	return true, skipped
}

// WithAttrs implements slog.Handler.
func (s *seldom) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &seldom{s.Handler.WithAttrs(attrs), s.state}
}

// WithGroup implements slog.Handler.
func (s *seldom) WithGroup(name string) slog.Handler {
	return &seldom{s.Handler.WithGroup(name), s.state}
}
