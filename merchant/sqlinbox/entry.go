package sqlinbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"countersign"
	"countersign/merchant"
)

// stripes is the number of rows of countersign_locks.
const stripes = 1024

// row is an entry as the rules of merchant.Inbox see it.
type row struct {
	seq        int64
	content    []byte
	txIndex    int64
	duplicate  bool
	suspect    bool
	claims     int64
	leaseUntil int64 // milliseconds since 1970
	settled    bool
	reply      merchant.Reply
	recorded   int64 // milliseconds since 1970
	mark       int64 // of begin, in this transaction alone
	replaced   bool  // this transaction gave it other content
	revoked    bool  // this transaction refused what was confirmed
}

// claimed returns what every Claimed says of r.
func (r *row) claimed(s merchant.State) merchant.Claimed {
	return merchant.Claimed{State: s, Seq: r.seq, PossibleDuplicate: r.duplicate, Suspect: r.suspect,
		Recorded: time.UnixMilli(r.recorded), Replaced: r.replaced, Revoked: r.revoked}
}

// entryKey identifies an entry. It is a digest, so that identifiers of any length and any
// characters are compared byte for byte.
func entryKey(t countersign.Type, id, order string) []byte {
	h := sha256.New()
	h.Write([]byte("countersign sqlinbox entry 2\n"))
	_ = binary.Write(h, binary.BigEndian, []int64{int64(t), int64(len(id))})
	h.Write([]byte(id + order))
	return h.Sum(nil)
}

// withdrawalLock returns what to lock while OnWithdrawal runs, nil if e is not a question.
func (c *Config) withdrawalLock(e *merchant.Entry) [][]byte {
	w, ok := e.Callback.(*countersign.WithdrawalRequest)
	if !ok {
		return nil
	}
	name := ""
	if c.WithdrawalLock != nil {
		name = c.WithdrawalLock(*w)
	}
	digest := sha256.Sum256([]byte("countersign sqlinbox withdrawals 1\n" + name))
	return [][]byte{digest[:]}
}

// stripe returns the row of countersign_locks for a digest.
func stripe(digest []byte) int64 { return int64(binary.BigEndian.Uint16(digest)) % stripes }

// lock makes transactions with a digest in common run one after another. All lock in the
// same order. After it every statement reads what the earlier transactions committed.
func (t *transaction) lock(ctx context.Context, digests ...[]byte) error {
	if t.d == SQLite {
		// A write, though of no row: the transaction is the writer from here on.
		_, err := t.exec(ctx, `UPDATE countersign_locks SET n = n WHERE n < 0`)
		return err
	}
	set := make([]int64, len(digests))
	for i, digest := range digests {
		set[i] = stripe(digest)
	}
	slices.Sort(set)
	set = slices.Compact(set)
	args := make([]any, len(set))
	for i, n := range set {
		args[i] = n
	}
	// Without the hint MySQL might read all rows of this small table, and lock them.
	hint := ""
	if t.d == MySQL {
		hint = "FORCE INDEX (PRIMARY) "
	}
	locked := 0
	err := t.each(ctx, `SELECT n FROM countersign_locks `+hint+`WHERE n IN (`+marks(len(args))+
		`) ORDER BY n FOR UPDATE`, args, func(scan func(...any) error) error {
		locked++
		var n int64
		return scan(&n)
	})
	if err == nil && locked != len(set) {
		err = errors.New("the table countersign_locks lacks rows: run the statements of sqlinbox.DDL")
	}
	return err
}

// locks returns the digests that a transaction about e locks.
func locks(key []byte, e *merchant.Entry) (digests [][]byte) {
	if key != nil {
		digests = append(digests, key)
	}
	if question := ends(e); question != nil {
		digests = append(digests, question)
	}
	if !e.Transfer.IsZero() {
		digests = append(digests, e.Transfer[:], e.Payment[:])
	}
	for _, block := range e.Blocks.All() {
		digests = append(digests, block.Digest[:])
	}
	return digests
}

const readEntrySQL = `
SELECT seq, content, tx_index, duplicate, suspect, claims, lease_until, settled, reply, recorded FROM countersign_inbox WHERE entry = ?`

// read returns the entry of key, nil for none.
func (t *transaction) read(ctx context.Context, key []byte) (*row, error) {
	var r row
	var duplicate, suspect, settled int64
	var reply []byte
	known, err := t.one(ctx, readEntrySQL, []any{key}, &r.seq, &r.content, &r.txIndex, &duplicate, &suspect, &r.claims,
		&r.leaseUntil, &settled, &reply, &r.recorded)
	if err != nil || !known {
		return nil, err
	}
	r.duplicate, r.suspect, r.settled = duplicate != 0, suspect != 0, settled != 0
	if r.settled {
		r.reply, err = parseReply(reply)
	}
	return &r, err
}

