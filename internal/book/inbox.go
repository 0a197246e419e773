package book

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/merchant"
)

// inboxBatch is the most claims of one transaction. With more, the first would wait for the last.
const inboxBatch = 128

// Claim implements merchant.Inbox. If e.Lease is 0, the entry takes effect in the same transaction: a deposit is
// appended to its feed, and a notice changes its order or appends an event. In the gateway, only type 2 takes a
// lease.
//
// Claims that arrive while another transaction commits share the next transaction. In separate transactions they
// would wait for each other's commits, because entries are numbered one after another.
func (b *Book) Claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	if e.Callback == nil {
		return merchant.Claimed{}, fmt.Errorf("inbox: callback is %w: it is missing", db.ErrInvalid)
	}
	r, err := b.claim(ctx, e)
	if err != nil {
		return merchant.Claimed{}, fmt.Errorf("inbox: %w", err)
	}
	return r, nil
}

// Remember implements merchant.Rememberer. It shares the transactions of claims.
func (b *Book) Remember(ctx context.Context, e merchant.Entry) error {
	_, err := b.claim(ctx, merchant.Entry{Blocks: e.Blocks, At: e.At})
	return err
}

func (b *Book) claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	if err := ctx.Err(); err != nil {
		return merchant.Claimed{}, err
	}
	if err := db.CheckText("id", e.ID); err != nil {
		return merchant.Claimed{}, err
	}
	if b.lease > 0 {
		e.Lease = min(e.Lease, b.lease)
	}
	c := &inboxCall{ctx: ctx, entry: e, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	if !b.working {
		b.working = true
		go b.work()
	}
	b.mu.Unlock()
	select {
	case <-c.done:
		return c.result, c.err
	case <-ctx.Done():
		return merchant.Claimed{}, ctx.Err()
	}
}

// work runs claims until none is waiting.
func (b *Book) work() {
	for {
		b.gather()
		batch := b.nextBatch()
		if batch == nil {
			return
		}
		err := b.claimBatch(batch)
		if err != nil && len(batch) > 1 && !errors.Is(err, db.ErrUnavailable) {
			// One call may be at fault, so each runs alone.
			for i := range batch {
				b.claimBatch(batch[i : i+1])
			}
		}
		for _, c := range batch {
			close(c.done)
		}
	}
}

// gather yields to handlers that are about to claim, so that they share a commit. Without it, a gateway on one core
// commits nearly every deposit alone: 1,660 deposits/s instead of 4,700 (SQLite, 64 callers; on two cores 7,200
// instead of 8,900).
func (b *Book) gather() {
	for n, more := 0, true; more; {
		runtime.Gosched()
		b.mu.Lock()
		more, n = len(b.waiting) > n && len(b.waiting) < inboxBatch, len(b.waiting)
		b.mu.Unlock()
	}
}

// nextBatch returns the next waiting calls, without those whose callers have given up. While the database is
// unavailable there are many of these. They would delay new calls, and lease withdrawals that no caller works on.
// nextBatch returns nil if no work is left.
func (b *Book) nextBatch() []*inboxCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, (*inboxCall).gone)
	n := min(len(b.waiting), inboxBatch)
	if n == 0 {
		b.working = false
		return nil
	}
	batch := b.waiting[:n:n]
	b.waiting = append([]*inboxCall(nil), b.waiting[n:]...)
	return batch
}

// claimBatch runs one transaction for a batch. It takes no longer than a caller waits, so that a dead connection does
// not delay the next batch.
func (b *Book) claimBatch(batch []*inboxCall) error {
	ctx, cancel := context.WithTimeout(context.Background(), merchant.DefaultTimeout)
	defer cancel()
	var in inboxTx
	err := b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		in = inboxTx{b: b, t: t, calls: batch}
		return in.run(ctx)
	})
	for _, c := range batch {
		c.err = cmp.Or(err, c.ctx.Err())
	}
	if err == nil {
		for i, c := range in.calls {
			c.result, c.err = in.results[i], nil
		}
	}
	return err
}

