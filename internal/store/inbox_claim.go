package store

import (
	"context"
	"encoding/hex"
	"slices"

	"countersign"
)

// inboxRow is an entry as the rules of a claim see it.
type inboxRow struct {
	seq        int64
	content    [32]byte
	duplicate  bool
	settled    bool
	outcome    InboxOutcome
	claims     int64
	leaseUntil Millis
}

// claim applies rules 3 to 7 of merchant.Inbox to a row. It reads nothing.
func (r *inboxRow) claim(e *InboxEntry) InboxResult {
	c := InboxResult{Seq: r.seq, PossibleDuplicate: r.duplicate}
	switch {
	case r.content != e.Content:
		c.State = InboxOtherContent
	case r.settled:
		c.State, c.Outcome = InboxSettled, r.outcome
	case e.Lease == 0:
		r.settled = true
		c.State = InboxTaken
	case e.At < r.leaseUntil:
		c.State = InboxBusy
	default:
		r.claims++
		r.leaseUntil = e.leaseEnd()
		c.State, c.Claim = InboxClaimed, r.claims
	}
	return c
}

// leaseEnd rounds up: a lease is not shorter than asked for.
func (e *InboxEntry) leaseEnd() Millis {
	ms := e.Lease.Milliseconds()
	if e.Lease%1e6 != 0 {
		ms++
	}
	return e.At + Millis(ms)
}

type inboxKey struct {
	typ countersign.Type
	id  string
}

// inboxBatchTx is one transaction of claims. It takes the inbox's number first
// and holds it to its end, so of all processes one at a time is in here: that
// is the lock on identifiers, transfers and first blocks which the rules ask
// for. So it can read all that its claims rest on, decide, and write the outcome
// with few statements.
type inboxBatchTx struct {
	m       *MerchantEnd
	t       *tx
	calls   []*inboxCall  // from run on: those whose callers still wait
	results []InboxResult // by call

	last      int64 // number given last
	rows      map[inboxKey]*inboxRow
	transfers map[string][]int64 // the tx_index of every entry with that transfer
	fresh     [][]any            // rows to be inserted
	updates   []statement
	leased    []*int64 // by call: nil, or how many rows its lease changed
	ledger    ledger
}

func (b *inboxBatchTx) run(ctx context.Context) error {
	if _, err := one(ctx, b.t, lockFeedSQL, []any{"inbox"}, &b.last); err != nil {
		return err
	}
	// The lock may have been long in coming, and whose caller has given up by now
	// takes no lease.
	b.calls = slices.DeleteFunc(slices.Clone(b.calls), (*inboxCall).gone)
	b.results, b.leased = make([]InboxResult, len(b.calls)), make([]*int64, len(b.calls))
	b.rows, b.transfers, b.ledger = map[inboxKey]*inboxRow{}, map[string][]int64{}, ledger{m: b.m}
	whole, err := b.firstBlocks(ctx)
	if err != nil {
		return err
	}
	if err := b.read(ctx, whole); err != nil {
		return err
	}
	for i, c := range b.calls {
		e := &c.entry
		if !whole[i] {
			b.results[i] = InboxResult{State: InboxSpliced}
			continue
		}
		row := b.claim(i, e)
		if b.results[i].State == InboxTaken {
			if err := b.effect(ctx, e, row); err != nil {
				return err
			}
		}
	}
	statements := insertRows(nil, insertInboxSQL, b.fresh)
	statements = append(statements, b.updates...)
	if err := b.t.batch(ctx, append(statements, statement{sql: writeFeedSQL, args: []any{"inbox", b.last}})); err != nil {
		return err
	}
	for i, n := range b.leased {
		if n != nil && *n == 0 {
			// It was settled meanwhile: who holds a lease settles without this
			// transaction's lock, and may do so after the lease has ended. The
			// caller asks again and finds what stands.
			b.results[i] = InboxResult{State: InboxBusy, Seq: b.results[i].Seq, PossibleDuplicate: b.results[i].PossibleDuplicate}
		}
	}
	return b.ledger.write(ctx, b.t)
}

// claim decides one claim and notes what it changes.
func (b *inboxBatchTx) claim(i int, e *InboxEntry) *inboxRow {
	key := inboxKey{e.Callback.CallbackType(), e.ID}
	row := b.rows[key]
	if row != nil {
		b.results[i] = row.claim(e)
		b.update(i, key, e, row)
		return row
	}
	b.last++
	row = &inboxRow{seq: b.last, content: e.Content, duplicate: b.addTransfer(e)}
	b.rows[key] = row
	b.results[i] = row.claim(e)
	duplicate, settled, ended := 0, 0, int64(0)
	if row.duplicate {
		duplicate = 1
	}
	if row.settled {
		settled, ended = 1, int64(e.At)
	}
	var transfer any
	if t := e.transfer(); t != "" {
		transfer = t
	}
	b.fresh = append(b.fresh, []any{row.seq, int64(key.typ), key.id, e.Callback.User(), e.Callback.OrderID(), e.Content[:], transfer,
		e.TxIndex, duplicate, row.claims, int64(row.leaseUntil), settled, int64(e.At), ended})
	return row
}

// addTransfer notes the transfer of a new entry and reports whether it may be
// one that is known: it may unless both have an index and those differ
// (PROTOCOL.md, Deposit identity).
func (b *inboxBatchTx) addTransfer(e *InboxEntry) (duplicate bool) {
	t := e.transfer()
	if t == "" {
		return false
	}
	for _, index := range b.transfers[t] {
		if index < 0 || e.TxIndex < 0 || index == e.TxIndex {
			duplicate = true
		}
	}
	b.transfers[t] = append(b.transfers[t], e.TxIndex)
	return duplicate
}

