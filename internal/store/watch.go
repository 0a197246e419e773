package store

import "sync"

// Topic is what a watcher can wait for.
type Topic int

// The topics. TopicNotify and TopicWithdraw mirror the lanes.
const (
	TopicNotify Topic = iota
	TopicWithdraw
	TopicDecisions
	TopicDeposits // the three of the merchant's end: both feeds and what is forwarded of them
	TopicEvents
	TopicForwards
	topics // how many there are
)

func topicOf(l Lane) Topic {
	if l == LaneWithdraw {
		return TopicWithdraw
	}
	return TopicNotify
}

// hub hands wake-ups to the watchers of this process.
type hub struct {
	mu       sync.Mutex
	watchers [topics]map[chan struct{}]bool
}

// Watch gives a channel that gets a value soon after a commit that made work
// for topic, on this node or, with PostgreSQL, on another. Values coalesce and,
// when a connection breaks, can get lost: poll slowly beside it. stop ends it.
func (s *Store) Watch(topic Topic) (c <-chan struct{}, stop func()) { return s.hub.watch(topic) }

func (h *hub) watch(topic Topic) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
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
	for c := range h.watchers[topic] {
		select {
		case c <- struct{}{}:
		default: // one is waiting already
		}
	}
}