func (in *inboxTx) run(ctx context.Context) error {
	last, err := db.LockFeed(ctx, in.t, inboxFeed)
	if err != nil {
		return err
	}
	in.last = last
	// The wait for the lock may have been long. A claim whose caller has given up must not take a lease.
	in.calls = slices.DeleteFunc(slices.Clone(in.calls), (*inboxCall).gone)
	in.results, in.leased = make([]merchant.Claimed, len(in.calls)), make([]*int64, len(in.calls))
	in.rows, in.transfers, in.ledger = map[inboxKey]*inboxRow{}, map[string][]sameIndex{}, ledger{}
	in.blocks = map[merchant.BlockDigest]merchant.SeenBlock{}
	in.epochs, in.booked = nil, bookedBefore{}
	if err := in.read(ctx); err != nil {
		return err
	}
	in.restored = in.epochs.Last().Open()
	for i, c := range in.calls {
		e := &c.entry
		if e.Callback == nil {
			if e.Judge(in.blocks, false, false) == merchant.FindingNone {
				in.remember(e)
			}
			continue
		}
		row := in.rows[keyOfEntry(e)]
		finding := e.Judge(in.blocks, row != nil, row != nil && row.settled)
		if finding == merchant.FindingSpliced {
			in.results[i] = merchant.Claimed{State: merchant.StateSpliced}
			continue
		}
		row = in.claim(i, e, finding == merchant.FindingSuspect)
		in.remember(e)
		switch in.results[i].State {
		case merchant.StateTaken:
			if err := in.effect(ctx, e, row); err != nil {
				return err
			}
		case merchant.StateOtherContent: // refused, but if money left again, it counts
			if c, is := e.Callback.(*countersign.WithdrawalDone); is {
				if err := in.takeExecution(ctx, e, c); err != nil {
					return err
				}
			}
		}
		if r := &in.results[i]; r.State == merchant.StateSettled && confirms(e.Callback.CallbackType(), r.Reply) {
			if err := in.judgeAgain(ctx, e, row, r); err != nil {
				return err
			}
		}
	}
	statements := append(insertInbox.Statements(in.fresh, nil), in.updates...)
	statements = append(statements, insertBlocks.Statements(in.seen, nil)...)
	if in.last != last { // repetitions write nothing
		statements = append(statements, db.EndFeed(inboxFeed, in.last))
	}
	if err := in.t.Batch(ctx, statements); err != nil {
		return err
	}
	for i, n := range in.leased {
		if n != nil && *n == 0 {
			// The entry was settled meanwhile. Settling does not take this transaction's lock and may happen after
			// the lease has ended. The caller asks again and gets the settled state.
			in.results[i] = merchant.Claimed{State: merchant.StateBusy, Seq: in.results[i].Seq,
				PossibleDuplicate: in.results[i].PossibleDuplicate}
		}
	}
	if err := journal.AddCount(ctx, in.t, journal.CallbacksTaken, in.addedAt, in.added); err != nil {
		return err
	}
	return in.ledger.write(ctx, in.t)
}

const (
	insertInboxSQL = `
INSERT INTO inbox (seq, type, id, tenant_user_id, call_back_id, content, transfer, payment, tx_index, duplicate, suspect, claims, lease_until, settled,
	created, ended)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`

	readInboxSQL = `
SELECT i.id, i.call_back_id, i.seq, i.content, i.tx_index, i.duplicate, i.suspect, i.settled, i.claims, i.lease_until, i.reply, i.created
FROM {list}$1{as w} CROSS JOIN {inner}inbox i WHERE i.type = $2 AND i.id = w.value{alone}`

	readTransfersSQL = `
SELECT i.transfer, i.tx_index, MIN(i.seq), MAX(i.seq)
FROM {list}$1{as w} CROSS JOIN {inner}inbox i WHERE i.transfer IS NOT NULL AND i.transfer = w.value{alone}
GROUP BY i.transfer, i.tx_index`

	readPaymentsSQL = `
SELECT i.payment, -1, MIN(i.seq), MAX(i.seq)
FROM {list}$1{as w} CROSS JOIN {inner}inbox i WHERE i.payment IS NOT NULL AND i.payment = w.value{alone}
GROUP BY i.payment`
)

