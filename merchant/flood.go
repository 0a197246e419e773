package merchant

import (
	"sync"
	"time"
)

// floods bounds the log lines about refused and repeated requests: what anybody may send again
// and again must neither fill a disk nor hide the callbacks. The metrics count them all.
type floods struct {
	mu    sync.Mutex
	began time.Time // of the present span
	lines map[string]*flood
}

type flood struct{ logged, skipped int }

// In each span of this length, this many lines of a kind are written. The first line of the kind after it says how many
// were left out.
const (
	floodSpan  = time.Minute
	floodMost  = 10
	floodKinds = 1000
)

// log reports whether a line of a kind is written at now, and how many before it were not.
func (f *floods) log(kind string, now time.Time) (logged bool, skipped int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.began) >= floodSpan || f.lines == nil {
		rest := map[string]*flood{}
		for k, l := range f.lines {
			if l.skipped > 0 && len(rest) < floodKinds/2 {
				rest[k] = &flood{skipped: l.skipped}
			}
		}
		f.began, f.lines = now, rest
	}
	l := f.lines[kind]
	switch {
	case l == nil && len(f.lines) >= floodKinds:
		return false, 0
	case l == nil:
		l = &flood{}
		f.lines[kind] = l
	case l.logged == floodMost:
		l.skipped++
		return false, 0
	}
	l.logged++
	skipped, l.skipped = l.skipped, 0
	return true, skipped
}

// clip bounds how much a peer can write into the log with one request.
func clip(s string) string {
	const most = 128
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
