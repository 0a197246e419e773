package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"countersign/client"
	"countersign/internal/db"
)

const (
	hashesSQL = `SELECT hashes FROM audit_records WHERE seq = $1`

	listRecordsSQL = `SELECT seq, body, hashes FROM audit_records WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT CAST($3 AS BIGINT)`

	aboutSQL = `
SELECT r.seq, r.body FROM audit_subjects s JOIN audit_records r ON r.seq = s.seq
WHERE s.subject = $1 AND s.seq < $2 ORDER BY s.seq DESC LIMIT CAST($3 AS BIGINT)`
)

// hashes reads the hashes of subtrees, by tlog.StoredHashIndex. Each is kept with the record that completes it.
func (l *Log) hashes(ctx context.Context, indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	missing := make([]int64, len(indexes)) // the number of its record, until it is found
	reads := make([]db.Statement, len(indexes))
	for i, index := range indexes {
		level, place := tlog.SplitStoredHashIndex(index)
		missing[i] = (place + 1) << level
		reads[i] = db.Statement{SQL: hashesSQL, Args: []any{missing[i]}, Row: func(r db.Rows) error {
			var kept []byte
			if err := r.Scan(&kept); err != nil {
				return err
			}
			if of, ok := split(kept); ok && level < len(of) {
				hashes[i], missing[i] = of[level], 0
			}
			return nil
		}}
	}
	if err := l.lists.Batch(ctx, reads); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(missing, func(seq int64) bool { return seq != 0 }); i >= 0 {
		return nil, fmt.Errorf("%w: record %d or its hashes are missing", ErrBroken, missing[i])
	}
	return hashes, nil
}

// edgeAt returns the edge of the tree of the first size records.
func (l *Log) edgeAt(ctx context.Context, size int64) (edge, error) {
	hashes, err := l.hashes(ctx, subtrees(size))
	return edge{size, hashes}, err
}

// reader returns a reader of the hashes that proofs need.
func (l *Log) reader(ctx context.Context) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) { return l.hashes(ctx, indexes) })
}

// mostPage is how many bytes the records of a page have together at most, unless a single one is longer.
const mostPage = 4 << 20

// Page returns the records after a number, at most limit, in order. It fails with ErrBroken if one differs from what
// was added.
func (l *Log) Page(ctx context.Context, after int64, limit int) (client.AuditPage, error) {
	out := client.AuditPage{Entries: []client.AuditEntry{}, Next: after}
	head, err := readHead(ctx, l.lists, readHeadSQL)
	if err != nil {
		return out, err
	}
	if out.Size = head.size; after > head.size {
		return out, nil
	}
	e, err := l.edgeAt(ctx, after)
	if err != nil {
		return out, err
	}
	size, enough := 0, errors.New("enough")
	err = db.Each(ctx, l.lists, listRecordsSQL, []any{after, head.size, limit}, func(r db.Rows) error {
		var of client.AuditEntry
		var hashes []byte
		if err := r.Scan(&of.Seq, (*[]byte)(&of.Record), &hashes); err != nil {
			return err
		}
		if size += len(of.Record); size > mostPage && len(out.Entries) > 0 {
			return enough
		}
		if of.Seq != out.Next+1 || !bytes.Equal(join(e.append(tlog.RecordHash(of.Record))), hashes) {
			return fmt.Errorf("%w: record %d is missing, or is not the one that was added", ErrBroken, out.Next+1)
		}
		out.Entries, out.Next = append(out.Entries, of), of.Seq
		return nil
	})
	switch {
	case errors.Is(err, enough):
		return out, nil
	case err == nil && out.Next == after && after < head.size:
		err = fmt.Errorf("%w: record %d is missing", ErrBroken, after+1)
	}
	return out, err
}

// About returns the newest records about an id before a number (0: from the end), newest first.
func (l *Log) About(ctx context.Context, id string, before int64, limit int) (client.List[client.AuditEntry], error) {
	out := client.List[client.AuditEntry]{Items: []client.AuditEntry{}}
	if before == 0 {
		before = int64(db.Never)
	}
	err := db.Each(ctx, l.lists, aboutSQL, []any{subjectOf(id), before, limit}, func(r db.Rows) error {
		var of client.AuditEntry
		err := r.Scan(&of.Seq, (*[]byte)(&of.Record))
		out.Items = append(out.Items, of)
		return err
	})
	return out, err
}

// ErrFrom means that a proof was asked for from a checkpoint of more records than the log has.
var ErrFrom = errors.New("the log has fewer records than the checkpoint")

// Checkpoint signs the log as it is now. With from, it proves that the log begins with the log of an earlier checkpoint
// of that many records.
func (l *Log) Checkpoint(ctx context.Context, from int64) (client.AuditProof, error) {
	c, signed, err := l.sign(ctx)
	p := client.AuditProof{Checkpoint: signed, Key: l.key.verifier, From: from}
	switch {
	case err != nil:
		return p, err
	case from > c.Size:
		return p, fmt.Errorf("%w: it has %d, the checkpoint %d", ErrFrom, c.Size, from)
	case from > 0:
		proof, err := tlog.ProveTree(c.Size, from, l.reader(ctx))
		p.Consistency = join(proof)
		return p, err
	}
	return p, nil
}

// Prove returns one whole record with the proof that it is in the log. It fails with db.ErrNotFound if the log does not
// have it.
func (l *Log) Prove(ctx context.Context, seq int64) (client.AuditProof, error) {
	c, signed, err := l.sign(ctx)
	p := client.AuditProof{Checkpoint: signed, Key: l.key.verifier}
	if err == nil && (seq < 1 || seq > c.Size) {
		err = db.ErrNotFound
	}
	if err != nil {
		return p, err
	}
	page, err := l.Page(ctx, seq-1, 1)
	if err != nil {
		return p, err
	}
	proof, err := tlog.ProveRecord(c.Size, seq-1, l.reader(ctx))
	p.Record = &page.Entries[0]
	p.Record.Proof = join(proof)
	return p, err
}
