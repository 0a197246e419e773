package pglink

import (
	"context"
	"time"
)

// silent gives the addresses of servers that have not answered for Stalled.
func (l *Links) silent() map[string]bool {
	found := map[string]bool{}
	before := int64(time.Since(base) - Stalled)
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.open {
		if asked := k.asked.Load(); asked != 0 && asked < before {
			found[k.addr] = true
		}
	}
	return found
}

// Watch leaves silent servers for one that took over, until ctx ends. While none has taken
// over it asks less and less often: a server may be silent for hours because its standby is
// away, and each question makes a new connection to the others.
func (l *Links) Watch(ctx context.Context) {
	pause := stallCheck
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		addrs := l.silent()
		switch {
		case len(addrs) == 0:
			pause = stallCheck
		case l.replaced(ctx, addrs):
			pause = stallCheck
			l.leave(addrs)
		default:
			pause = min(2*pause, stallCheckMost)
		}
	}
}

// replaced reports whether another server has taken over from those at addrs: it
// takes writes, and they either do not answer or have an earlier timeline. A server
// that answers is only slow, or waits for a lock or its standby.
func (l *Links) replaced(ctx context.Context, addrs map[string]bool) bool {
	other, err := l.connectTo(ctx, func(addr string) bool { return !addrs[addr] })
	if err != nil {
		return false
	}
	defer other.Close(ctx)
	same, err := l.connectTo(ctx, func(addr string) bool { return addrs[addr] })
	if err != nil {
		return true
	}
	defer same.Close(ctx)
	return timelineOf(other.PgConn()).after(timelineOf(same.PgConn()))
}

// leave closes the connections to addrs. Calls that wait on one fail.
func (l *Links) leave(addrs map[string]bool) {
	var left []*link
	l.mu.Lock()
	for addr := range addrs {
		l.dark[addr] = time.Now().Add(darkFor)
	}
	for k := range l.open {
		if addrs[k.addr] {
			left = append(left, k)
		}
	}
	l.mu.Unlock()
	for _, k := range left {
		k.Close()
	}
	if len(left) > 0 {
		l.log.Warn("another server takes writes now; left one that does not answer", "connections", len(left))
	}
}
