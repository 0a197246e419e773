package book

import (
	"context"
	"encoding/hex"
	"math"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/merchant"
)

// inboxRow is what the rules of a claim need to know of an entry.
type inboxRow struct {
	seq        int64
	content    merchant.Digest
	txIndex    int64
	duplicate  bool
	suspect    bool
	settled    bool
	reply      merchant.Reply
	claims     int64
	leaseUntil db.Millis
	created    db.Millis
}

// claim applies rules 3 to 7 of merchant.Inbox to a row and reads nothing. compare looks for entries of the same
// transfer under the index of e. Other content replaces the row's content if that was never accepted and nobody works
// on it (PROTOCOL.md, I1).
func (r *inboxRow) claim(e *merchant.Entry, compare func(*merchant.Entry, *inboxRow)) merchant.Claimed {
	c := merchant.Claimed{Seq: r.seq, Suspect: r.suspect, Recorded: r.created.Time()}
	leased := db.MillisOf(e.At) < r.leaseUntil
	if c.Replaced = r.content != e.Content && !r.settled && !leased; c.Replaced {
		r.content, r.txIndex, r.duplicate = e.Content, noIndex, false // to be compared again
	}
	switch {
	case r.content != e.Content:
		c.State = merchant.StateOtherContent
	case r.settled:
		c.State, c.Reply = merchant.StateSettled, r.reply
	case e.Lease == 0:
		compare(e, r)
		r.settled = true
		c.State = merchant.StateTaken
	case leased:
		c.State = merchant.StateBusy
	default:
		compare(e, r)
		r.claims++
		r.leaseUntil = leaseEnd(e)
		c.State, c.Claim = merchant.StateClaimed, r.claims
	}
	c.PossibleDuplicate = r.duplicate
	return c
}

// leaseEnd returns the end of e's lease. It is rounded up, so that the lease is never shorter than requested.
func leaseEnd(e *merchant.Entry) db.Millis {
	ms := e.Lease.Milliseconds()
	if e.Lease%1e6 != 0 {
		ms++
	}
	return db.MillisOf(e.At) + db.Millis(ms)
}

type inboxKey struct {
	typ       countersign.Type
	id, order string // order is the callBackId of a report
}

func keyOfEntry(e *merchant.Entry) inboxKey {
	return inboxKey{e.Callback.CallbackType(), e.ID, e.Order}
}