// record applies the rules 1 to 4 of merchant.Inbox's Claim to e. A new entry is inserted, open and without a lease.
// The transaction locks besides too. If the state of c is none, the caller is to act on r.
func (t *transaction) record(ctx context.Context, e *merchant.Entry,
	besides ...[]byte) (r *row, c merchant.Claimed, err error) {
	key := entryKey(e.Callback.CallbackType(), e.ID, e.Order)
	if err := t.lock(ctx, append(locks(key, e), besides...)...); err != nil {
		return nil, c, err
	}
	if r, err = t.read(ctx, key); err != nil {
		return nil, c, err
	}
	seen, err := t.seenBlocks(ctx, e.Blocks)
	if err != nil {
		return nil, c, err
	}
	finding := e.Judge(seen, r != nil, r != nil && r.settled)
	switch {
	case finding == merchant.FindingSpliced:
		return nil, merchant.Claimed{State: merchant.StateSpliced}, nil
	case r != nil && !bytes.Equal(r.content, e.Content[:]):
		if r.settled || e.At.UnixMilli() < r.leaseUntil {
			return r, r.claimed(merchant.StateOtherContent), t.remember(ctx, e, seen)
		}
		err = t.replace(ctx, r, e)
	case r == nil:
		r, err = t.insertEntry(ctx, key, e, finding == merchant.FindingSuspect)
	}
	if err == nil && e.Callback.CallbackType() == countersign.TypeRequestWithdraw {
		err = t.judge(ctx, key, r, e.At)
	}
	if err != nil {
		return nil, c, err
	}
	if r.settled {
		c = r.claimed(merchant.StateSettled)
		c.Reply = r.reply
	}
	return r, c, t.remember(ctx, e, seen)
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

const (
	endedSQL = `SELECT 1 FROM countersign_inbox WHERE ends = ? AND settled = 1 LIMIT 1`

	replaceReplySQL = `UPDATE countersign_inbox SET settled = 1, lease_until = 0, mark = 0, reply = ?, ended = ? WHERE seq = ?`
)

// judge refuses for ever the question r with the key if its withdrawal has been executed or has
// ended, even if it was confirmed before (PROTOCOL.md, I1).
func (t *transaction) judge(ctx context.Context, key []byte, r *row, at time.Time) error {
	if r.settled && r.reply.Code != countersign.CodeAccepted {
		return nil
	}
	var found int
	ended, err := t.one(ctx, endedSQL, []any{key}, &found)
	if err != nil || !ended {
		return err
	}
	code := countersign.CodeOrderCancelled
	return t.refuse(ctx, r, merchant.Reply{Code: code, Message: code.Message()}, at)
}

// refuse records the refusal of a question, also in place of a confirmation.
func (t *transaction) refuse(ctx context.Context, r *row, reply merchant.Reply, at time.Time) error {
	r.settled, r.reply, r.revoked = true, reply, r.settled
	return t.ends(ctx, replaceReplySQL, t.d.blob(formatReply(reply)), at.UnixMilli(), r.seq)
}

// ends returns the key of the question that e ends, nil if e is not of type 3 or 5.
func ends(e *merchant.Entry) []byte {
	if e.Callback == nil { // only its blocks are remembered
		return nil
	}
	id := e.Callback.OrderID()
	switch effect := e.Callback.CallbackType().Effect(); {
	case id != "" && (effect == countersign.EffectExecuted || effect == countersign.EffectEnded):
		return entryKey(countersign.TypeRequestWithdraw, id, "")
	}
	return nil
}

const (
	readPaymentSQL = `SELECT 1 FROM countersign_inbox WHERE payment = ? AND seq <> ? LIMIT 1`

	readTransfersSQL = `SELECT DISTINCT tx_index FROM countersign_inbox WHERE transfer = ? AND seq <> ?`

	replaceSQL = `
UPDATE countersign_inbox SET callback = ?, content = ?, transfer = ?, payment = ?, ends = ?, tx_index = ?, duplicate = ? WHERE seq = ?`

	insertEntrySQL = `
INSERT INTO countersign_inbox (entry, type, id, callback, content, transfer, payment, ends, tx_index, duplicate, suspect, reply, recorded)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

func (t *transaction) insertEntry(ctx context.Context, key []byte, e *merchant.Entry, suspect bool) (*row, error) {
	r := &row{suspect: suspect, recorded: e.At.UnixMilli()}
	if err := t.compare(ctx, r, e); err != nil {
		return nil, err
	}
	args := append([]any{key, int64(e.Callback.CallbackType()), t.d.blob(e.ID)}, t.columns(r, e)...)
	var err error
	r.seq, err = t.insert(ctx, insertEntrySQL, append(args, bit(r.suspect), t.d.blob(""), r.recorded)...)
	return r, err
}

// columns returns the parameters for what r keeps of e.
func (t *transaction) columns(r *row, e *merchant.Entry) []any {
	var transfer, payment, question any
	if !e.Transfer.IsZero() {
		transfer, payment = e.Transfer[:], e.Payment[:]
	}
	if key := ends(e); key != nil {
		question = key
	}
	callback, err := e.Callback.Marshal()
	if err != nil {
		callback = nil // no rule needs it
	}
	return []any{t.d.blob(string(callback)), e.Content[:], transfer, payment, question, e.TxIndex, bit(r.duplicate)}
}

// replace puts the content of e in place of r's, which was never accepted, and compares it anew.
func (t *transaction) replace(ctx context.Context, r *row, e *merchant.Entry) error {
	r.replaced, r.duplicate = true, false
	return t.rewrite(ctx, r, e)
}

// rewrite compares r under the index of e, and keeps of e what a person is shown.
func (t *transaction) rewrite(ctx context.Context, r *row, e *merchant.Entry) error {
	if err := t.compare(ctx, r, e); err != nil {
		return err
	}
	r.content = e.Content[:]
	_, err := t.exec(ctx, replaceSQL, append(t.columns(r, e), r.seq)...)
	return err
}

// compare sets r's index to that of e, and marks r as a possible duplicate if another
// entry has the same payment, or may be the same transfer (PROTOCOL.md, I2).
func (t *transaction) compare(ctx context.Context, r *row, e *merchant.Entry) error {
	r.txIndex = e.TxIndex
	if e.Transfer.IsZero() {
		return nil
	}
	var found int
	same, err := t.one(ctx, readPaymentSQL, []any{e.Payment[:], r.seq}, &found)
	if r.duplicate = r.duplicate || same; r.duplicate || err != nil {
		return err
	}
	return t.each(ctx, readTransfersSQL, []any{e.Transfer[:], r.seq}, func(scan func(...any) error) error {
		var index int64
		err := scan(&index)
		r.duplicate = r.duplicate || merchant.MayBeSame(index, e.TxIndex)
		return err
	})
}

// setIndex rewrites r if e has another index. It is called before r is claimed or takes effect.
func (t *transaction) setIndex(ctx context.Context, r *row, e *merchant.Entry) error {
	if r.txIndex == e.TxIndex {
		return nil
	}
	return t.rewrite(ctx, r, e)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

const (
	markSQL = `UPDATE countersign_inbox SET mark = ? WHERE seq = ? AND settled = 0`

	settleSQL = `
UPDATE countersign_inbox SET settled = 1, lease_until = 0, mark = 0, reply = ?, ended = ?, review = ? WHERE seq = ? AND settled = 0 AND mark = ?`
)

// newMark returns the number that begin stores, so that settle finds its row.
func newMark() int64 { return 1 + rand.Int64N(1<<62) }

// begin marks r before the merchant's function runs, with a number that settle must find
// again. A database may end a transaction at a deadlock and tell nobody but the statement
// that failed, which is the function's. If the function goes on all the same, what it
// wrote is lost, and so is the mark.
func (t *transaction) begin(ctx context.Context, r *row) error {
	r.mark = newMark()
	_, err := t.exec(ctx, markSQL, r.mark, r.seq)
	return err
}

// What became of a deposit that a person must decide on; 0: it is no such deposit.
const (
	reviewHeld int64 = iota + 1
	reviewCredited
	reviewRejected
)

// settle records the reply of r for ever. r.mark is 0 if no function ran.
func (t *transaction) settle(ctx context.Context, r *row, reply merchant.Reply, at time.Time) error {
	// Accepted, and not to be credited before a person has decided.
	held := (r.duplicate || r.suspect) && reply.Code == 0
	return t.ends(ctx, settleSQL, t.d.blob(formatReply(reply)), at.UnixMilli(), bit(held)*reviewHeld, r.seq, r.mark)
}

// ends runs the last statement of a transaction, which must find the row as begin left it.
func (t *transaction) ends(ctx context.Context, statement string, args ...any) error {
	n, err := t.exec(ctx, statement, args...)
	if err == nil && n != 1 {
		err = errEnded
	}
	return err
}

var errEnded = errors.New("the database ended the transaction before its commit, perhaps at a deadlock whose error the function did not return; nothing was recorded")

const leaseSQL = `UPDATE countersign_inbox SET claims = ?, lease_until = ? WHERE seq = ?`

// lease notes the claims and the end of the lease of r.
func (t *transaction) lease(ctx context.Context, r *row) error {
	_, err := t.exec(ctx, leaseSQL, r.claims, r.leaseUntil, r.seq)
	return err
}

// leaseEnd rounds up, so that a lease is never shorter than asked for.
func leaseEnd(at time.Time, lease time.Duration) int64 {
	return at.Add(lease + time.Millisecond - 1).UnixMilli()
}
