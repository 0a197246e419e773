package journal

import (
	"crypto/sha256"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// edge is the right edge of a tree: the hashes of its complete subtrees, the largest first. Appending needs no more of
// a tree.
type edge struct {
	size   int64
	hashes []tlog.Hash
}

// append adds a record by its hash. It returns the hashes that the record completes: its own, then those of the
// subtrees that end with it, the smallest first.
func (e *edge) append(h tlog.Hash) []tlog.Hash {
	done := []tlog.Hash{h}
	for n := e.size; n&1 == 1; n >>= 1 {
		last := len(e.hashes) - 1
		h = tlog.NodeHash(e.hashes[last], h)
		e.hashes = e.hashes[:last]
		done = append(done, h)
	}
	e.hashes = append(e.hashes, h)
	e.size++
	return done
}

// root returns the hash of the whole tree.
func (e *edge) root() tlog.Hash {
	n := len(e.hashes)
	if n == 0 {
		return sha256.Sum256(nil)
	}
	h := e.hashes[n-1]
	for i := n - 2; i >= 0; i-- {
		h = tlog.NodeHash(e.hashes[i], h)
	}
	return h
}

// edgeOf returns the edge of a tree of that size with these hashes, as join writes them. ok is false if their number is
// wrong.
func edgeOf(size int64, joined []byte) (e edge, ok bool) {
	hashes, whole := split(joined)
	return edge{size, hashes}, whole && size >= 0 && len(hashes) == bits.OnesCount64(uint64(size))
}

// subtrees returns the complete subtrees at the edge of a tree, the largest first, by tlog.StoredHashIndex.
func subtrees(size int64) (indexes []int64) {
	for level := 62; level >= 0; level-- {
		if size>>level&1 == 1 {
			indexes = append(indexes, tlog.StoredHashIndex(level, size>>level-1))
		}
	}
	return indexes
}

// join writes hashes one after the other.
func join(hashes []tlog.Hash) []byte {
	b := make([]byte, 0, len(hashes)*tlog.HashSize)
	for _, h := range hashes {
		b = append(b, h[:]...)
	}
	return b
}

// split inverts join. ok is false if b does not hold whole hashes.
func split(b []byte) (hashes []tlog.Hash, ok bool) {
	for ; len(b) >= tlog.HashSize; b = b[tlog.HashSize:] {
		hashes = append(hashes, tlog.Hash(b[:tlog.HashSize]))
	}
	return hashes, len(b) == 0
}
