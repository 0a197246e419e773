package store

import (
	"context"

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
// for.
type inboxBatchTx struct {
	m       *MerchantEnd
	t       *tx
	calls   []*inboxCall
	results []InboxResult

	last    int64 // number given last
	rows    map[inboxKey]*inboxRow
	updates []statement
	ledger  ledger
}

func (b *inboxBatchTx) run(ctx context.Context) error {
	b.rows = map[inboxKey]*inboxRow{}
	b.ledger = ledger{m: b.m}
	if _, err := one(ctx, b.t, lockFeedSQL, []any{"inbox"}, &b.last); err != nil {
		return err
	}
	whole, err := b.firstBlocks(ctx)
	if err != nil {
		return err
	}
	if err := b.insert(ctx, whole); err != nil {
		return err
	}
	for i, c := range b.calls {
		e, key := &c.entry, inboxKey{c.entry.Callback.CallbackType(), c.entry.ID}
		if !whole[i] {
			b.results[i] = InboxResult{State: InboxSpliced}
			continue
		}
		row := b.rows[key]
		if b.results[i].State == InboxNone { // not inserted just now
			b.results[i] = row.claim(e)
			b.update(key, e, b.results[i], row)
		}
		if b.results[i].State == InboxTaken {
			if err := b.effect(ctx, e, row); err != nil {
				return err
			}
		}
	}
	if err := b.t.batch(ctx, append(b.updates, statement{sql: writeFeedSQL, args: []any{"inbox", b.last}})); err != nil {
		return err
	}
	return b.ledger.write(ctx, b.t)
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
	// A transfer that is known makes the new entry a possible duplicate, unless
	// both have an index and those differ (PROTOCOL.md, Deposit identity).
	insertInboxSQL = `
INSERT INTO inbox (seq, type, id, tenant_user_id, call_back_id, content, transfer, tx_index, duplicate, claims, lease_until, settled, created, ended)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8,
	(SELECT COUNT(*) FROM (SELECT 1 FROM inbox WHERE transfer = $7 AND (tx_index < 0 OR CAST($8 AS BIGINT) < 0 OR tx_index = CAST($8 AS BIGINT)) LIMIT 1) AS known),
	$9, $10, $11, $12, $13)
ON CONFLICT (type, id) DO NOTHING RETURNING duplicate`

	readInboxSQL = `
SELECT seq, content, duplicate, settled, claims, lease_until, code, message, address, chain_name, symbol, amount
FROM inbox WHERE type = $1 AND id = $2`
)

// insert records what is new, and reads what is not.
func (b *inboxBatchTx) insert(ctx context.Context, whole []bool) error {
	statements := make([]statement, 0, len(b.calls))
	for i, c := range b.calls {
		if !whole[i] {
			continue
		}
		b.last++
		statements = append(statements, b.insertOne(i, &c.entry, b.last))
	}
	if err := b.t.batch(ctx, statements); err != nil {
		return err
	}
	statements = statements[:0]
	asked := map[inboxKey]bool{}
	for i, c := range b.calls {
		key := inboxKey{c.entry.Callback.CallbackType(), c.entry.ID}
		if !whole[i] || b.rows[key] != nil || asked[key] {
			continue
		}
		asked[key] = true
		statements = append(statements, statement{sql: readInboxSQL, args: []any{int64(key.typ), key.id}, row: func(r rows) error {
			row, err := scanInboxRow(r)
			b.rows[key] = row
			return err
		}})
	}
	return b.t.batch(ctx, statements)
}

// insertOne records one entry as its claim leaves it, so that the usual case
// takes a single statement.
func (b *inboxBatchTx) insertOne(i int, e *InboxEntry, seq int64) statement {
	typ := e.Callback.CallbackType()
	row := &inboxRow{seq: seq, content: e.Content}
	result := row.claim(e)
	var settled, ended int64
	if row.settled {
		settled, ended = 1, int64(e.At)
	}
	var transfer any
	if e.Transfer != [32]byte{} {
		transfer = e.Transfer[:]
	}
	b.results[i] = InboxResult{}
	return statement{
		sql: insertInboxSQL,
		args: []any{seq, int64(typ), e.ID, e.Callback.User(), callBackID(e.Callback), e.Content[:], transfer, e.TxIndex,
			row.claims, int64(row.leaseUntil), settled, int64(e.At), ended},
		row: func(r rows) error { // called only where it was inserted
			var duplicate int64
			if err := r.Scan(&duplicate); err != nil {
				return err
			}
			row.duplicate, result.PossibleDuplicate = duplicate != 0, duplicate != 0
			b.rows[inboxKey{typ, e.ID}] = row
			b.results[i] = result
			return nil
		},
	}
}

func scanInboxRow(r rows) (*inboxRow, error) {
	var row inboxRow
	var content []byte
	var duplicate, settled int64
	var d [4]string
	err := r.Scan(&row.seq, &content, &duplicate, &settled, &row.claims, &row.leaseUntil, &row.outcome.Code, &row.outcome.Message,
		&d[0], &d[1], &d[2], &d[3])
	if err != nil {
		return nil, err
	}
	copy(row.content[:], content)
	row.duplicate, row.settled = duplicate != 0, settled != 0
	row.outcome.Details, err = keptDetails(d)
	return &row, err
}

const (
	takeInboxSQL = `UPDATE inbox SET settled = 1, ended = $3 WHERE type = $1 AND id = $2`

	leaseInboxSQL = `UPDATE inbox SET claims = $3, lease_until = $4 WHERE type = $1 AND id = $2`
)

// update writes what a claim changed in an entry that was there before.
func (b *inboxBatchTx) update(key inboxKey, e *InboxEntry, c InboxResult, row *inboxRow) {
	switch c.State {
	case InboxTaken:
		b.updates = append(b.updates, statement{sql: takeInboxSQL, args: []any{int64(key.typ), key.id, int64(e.At)}})
	case InboxClaimed:
		b.updates = append(b.updates, statement{sql: leaseInboxSQL, args: []any{int64(key.typ), key.id, row.claims, int64(row.leaseUntil)}})
	}
}

// callBackID is the order that cb is about, empty for none.
func callBackID(cb countersign.Callback) string {
	switch c := cb.(type) {
	case *countersign.WithdrawalRequest:
		return c.CallBackID
	case *countersign.WithdrawalDone:
		return c.CallBackID
	case *countersign.WithdrawalEnded:
		return c.CallBackID
	case *countersign.FundsShort:
		return c.CallBackID
	}
	return ""
}