var insertInbox = db.NewInsert(insertInboxSQL, insertSizes...)

// read reads the known entries, blocks and transfers.
func (in *inboxTx) read(ctx context.Context) error {
	ids := map[countersign.Type][]string{}
	var transfers, payments, blocks []string
	for _, c := range in.calls {
		if c.entry.Callback != nil {
			typ := c.entry.Callback.CallbackType()
			ids[typ] = append(ids[typ], c.entry.ID)
		}
		if t := keyOf(c.entry.Transfer); t != "" {
			transfers, payments = append(transfers, t), append(payments, keyOf(c.entry.Payment))
		}
		for _, block := range c.entry.Blocks.All() {
			blocks = append(blocks, hex.EncodeToString(block.Digest[:]))
		}
	}
	d := in.b.Dialect()
	var statements []db.Statement
	for typ, list := range ids {
		statements = append(statements, db.Statement{SQL: readInboxSQL, Args: []any{d.List(list), int64(typ)},
			Row: func(r db.Rows) error {
				key, row, err := scanInboxRow(r, typ)
				in.rows[key] = row
				return err
			}})
	}
	if len(transfers) > 0 {
		scan := func(r db.Rows) error {
			var key string
			var of sameIndex
			err := r.Scan(&key, &of.index, &of.first, &of.last)
			in.transfers[key] = append(in.transfers[key], of)
			return err
		}
		statements = append(statements, db.Statement{SQL: readTransfersSQL, Args: []any{d.List(transfers)}, Row: scan},
			db.Statement{SQL: readPaymentsSQL, Args: []any{d.List(payments)}, Row: scan})
	}
	if len(blocks) > 0 {
		statements = append(statements, db.Statement{SQL: readBlocksSQL, Args: []any{d.List(blocks)}, Row: in.scanBlock})
	}
	return in.t.Batch(ctx, append(statements, in.readRestored(ids, transfers, payments)...))
}

func scanInboxRow(r db.Rows, typ countersign.Type) (key inboxKey, _ *inboxRow, err error) {
	key.typ = typ
	var row inboxRow
	var content []byte
	err = r.Scan(&key.id, &key.order, &row.seq, &content, &row.txIndex, db.Bool(&row.duplicate), db.Bool(&row.suspect),
		db.Bool(&row.settled), &row.claims, &row.leaseUntil, db.JSON(&row.reply), &row.created)
	if typ == countersign.TypeRequestWithdraw {
		key.order = "" // its id is the callBackId
	}
	copy(row.content[:], content)
	return key, &row, err
}

const inboxColumns = `seq, type, id, tenant_user_id, call_back_id, duplicate, suspect, settled, created, ended, reply`

// Entries returns a page of the inbox; see list.
func (b *Book) Entries(ctx context.Context, f client.InboxFilter, limit int,
	before int64) ([]client.InboxEntry, int64, error) {
	number := func(e client.InboxEntry) int64 { return e.Seq }
	return list(ctx, b, "inbox", inboxColumns, inboxMembers(f), limit, before, number,
		func(r db.Rows) (e client.InboxEntry, err error) {
			var reply merchant.Reply
			err = r.Scan(&e.Seq, &e.Type, &e.ID, &e.TenantUserID, &e.CallBackID, db.Bool(&e.PossibleDuplicate),
				db.Bool(&e.Suspect), db.Bool(&e.Settled), &e.Created, &e.Ended, db.JSON(&reply))
			if e.Settled {
				code := int64(reply.Code)
				e.ErrCode, e.Message = &code, reply.Message
			}
			return e, err
		})
}

func inboxMembers(f client.InboxFilter) []member {
	typ := member{is: f.Type != countersign.TypeUnknown, filter: "type + 0 = ?", value: int64(f.Type)}
	if f.Type > countersign.TypeDeposited {
		typ.walk = fmt.Sprintf("type <> 1 AND type = %d", f.Type) // a literal: PostgreSQL sees whether it is rare
	}
	return []member{text("id", f.ID), text("call_back_id", f.CallBackID).where("call_back_id <> ''"),
		{is: f.Settled != "", walk: "settled = 0", filter: "settled + 0 = 0"}, typ}
}
