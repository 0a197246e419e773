package db

import (
	"context"
	"crypto/rand"
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
	sleep(ctx, 2*time.Millisecond) // topics that are rung meanwhile share the next notification
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
				b.hub.wake(Topic(t))
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
		if !sleep(ctx, pause) {
			return
		}
	}
}

// sleep waits for d. It returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