// inboxTx is one transaction of claims. It takes the inbox's number first and holds that lock to its end, so only one
// process at a time runs such a transaction. The lock serves as the lock on identifiers, transfers and blocks that
// the rules of merchant.Inbox require. The transaction can therefore read all that its claims need, decide, and write
// with few statements.
type inboxTx struct {
	b       *Book
	t       *db.Tx
	calls   []*inboxCall       // once run has begun: those whose callers still wait
	results []merchant.Claimed // by call

	last      int64 // the last assigned number
	rows      map[inboxKey]*inboxRow
	blocks    map[merchant.BlockDigest]merchant.SeenBlock
	transfers map[string][]sameIndex // all entries with that transfer or payment
	fresh     []any                  // parameters of the rows to insert
	seen      []any                  // parameters of the blocks to insert
	updates   []db.Statement
	leased    []*int64 // by call: nil, or how many rows its lease changed
	ledger    ledger
	added     int       // fresh rows
	addedAt   db.Millis // of the last of them

	epochs   db.Epochs
	restored bool         // the book was restored and is not reconciled
	booked   bookedBefore // what the merchant had booked before a restore
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

// claim decides one claim and collects what it changes.
func (in *inboxTx) claim(i int, e *merchant.Entry, suspect bool) *inboxRow {
	key := keyOfEntry(e)
	row := in.rows[key]
	if row != nil {
		in.results[i] = row.claim(e, in.compare)
		if in.results[i].Replaced {
			in.ledger.alarm(client.AlarmRequestSuspect, key.id+" ("+string(merchant.ReasonOtherContent)+")", db.MillisOf(e.At))
			in.updates = append(in.updates, db.Statement{SQL: replaceInboxSQL,
				Args: []any{row.seq, e.Callback.User(), e.Content[:], orNull(keyOf(e.Transfer)), orNull(keyOf(e.Payment))}})
		}
		in.update(i, e, row)
		return row
	}
	in.last++
	row = &inboxRow{seq: in.last, content: e.Content, txIndex: noIndex, suspect: suspect, created: db.MillisOf(e.At)}
	in.rows[key] = row
	in.results[i] = row.claim(e, in.compare)
	ended := int64(0)
	if row.settled {
		ended = int64(db.MillisOf(e.At))
	}
	in.added, in.addedAt = in.added+1, max(in.addedAt, db.MillisOf(e.At))
	in.fresh = append(in.fresh, row.seq, int64(key.typ), key.id, e.Callback.User(), e.Callback.OrderID(), e.Content[:],
		orNull(keyOf(e.Transfer)), orNull(keyOf(e.Payment)), e.TxIndex, bit(row.duplicate), bit(row.suspect), row.claims,
		int64(row.leaseUntil), bit(row.settled), int64(db.MillisOf(e.At)), ended)
	return row
}

// judgeAgain replaces the stored confirmation in r if its order is no longer confirmed. It stores the refusal
// instead, so that the next answer to the question needs no further check.
func (in *inboxTx) judgeAgain(ctx context.Context, e *merchant.Entry, row *inboxRow, r *merchant.Claimed) error {
	o, err := findOrder(ctx, in.t, lockOrderSQL, e.ID)
	if err != nil && !isNotFound(err) {
		return err
	}
	var final bool
	if r.Reply, final = standing(o, r.Reply); final && r.Reply.Code != countersign.CodeAccepted {
		row.reply, r.Revoked = r.Reply, true
		in.ledger.alarm(client.AlarmEndedAgain, e.ID, db.MillisOf(e.At))
		in.updates = append(in.updates, db.Statement{SQL: endReplySQL,
			Args: []any{e.ID, int64(r.Reply.Code), r.Reply.Message}})
	}
	return nil
}

// sameIndex holds the first and the last entry of one transfer with the same tx_index. The entries of one payment have
// the index -1.
type sameIndex struct{ index, first, last int64 }

// noIndex is the txIndex of a row that has none yet. No callback uses this value.
const noIndex = math.MinInt64

// compare sets the index of row to that of e. If the index changes, it also determines whether row is a possible
// duplicate. It is one if another entry has the same payment. It is also one if another entry has the same transfer
// and the same index, or if one of the two lacks an index (PROTOCOL.md, I2).
func (in *inboxTx) compare(e *merchant.Entry, row *inboxRow) {
	if row.txIndex == e.TxIndex {
		return
	}
	row.txIndex = e.TxIndex
	row.duplicate = row.duplicate || in.booked.maybe(e)
	for key, index := range map[string]int64{keyOf(e.Transfer): e.TxIndex, keyOf(e.Payment): -1} {
		if key == "" {
			continue
		}
		for _, other := range in.transfers[key] {
			alone := other.first == row.seq && other.last == row.seq
			row.duplicate = row.duplicate || !alone && merchant.MayBeSame(other.index, index)
		}
		in.transfers[key] = append(in.transfers[key], sameIndex{index, row.seq, row.seq})
	}
}

// keyOf returns the stored form of a Transfer or a Payment. It returns "" if there is none. Half of the digest
// suffices to distinguish them and keeps the index small.
func keyOf(d merchant.Digest) string {
	if d.IsZero() {
		return ""
	}
	return hex.EncodeToString(d[:16])
}

// orNull returns text for a nullable column. It returns nil if text is empty.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

const (
	insertInboxSQL = `
INSERT INTO inbox (seq, type, id, tenant_user_id, call_back_id, content, transfer, payment, tx_index, duplicate, suspect, claims, lease_until, settled,
	created, ended)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`

	readInboxSQL = `
SELECT i.id, i.call_back_id, i.seq, i.content, i.tx_index, i.duplicate, i.suspect, i.settled, i.claims, i.lease_until, i.code, i.message, i.address, i.chain_name, i.symbol, i.amount,
	i.reply_user, i.created
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
	var duplicate, suspect, settled int64
	var d [4]string
	err = r.Scan(&key.id, &key.order, &row.seq, &content, &row.txIndex, &duplicate, &suspect, &settled, &row.claims,
		&row.leaseUntil, &row.reply.Code, &row.reply.Message, &d[0], &d[1], &d[2], &d[3], &row.reply.TenantUserID,
		&row.created)
	if err != nil {
		return key, nil, err
	}
	if typ == countersign.TypeRequestWithdraw {
		key.order = "" // its id is the callBackId
	}
	copy(row.content[:], content)
	row.duplicate, row.suspect, row.settled = duplicate != 0, suspect != 0, settled != 0
	row.reply.Details, err = keptDetails(d)
	return key, &row, err
}

const (
	replaceInboxSQL = `
UPDATE inbox SET tenant_user_id = $2, content = $3, transfer = $4, payment = $5 WHERE seq = $1 AND settled = 0`

	takeInboxSQL = `UPDATE inbox SET settled = 1, ended = $2, tx_index = $3, duplicate = $4 WHERE seq = $1 AND settled = 0`

	leaseInboxSQL = `UPDATE inbox SET claims = $2, lease_until = $3, tx_index = $4, duplicate = $5 WHERE seq = $1 AND settled = 0`
)

// update collects what call i changed in a known entry.
func (in *inboxTx) update(i int, e *merchant.Entry, row *inboxRow) {
	switch in.results[i].State {
	case merchant.StateTaken:
		in.updates = append(in.updates, db.Statement{SQL: takeInboxSQL, Args: []any{row.seq, int64(db.MillisOf(e.At)),
			row.txIndex, bit(row.duplicate)}})
	case merchant.StateClaimed:
		in.leased[i] = new(int64)
		in.updates = append(in.updates, db.Statement{SQL: leaseInboxSQL,
			Args: []any{row.seq, row.claims, int64(row.leaseUntil), row.txIndex, bit(row.duplicate)}, N: in.leased[i]})
	}
}
