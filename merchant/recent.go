package merchant

import "sync"

// recent remembers the last requests of a kind.
type recent struct {
	mu    sync.Mutex
	known map[string]bool
	ring  []string
	next  int
}

const recentMost = 4096

func (r *recent) has(uuid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[uuid]
}

func (r *recent) add(uuid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.known[uuid]:
		return
	case r.known == nil:
		r.known, r.ring = map[string]bool{}, make([]string, recentMost)
	}
	delete(r.known, r.ring[r.next])
	r.ring[r.next], r.known[uuid] = uuid, true
	r.next = (r.next + 1) % recentMost
}
