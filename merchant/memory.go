package merchant

import (
	"context"
	"sync"
	"time"

	"countersign"
)

// The bounds of a MemoryInbox. Entries are never forgotten, so their number is
// bounded; of first blocks the oldest is forgotten.
const (
	memoryEntries = 1_000_000
	memoryBlocks  = 100_000
)

// MemoryInbox is an Inbox in the memory of one process, only for tests and for
// trying out. A restart forgets everything: a deposit that is sent again is
// credited again, possible duplicates of it are not suspected, and a withdrawal
// may be answered differently. It holds 1,000,000 entries and then fails with
// ErrInboxFull.
type MemoryInbox struct {
	mu        sync.Mutex
	seq       int64
	entries   map[entryKey]*memoryEntry
	transfers map[Digest][]int64 // the TxIndex of every entry with that Transfer
	blocks    map[Digest]Digest
	ring      []Digest // first blocks in the order they came, the oldest at next
	next      int

	maxEntries, maxBlocks int
}

type entryKey struct {
	typ countersign.Type
	id  string
}

type memoryEntry struct {
	seq        int64
	content    Digest
	duplicate  bool
	settled    bool
	reply      Reply
	claims     int64
	leaseUntil time.Time
}

// NewMemoryInbox makes an empty one. See MemoryInbox for what a restart forgets.
func NewMemoryInbox() *MemoryInbox {
	return &MemoryInbox{
		entries: map[entryKey]*memoryEntry{}, transfers: map[Digest][]int64{}, blocks: map[Digest]Digest{},
		maxEntries: memoryEntries, maxBlocks: memoryBlocks,
	}
}

// Claim implements Inbox.
func (m *MemoryInbox) Claim(ctx context.Context, e Entry) (Claimed, error) {
	if err := ctx.Err(); err != nil {
		return Claimed{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Blocks != nil && !m.sameRest(*e.Blocks) {
		return Claimed{State: StateSpliced}, nil
	}
	key := entryKey{e.Callback.CallbackType(), e.ID}
	row := m.entries[key]
	if row == nil {
		if len(m.entries) >= m.maxEntries {
			return Claimed{}, ErrInboxFull
		}
		m.seq++
		row = &memoryEntry{seq: m.seq, content: e.Content, duplicate: m.addTransfer(e)}
		m.entries[key] = row
	}
	c := Claimed{Seq: row.seq, PossibleDuplicate: row.duplicate}
	switch {
	case row.content != e.Content:
		c.State = StateOtherContent
	case row.settled:
		c.State, c.Reply = StateSettled, row.reply
	case e.Lease == 0:
		row.settled = true
		c.State = StateTaken
	case e.At.Before(row.leaseUntil):
		c.State = StateBusy
	default:
		row.claims++
		row.leaseUntil = e.At.Add(e.Lease)
		c.State, c.Claim = StateClaimed, row.claims
	}
	return c, nil
}

// sameRest remembers b and reports whether its first block was seen with no other
// rest.
func (m *MemoryInbox) sameRest(b Blocks) bool {
	if whole, known := m.blocks[b.First]; known {
		return whole == b.Whole
	}
	if len(m.ring) < m.maxBlocks {
		m.ring = append(m.ring, b.First)
	} else {
		delete(m.blocks, m.ring[m.next])
		m.ring[m.next] = b.First
		m.next = (m.next + 1) % len(m.ring)
	}
	m.blocks[b.First] = b.Whole
	return true
}

// addTransfer remembers the transfer of e and reports whether it may be a known
// one.
func (m *MemoryInbox) addTransfer(e Entry) (duplicate bool) {
	if e.Transfer.IsZero() {
		return false
	}
	for _, index := range m.transfers[e.Transfer] {
		if index < 0 || e.TxIndex < 0 || index == e.TxIndex {
			duplicate = true
		}
	}
	m.transfers[e.Transfer] = append(m.transfers[e.Transfer], e.TxIndex)
	return duplicate
}

// Settle implements Inbox.
func (m *MemoryInbox) Settle(ctx context.Context, s Settlement) (Reply, error) {
	if err := ctx.Err(); err != nil {
		return Reply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.entries[entryKey{s.Type, s.ID}]
	switch {
	case row == nil:
		return Reply{}, ErrNotClaimed
	case row.settled:
		return row.reply, nil
	case s.Final:
		row.settled, row.reply, row.leaseUntil = true, s.Reply, time.Time{}
	case row.claims == s.Claim:
		row.leaseUntil = time.Time{}
	}
	return s.Reply, nil
}

// Renew implements Renewer.
func (m *MemoryInbox) Renew(ctx context.Context, r Renewal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.entries[entryKey{r.Type, r.ID}]
	if row == nil || row.settled || row.claims != r.Claim {
		return ErrNotClaimed
	}
	row.leaseUntil = r.At.Add(r.Lease)
	return nil
}

// Len is how many callbacks are recorded, in any state.
func (m *MemoryInbox) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}