// transfer is how Transfer is kept, empty for none. Half of the digest tells
// transfers apart, and keeps the index small.
func (e *InboxEntry) transfer() string {
	if e.Transfer == [32]byte{} {
		return ""
	}
	return hex.EncodeToString(e.Transfer[:16])
}

const (
	insertBlockSQL = `INSERT INTO first_blocks (first, whole, seen) VALUES ($1, $2, $3) ON CONFLICT (first) DO NOTHING`

	readBlockSQL = `SELECT whole FROM first_blocks WHERE first = $1`
)

// firstBlocks remembers the first blocks of the batch and says which entries
// are whole: not known with another rest (PROTOCOL.md, Binding).
func (b *inboxBatchTx) firstBlocks(ctx context.Context) (whole []bool, err error) {
	whole = make([]bool, len(b.calls))
	inserted := make([]int64, len(b.calls))
	var statements []statement
	for i, c := range b.calls {
		e := &c.entry
		if whole[i] = e.First == [32]byte{}; !whole[i] {
			statements = append(statements, statement{sql: insertBlockSQL, args: []any{e.First[:], e.Whole[:], int64(e.At)}, n: &inserted[i]})
		}
	}
	if err := b.t.batch(ctx, statements); err != nil {
		return nil, err
	}
	statements = statements[:0]
	for i, c := range b.calls {
		switch {
		case whole[i]:
		case inserted[i] == 1:
			whole[i] = true
		default:
			statements = append(statements, statement{sql: readBlockSQL, args: []any{c.entry.First[:]}, row: func(r rows) error {
				var known []byte
				err := r.Scan(&known)
				whole[i] = string(known) == string(c.entry.Whole[:])
				return err
			}})
		}
	}
	return whole, b.t.batch(ctx, statements)
}

const (
	insertInboxSQL = `
INSERT INTO inbox (seq, type, id, tenant_user_id, call_back_id, content, transfer, tx_index, duplicate, claims, lease_until, settled, created, ended)
VALUES `

	readInboxSQL = `
SELECT i.id, i.seq, i.content, i.duplicate, i.settled, i.claims, i.lease_until, i.code, i.message, i.address, i.chain_name, i.symbol, i.amount
FROM {list}$1{as w} CROSS JOIN {inner}inbox i WHERE i.type = $2 AND i.id = w.value{alone}`

	readTransfersSQL = `
SELECT DISTINCT i.transfer, i.tx_index
FROM {list}$1{as w} CROSS JOIN {inner}inbox i WHERE i.transfer IS NOT NULL AND i.transfer = w.value{alone}`
)

// read gets the entries that are there already, and the transfers.
func (b *inboxBatchTx) read(ctx context.Context, whole []bool) error {
	ids := map[countersign.Type][]string{}
	var transfers []string
	for i, c := range b.calls {
		if !whole[i] {
			continue
		}
		typ := c.entry.Callback.CallbackType()
		ids[typ] = append(ids[typ], c.entry.ID)
		if t := c.entry.transfer(); t != "" {
			transfers = append(transfers, t)
		}
	}
	d := b.m.s.dialect
	var statements []statement
	for typ, list := range ids {
		statements = append(statements, statement{sql: readInboxSQL, args: []any{d.list(list), int64(typ)}, row: func(r rows) error {
			id, row, err := scanInboxRow(r)
			b.rows[inboxKey{typ, id}] = row
			return err
		}})
	}
	if len(transfers) > 0 {
		statements = append(statements, statement{sql: readTransfersSQL, args: []any{d.list(transfers)}, row: func(r rows) error {
			var transfer string
			var index int64
			err := r.Scan(&transfer, &index)
			b.transfers[transfer] = append(b.transfers[transfer], index)
			return err
		}})
	}
	return b.t.batch(ctx, statements)
}

func scanInboxRow(r rows) (id string, _ *inboxRow, err error) {
	var row inboxRow
	var content []byte
	var duplicate, settled int64
	var d [4]string
	err = r.Scan(&id, &row.seq, &content, &duplicate, &settled, &row.claims, &row.leaseUntil, &row.outcome.Code, &row.outcome.Message,
		&d[0], &d[1], &d[2], &d[3])
	if err != nil {
		return id, nil, err
	}
	copy(row.content[:], content)
	row.duplicate, row.settled = duplicate != 0, settled != 0
	row.outcome.Details, err = keptDetails(d)
	return id, &row, err
}

const (
	takeInboxSQL = `UPDATE inbox SET settled = 1, ended = $3 WHERE type = $1 AND id = $2`

	leaseInboxSQL = `UPDATE inbox SET claims = $3, lease_until = $4 WHERE type = $1 AND id = $2 AND settled = 0`
)

// update notes what call i changed in an entry that was there before.
func (b *inboxBatchTx) update(i int, key inboxKey, e *InboxEntry, row *inboxRow) {
	switch b.results[i].State {
	case InboxTaken:
		b.updates = append(b.updates, statement{sql: takeInboxSQL, args: []any{int64(key.typ), key.id, int64(e.At)}})
	case InboxClaimed:
		b.leased[i] = new(int64)
		b.updates = append(b.updates, statement{sql: leaseInboxSQL, args: []any{int64(key.typ), key.id, row.claims, int64(row.leaseUntil)}, n: b.leased[i]})
	}
}
