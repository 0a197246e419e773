package merchant

// Limit makes m small.
func (m *MemoryInbox) Limit(entries, blocks int) { m.maxEntries, m.maxBlocks = entries, blocks }

// Occupy takes one of the places where requests are opened, until release.
func (h *Handler) Occupy() (release func()) {
	h.opening.slots <- struct{}{}
	return func() { <-h.opening.slots }
}

// Waiting is how many blocks wait to be opened.
func (h *Handler) Waiting() int { return int(h.opening.waiting.Held()) }

// HeldBodies is how many bytes of bodies h holds.
func HeldBodies(h *Handler) int64 { return h.bodies.Held() }

// Len returns how many callbacks are recorded, in any state.
func (m *MemoryInbox) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}
