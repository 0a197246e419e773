package sqlinbox

import (
	"context"
	"time"

	"countersign/merchant"
)

// seenBlocks returns those blocks of b that are remembered.
func (t *transaction) seenBlocks(ctx context.Context,
	b *merchant.Blocks) (map[merchant.BlockDigest]merchant.SeenBlock, error) {
	if b == nil || len(b.List) == 0 {
		return nil, nil
	}
	args := make([]any, len(b.List))
	for i := range b.List {
		args[i] = b.List[i].Digest[:]
	}
	seen := map[merchant.BlockDigest]merchant.SeenBlock{}
	err := t.each(ctx, `SELECT block, body, owner FROM countersign_blocks WHERE block IN (`+marks(len(args))+`)`, args,
		func(scan func(...any) error) error {
			var block, body, owner []byte
			err := scan(&block, &body, &owner)
			seen[digestOf(block)] = merchant.SeenBlock{Body: digestOf(body), Owner: digestOf(owner)}
			return err
		})
	return seen, err
}

func digestOf(b []byte) (d merchant.BlockDigest) {
	copy(d[:], b)
	return d
}

// remember keeps the blocks of e that are not seen yet.
func (t *transaction) remember(ctx context.Context, e *merchant.Entry,
	seen map[merchant.BlockDigest]merchant.SeenBlock) error {
	var args []any
	rows := ""
	fresh := map[merchant.BlockDigest]bool{}
	for _, block := range e.Blocks.All() {
		if _, known := seen[block.Digest]; known || fresh[block.Digest] {
			continue
		}
		fresh[block.Digest] = true
		if rows != "" {
			rows += ", "
		}
		rows += "(?, ?, ?, ?)"
		args = append(args, block.Digest[:], e.Blocks.Body[:], block.Owner[:], e.At.UnixMilli())
	}
	if rows == "" {
		return nil
	}
	_, err := t.exec(ctx, `INSERT INTO countersign_blocks (block, body, owner, seen) VALUES `+rows, args...)
	return err
}

// retention is how long blocks are remembered (PROTOCOL.md, B5 and B7).
const retention = 30 * 24 * time.Hour

// pruneBatch is how many rows a transaction of Prune deletes, so that no callback waits
// long for it.
const pruneBatch = 1000

// MySQL takes no LIMIT in a subquery of IN unless that reads from another subquery.
const pruneSQL = `
DELETE FROM countersign_blocks WHERE block IN (SELECT block FROM (
	SELECT block FROM countersign_blocks WHERE seen < ? ORDER BY seen LIMIT ?) AS old)`

// Prune deletes the blocks that were seen more than 30 days before now. Call it once a day if merchant.Config.Profile
// is not that of a service of this project; for such a service no blocks are kept. Entries are never deleted.
func (in *Inbox) Prune(ctx context.Context, now time.Time) error {
	for n := int64(pruneBatch); n == pruneBatch; {
		err := in.transact(ctx, func(t *transaction) (err error) {
			n, err = t.exec(ctx, pruneSQL, now.Add(-retention).UnixMilli(), pruneBatch)
			return err
		})
		if err != nil {
			return wrapped(err)
		}
	}
	return nil
}
