package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A node that has too many open files rests, because exchanges and claims would only
// fail. Other nodes take the work meanwhile.
const (
	filesFirst = time.Second      // the first rest; each one after it is twice as long
	filesMost  = 10 * time.Second // up to this
	filesCalm  = time.Minute      // without such a failure, the next rest is the first again
	filesDue   = time.Second      // when a callback that met the failure is due again
)

// openFiles says when this node may claim again.
type openFiles struct {
	log *slog.Logger

	mu    sync.Mutex
	until time.Time     // end of the last rest
	rest  time.Duration // its length
}

// short notes that this node had too many open files.
func (f *openFiles) short() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Before(f.until) {
		return // an exchange that began before the rest
	}
	if now.Sub(f.until) > filesCalm {
		f.rest = 0
	}
	f.rest = min(max(filesFirst, 2*f.rest), filesMost)
	f.until = now.Add(f.rest)
	f.log.LogAttrs(context.Background(), slog.LevelError, "too many open files on this node: it rests; raise its limit of open files (ulimit -n)",
		slog.Duration("rest", f.rest))
}

// wait waits until this node may claim.
func (f *openFiles) wait(stop context.Context) {
	f.mu.Lock()
	left := time.Until(f.until)
	f.mu.Unlock()
	if left > 0 {
		sleep(stop, left)
	}
}
