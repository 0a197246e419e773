package db

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// serverClock is a database's clock, for a test, and this machine's.
type serverClock struct {
	mu      sync.Mutex
	ahead   time.Duration // of the machine's
	trip    time.Duration // how long a reading takes
	broken  bool
	asked   int
	started time.Time
}

func (s *serverClock) read(context.Context) (Millis, error) {
	s.mu.Lock()
	s.asked++
	ahead, trip, broken := s.ahead, s.trip, s.broken
	s.mu.Unlock()
	time.Sleep(trip / 2)
	now := MillisOf(time.Now().Add(ahead))
	time.Sleep(trip - trip/2)
	if broken {
		return 0, errors.New("away")
	}
	return now, nil
}

func (s *serverClock) clock(log *strings.Builder, shared bool) *Clock {
	s.started = time.Now()
	c := &Clock{read: s.read, every: clockEvery, elapsed: func() time.Duration { return time.Since(s.started) },
		log: slog.New(slog.NewTextHandler(log, nil)), shared: shared}
	t, _, _ := c.reading(context.Background())
	c.offset.Store(t)
	return c
}

func TestClockFollowsTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := &serverClock{ahead: time.Hour, trip: 10 * time.Millisecond}
		c := s.clock(&log, true)
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- c.Run(ctx) }()
		off := func() time.Duration { return c.Now().Sub(time.Now().Add(s.ahead)).Abs() }
		for _, step := range []struct {
			ahead  time.Duration
			trip   time.Duration
			broken bool
			told   bool
			want   time.Duration // difference afterwards, at most
		}{
			{ahead: time.Hour, trip: time.Millisecond, want: 3 * time.Millisecond},
			{ahead: time.Hour + 3*time.Second, trip: time.Millisecond, told: true, want: 3 * time.Millisecond},    // a failover
			{ahead: time.Hour - 20*time.Second, trip: time.Millisecond, told: true, want: 3 * time.Millisecond},   // and back
			{ahead: time.Hour - 20*time.Second, trip: time.Second, want: 3 * time.Millisecond},                    // a slow reading says nothing new
			{ahead: time.Hour - 20200*time.Millisecond, trip: time.Millisecond, want: 3 * time.Millisecond},       // drift
			{ahead: time.Hour, trip: time.Millisecond, broken: true, want: 20200*time.Millisecond + clockWarn},    // nobody to ask
			{ahead: time.Hour - 20200*time.Millisecond, trip: 10 * time.Millisecond, want: 15 * time.Millisecond}, // and back again
		} {
			synctest.Wait()
			s.mu.Lock()
			log.Reset()
			s.ahead, s.trip, s.broken = step.ahead, step.trip, step.broken
			s.mu.Unlock()
			time.Sleep(2*clockEvery + 2*time.Second)
			synctest.Wait()
			if off() > step.want {
				t.Errorf("%+v: off by %v", step, off())
			}
			if told := strings.Contains(log.String(), "moved apart"); told != step.told {
				t.Errorf("%+v: logged %q", step, log.String())
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A process alone with its database minds no clock that somebody sets.
func TestClockOfOneProcessMindsNoSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &serverClock{}
		c := s.clock(&strings.Builder{}, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.ahead = time.Hour
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
		if off := time.Until(c.Now()).Abs(); off > time.Millisecond || s.asked != 1 {
			t.Errorf("off by %v, asked %d times", off, s.asked)
		}
	})
}

func TestClock(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		s := openAt(t, url)
		if now := must(s.serverNow(ctx))(t); now < 1_700_000_000_000 {
			t.Errorf("the server's clock says %d", now)
		}
		c := must(NewClock(t.Context(), s, nil))(t)
		first := c.Now()
		time.Sleep(2 * time.Millisecond)
		if second := c.Now(); time.Until(first).Abs() > time.Minute || !second.After(first) {
			t.Errorf("%v, then %v", first, second)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := NewClock(ctx, s, nil); s.dialect.Shared && err == nil {
			t.Error("a reading that failed gives a clock")
		}
	})
}
