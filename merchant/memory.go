package merchant

import (
	"context"
	"slices"
	"sync"
	"time"
)

// The bounds of a MemoryInbox. Entries are never forgotten, so their number is
// bounded; of blocks the oldest is forgotten. A million blocks take some 150 MB and
// are those of 200,000 deposits at 1024 bits.
const (
	memoryEntries = 1_000_000
	memoryBlocks  = 1_000_000
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
	transfers map[Digest][]*memoryEntry // every entry with that Transfer or Payment
	blocks    map[BlockDigest]SeenBlock
	ring      []BlockDigest // blocks in the order they came, the oldest at next
	next      int

	maxEntries, maxBlocks int
}

type memoryEntry struct {
	seq        int64
	recorded   time.Time
	content    Digest
	transfer   Digest
	payment    Digest
	txIndex    int64
	seen       bool // txIndex is set
	duplicate  bool
	suspect    bool
	settled    bool
	reply      Reply
	claims     int64
	leaseUntil time.Time
}

// NewMemoryInbox returns an empty MemoryInbox. A restart forgets all that is in it.
func NewMemoryInbox() *MemoryInbox {
	return &MemoryInbox{
		entries: map[entryKey]*memoryEntry{}, transfers: map[Digest][]*memoryEntry{}, blocks: map[BlockDigest]SeenBlock{},
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
	key := entryKey{e.Callback.CallbackType(), e.ID, e.Order}
	row := m.entries[key]
	finding := e.Judge(m.blocks, row != nil, row != nil && row.settled)
	if finding == FindingSpliced {
		return Claimed{State: StateSpliced}, nil
	}
	replaced := false
	switch {
	case row == nil:
		if len(m.entries) >= m.maxEntries {
			return Claimed{}, ErrInboxFull
		}
		m.seq++
		row = &memoryEntry{seq: m.seq, recorded: e.At, suspect: finding == FindingSuspect}
		m.entries[key] = row
		m.setContent(row, e)
	case row.content != e.Content && !row.settled && !e.At.Before(row.leaseUntil):
		replaced = true
		m.setContent(row, e)
	}
	if e.Blocks != nil {
		m.remember(e.Blocks)
	}
	c := Claimed{Seq: row.seq, Recorded: row.recorded, Suspect: row.suspect, Replaced: replaced}
	switch {
	case row.content != e.Content:
		c.State = StateOtherContent
	case row.settled:
		c.State, c.Reply = StateSettled, row.reply
	case e.Lease == 0:
		m.setIndex(row, e)
		row.settled = true
		c.State = StateTaken
	case e.At.Before(row.leaseUntil):
		c.State = StateBusy
	default:
		m.setIndex(row, e)
		row.claims++
		row.leaseUntil = e.At.Add(e.Lease)
		c.State, c.Claim = StateClaimed, row.claims
	}
	c.PossibleDuplicate = row.duplicate
	return c, nil
}

// Remember implements Rememberer.
func (m *MemoryInbox) Remember(ctx context.Context, e Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Judge(m.blocks, false, false) == FindingNone {
		m.remember(e.Blocks)
	}
	return ctx.Err()
}

func (m *MemoryInbox) remember(b *Blocks) {
	for _, block := range b.List {
		if _, known := m.blocks[block.Digest]; known {
			continue
		}
		if len(m.ring) < m.maxBlocks {
			m.ring = append(m.ring, block.Digest)
		} else {
			delete(m.blocks, m.ring[m.next])
			m.ring[m.next] = block.Digest
			m.next = (m.next + 1) % len(m.ring)
		}
		m.blocks[block.Digest] = SeenBlock{b.Body, block.Owner}
	}
}

// setContent sets the content of row to that of e and compares it with all other entries.
func (m *MemoryInbox) setContent(row *memoryEntry, e Entry) {
	for _, digest := range []Digest{row.transfer, row.payment} {
		m.transfers[digest] = slices.DeleteFunc(m.transfers[digest], func(other *memoryEntry) bool { return other == row })
	}
	row.content, row.transfer, row.payment, row.seen, row.duplicate = e.Content, e.Transfer, e.Payment, false, false
	m.setIndex(row, e)
	if !e.Transfer.IsZero() {
		m.transfers[e.Transfer] = append(m.transfers[e.Transfer], row)
		m.transfers[e.Payment] = append(m.transfers[e.Payment], row)
	}
}

// setIndex sets the index of row to that of e. If that changes it, row is compared with all other entries of the
// transfer.
func (m *MemoryInbox) setIndex(row *memoryEntry, e Entry) {
	if row.seen && row.txIndex == e.TxIndex {
		return
	}
	row.seen, row.txIndex = true, e.TxIndex
	for _, other := range m.transfers[e.Transfer] {
		if other != row && MayBeSame(other.txIndex, e.TxIndex) {
			row.duplicate = true
		}
	}
	for _, other := range m.transfers[e.Payment] {
		row.duplicate = row.duplicate || other != row
	}
}

// Settle implements Inbox.
func (m *MemoryInbox) Settle(ctx context.Context, s Settlement) (Reply, error) {
	if err := ctx.Err(); err != nil {
		return Reply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.entries[entryKey{s.Type, s.ID, s.Order}]
	switch {
	case row == nil:
		return Reply{}, ErrNotClaimed
	case row.settled && !s.Revokes(row.reply):
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
	row := m.entries[entryKey{r.Type, r.ID, r.Order}]
	if row == nil || row.settled || row.claims != r.Claim {
		return ErrNotClaimed
	}
	row.leaseUntil = r.At.Add(r.Lease)
	return nil
}
