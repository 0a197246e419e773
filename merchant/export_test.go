package merchant

// Limit makes m small.
func (m *MemoryInbox) Limit(entries, blocks int) { m.maxEntries, m.maxBlocks = entries, blocks }
