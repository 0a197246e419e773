package store

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// bellChannel is the PostgreSQL channel that nodes notify each other on.
const bellChannel = "countersign"

// bell wakes the watchers of other nodes, and those of this one for them.
//
// NOTIFY inside the transactions that make work would make their commits wait
// for each other: PostgreSQL queues notifications under one lock. So one
// connection sends them afterwards, at most one for each topic at a time.
type bell struct {
	pool *pgxpool.Pool
	hub  *hub
	log  *slog.Logger
	self string // sender, so that a node passes over its own

	rung   [topics]chan struct{}
	begun  chan struct{} // closed when it listens, or could not at first
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func newBell(pool *pgxpool.Pool, h *hub, log *slog.Logger) *bell {
	ctx, cancel := context.WithCancel(context.Background())
	b := &bell{pool: pool, hub: h, log: log, self: rand.Text(), cancel: cancel, begun: make(chan struct{})}
	for i := range b.rung {
		b.rung[i] = make(chan struct{}, 1)
	}
	b.done.Go(func() { b.send(ctx) })
	b.done.Go(func() { b.listen(ctx) })
	<-b.begun
	return b
}

func (b *bell) close() {
	b.cancel()
	b.done.Wait()
}

func (b *bell) ring(topic Topic) {
	select {
	case b.rung[topic] <- struct{}{}:
	default:
	}
}

// send notifies of each topic that was rung. A notification that fails is lost:
// watchers poll as well.
func (b *bell) send(ctx context.Context) {
	for {
		var topic Topic
		select {
		case <-ctx.Done():
			return
		case <-b.rung[TopicNotify]:
			topic = TopicNotify
		case <-b.rung[TopicWithdraw]:
			topic = TopicWithdraw
		case <-b.rung[TopicDecisions]:
			topic = TopicDecisions
		case <-b.rung[TopicDeposits]:
			topic = TopicDeposits
		case <-b.rung[TopicEvents]:
			topic = TopicEvents
		case <-b.rung[TopicForwards]:
			topic = TopicForwards
		}
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := b.pool.Exec(bounded, `SELECT pg_notify($1, $2)`, bellChannel, strconv.Itoa(int(topic))+" "+b.self)
		cancel()
		if err != nil && ctx.Err() == nil {
			b.log.Warn("other nodes were not woken", "error", err)
		}
		if !sleep(ctx, 2*time.Millisecond) { // what comes meanwhile shares the next
			return
		}
	}
}

// start lets Open go on. Only listen's goroutine calls it.
func (b *bell) start() {
	select {
	case <-b.begun:
	default:
		close(b.begun)
	}
}

// listen holds a connection of its own and connects again when it breaks.
func (b *bell) listen(ctx context.Context) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		heard, err := b.connected(ctx)
		b.start()
		if ctx.Err() != nil {
			return
		}
		if heard {
			pause = 100 * time.Millisecond
		}
		b.log.Warn("listening to other nodes broke off", "error", err)
		if !sleep(ctx, pause) {
			return
		}
	}
}

func (b *bell) connected(ctx context.Context) (heard bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, b.pool.Config().ConnConfig)
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, `LISTEN `+bellChannel); err != nil {
		return false, err
	}
	// Whatever was said while nobody listened.
	for topic := range topics {
		b.hub.wake(topic)
	}
	b.start()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, err
		}
		topic, sender, _ := strings.Cut(n.Payload, " ")
		if t, err := strconv.Atoi(topic); err == nil && t >= 0 && Topic(t) < topics && sender != b.self {
			b.hub.wake(Topic(t))
		}
	}
}

// sleep reports false where ctx ended first.
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
