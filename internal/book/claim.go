package book

import (
	"context"
	"math"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
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

// inboxCall is one claim that waits for its transaction.
type inboxCall struct {
	ctx    context.Context // of its caller
	entry  merchant.Entry  // without a Callback, only its blocks are remembered
	result merchant.Claimed
	err    error
	done   chan struct{}
}

// gone reports whether the caller has given up.
func (c *inboxCall) gone() bool { return c.ctx.Err() != nil }

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

// orNull returns text for a nullable column. It returns nil if text is empty.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
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
