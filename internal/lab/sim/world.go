package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"countersign/client"
	"countersign/envelope"
)

// Config is what Run needs.
type Config struct {
	Seed uint64
	Dir  string           // an empty directory. Required
	Keys [2]*envelope.Key // of the merchant: the first, and the one of its next rotation. Required
	// RogueKey is of the merchant whose answers are faulty. Required.
	RogueKey *envelope.Key
	// Span is how long the world is bad. Required.
	Span time.Duration
	// Deposits and Withdrawals come within it, and as many Faults.
	Deposits, Withdrawals, Faults int
	// Pace is how long executors, the application and persons wait between two looks, at least.
	// Required.
	Pace time.Duration
	// Idle is how many times longer than elsewhere background loops wait.
	Idle int
	// Skip says which faults, by number, do not happen. Nil: none.
	Skip func(fault int) bool
	// Log gets what the daemons log. Nil: nothing does.
	Log *slog.Logger
}

// Result is the result of a run.
type Result struct {
	Story  []string       // what happened, in virtual time
	Wrong  []string       // what must not be; empty: all is well
	Counts map[string]int // deposits, withdrawals, executions, faults by kind
	Took   time.Duration  // virtual
	Faults int            // that were planned
}

// world is one run.
type world struct {
	c     Config
	net   *network
	begun time.Time
	runs  sync.WaitGroup // lives of processes
	ctx   context.Context

	service, gateway *process
	core             *core
	shop             *shop
	operator         *client.Service
	rogue            *rogue
	signs            *signs        // nil: the messages between both ends are not signed
	well             atomic.Bool   // the bad time is over
	over             atomic.Bool   // and the time of what must succeed, too
	operating        chan struct{} // holds a token while something is stopped or rotated
	rotations        int
	restores         int
	files            int                    // of books
	answers          atomic.Pointer[string] // the API key of the gateway's answers
	ended            map[string]bool        // withdrawals that have ended, as all know
	lost             map[string]bool        // processes whose database was restored
	unsaid           []string               // orders of a restored gateway that no books have

	mu     sync.Mutex
	result Result
}

// http returns a party's client.
func (w *world) http(owner string, by link) *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return w.net.dial(ctx, owner, by, address)
	}}}
}

// look fires when somebody looks for work again: after one pace and up to more further ones.
func (w *world) look(who string, more float64) <-chan time.Time {
	return time.After(w.c.Pace + time.Duration(w.float(who)*more*float64(w.c.Pace)))
}

// float returns the randomness of a party, from 0 to below 1.
func (w *world) float(who string) float64 { return w.net.luck(who).Float64() }

// turn takes a token, which another may hold for long, and then waits a moment of its own. Otherwise those that waited
// for one thing would go on together, in an order that no seed chooses.
func (w *world) turn(token chan struct{}, who ...any) {
	token <- struct{}{}
	time.Sleep(time.Millisecond + time.Duration(w.net.luck(who...).Int64N(int64(time.Second))))
}

// persist repeats do until it succeeds, is refused for good, or the run is over. It reports whether do succeeded.
func (w *world) persist(what string, do func() error) bool {
	for n := 0; n == 0 || !w.over.Load(); n++ {
		err := do()
		if err == nil {
			return true
		}
		if errors.Is(err, client.ErrInvalid) || errors.Is(err, client.ErrConflict) || errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrForbidden) {
			w.say("world", "%s is refused: %v", what, err)
			return false
		}
		time.Sleep(min(time.Second<<min(n, 10), 5*time.Minute) + time.Duration(w.net.luck(what).Int64N(int64(time.Second))))
	}
	w.wrong("%s does not succeed", what)
	return false
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Counts[what]++
}

// say adds a line to the story.
func (w *world) say(who, format string, args ...any) {
	at, text := time.Since(w.begun).Truncate(time.Millisecond), fmt.Sprintf(format, args...)
	w.c.Log.Info("story", "who", who, "what", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Story = append(w.result.Story, fmt.Sprintf("%v\t%s\t%s", at, who, text))
}

// wrong adds what must not be.
func (w *world) wrong(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.say("WRONG", "%s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Wrong = append(w.result.Wrong, text)
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
