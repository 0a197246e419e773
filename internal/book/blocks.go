package book

import (
	"context"
	"encoding/hex"

	"countersign/internal/db"
	"countersign/merchant"
)

const (
	insertBlockSQL = `INSERT INTO blocks (block, body, owner, seen) VALUES ($1, $2, $3, $4)`

	readBlocksSQL = `
SELECT i.block, i.body, i.owner FROM {list}$1{as w} CROSS JOIN {inner}blocks i WHERE i.block = w.value{alone}`
)

// insertBlocks has the size five because a deposit has five blocks at 1024 bits.
var insertBlocks = db.NewInsert(insertBlockSQL, 40, 5, 2)

func (in *inboxTx) scanBlock(r db.Rows) error {
	var block string
	var body, owner []byte
	if err := r.Scan(&block, &body, &owner); err != nil {
		return err
	}
	var digest merchant.BlockDigest
	if _, err := hex.Decode(digest[:], []byte(block)); err != nil {
		return err
	}
	var seen merchant.SeenBlock
	copy(seen.Body[:], body)
	copy(seen.Owner[:], owner)
	in.blocks[digest] = seen
	return nil
}

// remember collects the blocks of e that are new.
func (in *inboxTx) remember(e *merchant.Entry) {
	for _, block := range e.Blocks.All() {
		if _, known := in.blocks[block.Digest]; known {
			continue
		}
		in.blocks[block.Digest] = merchant.SeenBlock{Body: e.Blocks.Body, Owner: block.Owner}
		var owner any
		if !block.Owner.IsZero() {
			owner = block.Owner[:]
		}
		in.seen = append(in.seen, hex.EncodeToString(block.Digest[:]), e.Blocks.Body[:], owner, int64(db.MillisOf(e.At)))
	}
}

// BlockRetention is the shortest time for which blocks are remembered, in milliseconds: 30 days (PROTOCOL.md, B5).
const BlockRetention db.Millis = 30 * 24 * 3_600_000

const pruneBlocksSQL = `DELETE FROM blocks WHERE block IN (SELECT block FROM blocks WHERE seen < $1 ORDER BY seen LIMIT $2)`

// PruneBlocks deletes at most limit blocks older than BlockRetention and returns their number. If it returns limit,
// there may be more.
func (b *Book) PruneBlocks(ctx context.Context, now db.Millis, limit int) (n int64, err error) {
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		// This is the lock of claims. Without it, a block could vanish during a claim.
		if _, err := db.LockFeed(ctx, t, inboxFeed); err != nil {
			return err
		}
		n, err = t.Exec(ctx, pruneBlocksSQL, int64(now-BlockRetention), limit)
		return err
	})
	return n, err
}
