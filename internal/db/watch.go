package db

import "sync"

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
	watchers map[Topic]map[chan struct{}]bool
}

// Watch returns a channel that gets a value soon after a commit woke topic, on this node or, with PostgreSQL, on
// another. Several wake-ups may give one value, and a broken connection may lose them, so callers must also poll
// slowly. stop ends the watch.
func (d *DB) Watch(topic Topic) (c <-chan struct{}, stop func()) { return d.hub.watch(topic) }

// WakeHere wakes the watchers of topic on this node, outside a transaction.
func (d *DB) WakeHere(topic Topic) { d.hub.wake(topic) }

func (h *hub) watch(topic Topic) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = map[Topic]map[chan struct{}]bool{}
	}
	if h.watchers[topic] == nil {
		h.watchers[topic] = map[chan struct{}]bool{}
	}
	h.watchers[topic][c] = true
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers[topic], c)
	}
}

func (h *hub) wake(topic Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	notify(h.watchers[topic])
}

// wakeAll wakes the watchers of every topic.
func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, watchers := range h.watchers {
		notify(watchers)
	}
}

func notify(watchers map[chan struct{}]bool) {
	for c := range watchers {
		select {
		case c <- struct{}{}:
		default: // a value is waiting already
		}
	}
}
