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

// Remember implements merchant.Rememberer.
func (in *Inbox) Remember(ctx context.Context, e merchant.Entry) error {
	return wrapped(in.transact(ctx, func(t *transaction) error { return t.rememberOnly(ctx, &e) }))
}

// rememberOnly keeps the blocks of a request of which nothing else is recorded. It keeps
// none of a suspect request, which would no longer be suspect when it comes again.
func (t *transaction) rememberOnly(ctx context.Context, e *merchant.Entry) error {
	var key []byte
	if e.Callback != nil {
		key = entryKey(e.Callback.CallbackType(), e.ID, e.Order)
	}
	if err := t.lock(ctx, locks(key, e)...); err != nil {
		return err
	}
	var r *row
	if key != nil {
		var err error
		if r, err = t.read(ctx, key); err != nil {
			return err
		}
	}
	seen, err := t.seenBlocks(ctx, e.Blocks)
	if err != nil || e.Judge(seen, r != nil, r != nil && r.settled) != merchant.FindingNone {
		return err
	}
	return t.remember(ctx, e, seen)
}
