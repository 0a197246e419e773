package db

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// bellChannel is the PostgreSQL channel on which nodes notify each other.
const bellChannel = "countersign"

// bell wakes the watchers of other nodes, and those of this node for commits of others.
//
// NOTIFY inside the transactions that make work would make their commits wait for each other, because PostgreSQL
// queues notifications under one lock. So one connection sends them after the commits, at most one for each topic at
// a time.
type bell struct {
	pool  *pgxpool.Pool
	links *Links
	hub   *hub
	log   *slog.Logger
	self  string // the sender, so that a node skips its own notifications

	rung   atomic.Uint64 // topics to notify of; see topicSet
	wake   chan struct{} // buffered 1: rung is not empty
	start  func()        // lets newBell return: listen has begun, or its first attempt failed
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func newBell(pool *pgxpool.Pool, l *Links, h *hub, log *slog.Logger) *bell {
	ctx, cancel := context.WithCancel(context.Background())
	begun := make(chan struct{})
	b := &bell{pool: pool, links: l, hub: h, log: log, self: rand.Text(), cancel: cancel,
		wake: make(chan struct{}, 1), start: sync.OnceFunc(func() { close(begun) })}
	if l.Several() {
		b.done.Go(func() { l.Watch(ctx) })
	}
	b.done.Go(func() { b.send(ctx) })
	b.done.Go(func() { b.listen(ctx) })
	<-begun
	return b
}

func (b *bell) close() {
	b.cancel()
	b.done.Wait()
}

// ring makes send notify other nodes of topics.
func (b *bell) ring(topics topicSet) {
	if topics == 0 {
		return
	}
	b.rung.Or(uint64(topics))
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// send notifies of each topic that was rung. A notification that fails is lost, but watchers poll as well.
func (b *bell) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
		topicSet(b.rung.Swap(0)).every(func(t Topic) { b.notify(ctx, t) })
	}
}

func (b *bell) notify(ctx context.Context, topic Topic) {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	_, err := b.pool.Exec(bounded, `SELECT pg_notify($1, $2)`, bellChannel, strconv.Itoa(int(topic))+" "+b.self)
	cancel()
	if err != nil && ctx.Err() == nil {
		b.log.Warn("other nodes could not be notified", "error", err)
	}
	Sleep(ctx, 2*time.Millisecond) // topics that are rung meanwhile share the next notification
}

const (
	listenAgain   = 100 * time.Millisecond
	listenSlowest = time.Second
	// listenCheck is how often the listening connection is tested, and how long it may take to answer.
	listenCheck = 2 * time.Second
)

// listen receives notifications on its own connection, and connects again if it breaks.
func (b *bell) listen(ctx context.Context) {
	said := false
	for pause := listenAgain; ; pause = min(2*pause, listenSlowest) {
		listened, err := b.links.Listen(ctx, bellChannel, listenCheck, func() {
			b.hub.wakeAll() // notifications may have been missed meanwhile
			b.start()
		}, func(n *pgconn.Notification) {
			topic, sender, _ := strings.Cut(n.Payload, " ")
			if t, err := strconv.Atoi(topic); err == nil && sender != b.self {
				b.hub.WakeHere(Topic(t))
			}
		})
		b.start()
		if ctx.Err() != nil {
			return
		}
		if listened {
			pause, said = listenAgain, false
		}
		if !said { // once, however long the failure lasts
			b.log.Warn("notifications from other nodes do not arrive", "error", err)
			said = true
		}
		if !Sleep(ctx, pause) {
			return
		}
	}
}

// beginListening is the time limit of connecting and the first LISTEN.
const beginListening = 20 * time.Second

// Listen calls notified for each notification on a channel until ctx ends or its connection breaks. That connection
// is outside the pool. A broken connection does not report itself, so if nothing came for the time check, Listen
// tests it and waits as long for the answer. Listen calls begun once it listens; earlier notifications were missed.
// listened reports whether it called begun.
func (l *Links) Listen(ctx context.Context, channel string, check time.Duration, begun func(),
	notified func(*pgconn.Notification)) (listened bool, err error) {
	start, cancel := context.WithTimeout(ctx, beginListening)
	defer cancel()
	conn, err := l.connect(start, true)
	if err != nil {
		return false, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	listen := `LISTEN ` + channel
	if _, err := conn.Exec(start, listen); err != nil {
		return false, err
	}
	begun()
	for {
		wait, cancel := context.WithTimeout(ctx, check)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			notified(n)
			continue
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return true, err
		}
		test, cancel := context.WithTimeout(ctx, check)
		_, err = conn.Exec(test, listen) // repeating it is harmless
		cancel()
		if err != nil {
			return true, err
		}
	}
}

// Topic is what a watcher can wait for, a number from 0 to 63. Each end defines its topics. Nodes of one database
// that differ in version must agree on them.
type Topic int

// topicSet is a set of topics.
type topicSet uint64

func (s *topicSet) add(t Topic) { *s |= 1 << t }

// every calls fn for each topic in the set.
func (s topicSet) every(fn func(Topic)) {
	for t := Topic(0); s != 0; t, s = t+1, s>>1 {
		if s&1 != 0 {
			fn(t)
		}
	}
}

// hub passes wake-ups to the watchers of this process.
type hub struct {
	mu       sync.Mutex
	watchers map[chan struct{}]Topic
}

// Watch returns a channel that gets a value soon after a commit woke topic, on this node or, with PostgreSQL, on
// another. Several wake-ups may give one value, and a broken connection may lose them, so callers must also poll
// slowly. stop ends the watch.
func (h *hub) Watch(topic Topic) (wake <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = map[chan struct{}]Topic{}
	}
	h.watchers[c] = topic
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, c)
	}
}

// WakeHere wakes the watchers of topic on this node, outside a transaction.
func (h *hub) WakeHere(topic Topic) { h.notify(func(t Topic) bool { return t == topic }) }

// wakeAll wakes the watchers of every topic.
func (h *hub) wakeAll() { h.notify(func(Topic) bool { return true }) }

func (h *hub) notify(of func(Topic) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c, topic := range h.watchers {
		if !of(topic) {
			continue
		}
		select {
		case c <- struct{}{}:
		default: // a value is waiting already
		}
	}
}
