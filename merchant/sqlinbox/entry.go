package sqlinbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	duplicate  bool
	suspect    bool
	claims     int64
	leaseUntil int64 // milliseconds since 1970
	settled    bool
	reply      merchant.Reply
	recorded   int64 // milliseconds since 1970
}

// claimed is what of r every state tells.
func (r *row) claimed(s merchant.State) merchant.Claimed {
	return merchant.Claimed{State: s, Seq: r.seq, PossibleDuplicate: r.duplicate, Suspect: r.suspect, Recorded: time.UnixMilli(r.recorded)}
}

// entryKey identifies an entry. It is a digest, so that an identifier of any length and any
// characters is compared byte for byte.
func entryKey(t countersign.Type, id string) []byte {
	h := sha256.New()
	h.Write([]byte("countersign sqlinbox entry 1\n"))
	_ = binary.Write(h, binary.BigEndian, int64(t))
	h.Write([]byte(id))
	return h.Sum(nil)
}

// stripe is the row of countersign_locks for a digest.
func stripe(digest []byte) int64 { return int64(binary.BigEndian.Uint16(digest)) % stripes }

// lock makes transactions about the same of digests wait for one another, in the same
// order in all of them. After it every statement reads what the earlier ones
// committed.
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
	err := t.each(ctx, `SELECT n FROM countersign_locks `+hint+`WHERE n IN (`+marks(len(args))+`) ORDER BY n FOR UPDATE`, args,
		func(scan func(...any) error) error {
			locked++
			var n int64
			return scan(&n)
		})
	if err == nil && locked != len(set) {
		err = errors.New("the table countersign_locks lacks rows: run the statements of sqlinbox.DDL")
	}
	return err
}

// locks gives the digests of all that a transaction about e must have to itself.
func locks(key []byte, e *merchant.Entry) [][]byte {
	digests := [][]byte{key}
	if !e.Transfer.IsZero() {
		digests = append(digests, e.Transfer[:])
	}
	for _, block := range e.Blocks.All() {
		digests = append(digests, block.Digest[:])
	}
	return digests
}

// marks gives n question marks for a list.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

const readEntrySQL = `
SELECT seq, content, duplicate, suspect, claims, lease_until, settled, reply, recorded FROM countersign_inbox WHERE entry = ?`

// read gives the entry of key, nil for none.
func (t *transaction) read(ctx context.Context, key []byte) (*row, error) {
	var r row
	var duplicate, suspect, settled int64
	var reply []byte
	known, err := t.one(ctx, readEntrySQL, []any{key}, &r.seq, &r.content, &duplicate, &suspect, &r.claims, &r.leaseUntil, &settled, &reply, &r.recorded)
	if err != nil || !known {
		return nil, err
	}
	r.duplicate, r.suspect, r.settled = duplicate != 0, suspect != 0, settled != 0
	if r.settled {
		r.reply, err = parseReply(reply)
	}
	return &r, err
}

// known is what record found.
type known struct {
	row     *row           // the entry, nil if the request is spliced
	refused merchant.State // Spliced or OtherContent; otherwise none
	settled bool           // it was settled before this transaction
}

// record applies the rules 1 to 4 of merchant.Inbox's Claim to e. A new entry is
// inserted, open and without a lease.
func (t *transaction) record(ctx context.Context, e *merchant.Entry) (k known, err error) {
	key := entryKey(e.Callback.CallbackType(), e.ID)
	if err := t.lock(ctx, locks(key, e)...); err != nil {
		return known{}, err
	}
	r, err := t.read(ctx, key)
	if err != nil {
		return known{}, err
	}
	seen, err := t.seenBlocks(ctx, e.Blocks)
	if err != nil {
		return known{}, err
	}
	finding := judge(e, seen, r)
	switch {
	case finding == merchant.FindingSpliced:
		return known{refused: merchant.StateSpliced}, nil
	case r != nil && !bytes.Equal(r.content, e.Content[:]):
		return known{row: r, refused: merchant.StateOtherContent}, nil
	case r == nil:
		if r, err = t.insertEntry(ctx, key, e, finding == merchant.FindingSuspect); err != nil {
			return known{}, err
		}
	}
	return known{row: r, settled: r.settled}, t.remember(ctx, e, seen)
}

const (
	readTransfersSQL = `SELECT tx_index FROM countersign_inbox WHERE transfer = ?`

	insertEntrySQL = `
INSERT INTO countersign_inbox (entry, type, id, callback, content, transfer, tx_index, duplicate, suspect, reply, recorded)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

func (t *transaction) insertEntry(ctx context.Context, key []byte, e *merchant.Entry, suspect bool) (*row, error) {
	r := &row{content: e.Content[:], suspect: suspect, recorded: e.At.UnixMilli()}
	var transfer any
	if !e.Transfer.IsZero() {
		transfer = e.Transfer[:]
		err := t.each(ctx, readTransfersSQL, []any{transfer}, func(scan func(...any) error) error {
			var index int64
			err := scan(&index)
			if index < 0 || e.TxIndex < 0 || index == e.TxIndex {
				r.duplicate = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	callback, err := e.Callback.Marshal()
	if err != nil {
		callback = nil // no rule needs it
	}
	r.seq, err = t.insert(ctx, insertEntrySQL, key, int64(e.Callback.CallbackType()), t.d.blob(e.ID), t.d.blob(string(callback)), e.Content[:],
		transfer, e.TxIndex, bit(r.duplicate), bit(r.suspect), t.d.blob(""), r.recorded)
	return r, err
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

const settleSQL = `
UPDATE countersign_inbox SET settled = 1, lease_until = 0, reply = ?, ended = ? WHERE seq = ? AND settled = 0`

// settle records the reply of r for ever. That it changes exactly one row shows that
// the transaction still is the one that recorded r: a database may end one without
// telling anybody but the statement that failed.
func (t *transaction) settle(ctx context.Context, r *row, reply merchant.Reply, at time.Time) error {
	n, err := t.exec(ctx, settleSQL, t.d.blob(formatReply(reply)), at.UnixMilli(), r.seq)
	if err == nil && n != 1 {
		err = fmt.Errorf("the entry is gone: the transaction was ended before its commit (%d rows)", n)
	}
	return err
}

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
