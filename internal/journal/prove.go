package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"countersign/client"
	"countersign/internal/db"
)

const (
	recordSQL = `SELECT seq, body, hashes, leaves FROM audit_records WHERE seq = $1`

	hashesSQL = `SELECT hashes FROM audit_records WHERE seq = $1`

	subjectSQL = `SELECT seq FROM audit_subjects WHERE subject = $1 AND seq <= $2 AND seq > $4 ORDER BY seq DESC LIMIT CAST($3 AS BIGINT)`
)

// tree reads the records and hashes of a log: by connections of their own, or in a transaction.
type tree struct {
	q   db.Querier
	key string // verifies checkpoints
}

// nodes reads the hashes of subtrees. Each is kept with the record that completes it, or with the
// log of years that were dropped. It fails with ErrDropped for those that are gone.
func (t tree) nodes(ctx context.Context, list []node) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(list))
	found := make([]bool, len(list))
	reads := make([]db.Statement, len(list))
	for i, n := range list {
		reads[i] = db.Statement{SQL: hashesSQL, Args: []any{n.seq()}, Row: func(r db.Rows) error {
			var kept []byte
			if err := r.Scan(&kept); err != nil {
				return err
			}
			of, ok := split(kept)
			if found[i] = ok && n.level < len(of); found[i] {
				hashes[i] = of[n.level]
			}
			return nil
		}}
	}
	if err := t.q.Batch(ctx, reads); err != nil {
		return nil, err
	}
	if !slices.Contains(found, false) {
		return hashes, nil
	}
	closed, err := t.closed(ctx)
	if err != nil {
		return nil, err
	}
	gone := closed.dropped()
	at := subtrees(gone.last)
	for i, n := range list {
		if found[i] || n.seq() > gone.last {
			continue
		}
		k := slices.Index(at, n)
		if k < 0 {
			return nil, ErrDropped
		}
		hashes[i], found[i] = gone.edge.hashes[k], true
	}
	if i := slices.Index(found, false); i >= 0 {
		return nil, fmt.Errorf("%w: record %d is missing or has not its hashes", ErrBroken, list[i].seq())
	}
	return hashes, nil
}

// edgeAt gives the edge of the tree of the first size records.
func (t tree) edgeAt(ctx context.Context, size int64) (edge, error) {
	hashes, err := t.nodes(ctx, subtrees(size))
	if err != nil {
		return edge{}, err
	}
	return edgeOf(size, hashes)
}

// reader reads the hashes that proofs are made of.
func (t tree) reader(ctx context.Context) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		list := make([]node, len(indexes))
		for i, index := range indexes {
			list[i].level, list[i].place = tlog.SplitStoredHashIndex(index)
		}
		return t.nodes(ctx, list)
	})
}

// Page gives the records after a number, at most limit, in order.
func (l *Log) Page(ctx context.Context, after int64, limit int) (client.AuditPage, error) {
	out := client.AuditPage{Edge: [][]byte{}, Entries: []client.AuditEntry{}, Next: after}
	head, err := readHead(ctx, l.lists, readSizeSQL)
	if err != nil {
		return out, err
	}
	closed, err := l.closed(ctx)
	if err == nil {
		out.Exported, err = exportedUpTo(ctx, l.lists, closed, "")
	}
	if err != nil {
		return out, err
	}
	out.First, out.Size = closed.dropped().last+1, head.size
	switch {
	case after > head.size:
		return out, nil
	case after+1 < out.First:
		return out, ErrDropped
	}
	e, err := l.edgeAt(ctx, after)
	if err != nil {
		return out, err
	}
	out.Edge = lists(e.hashes)
	rows, err := l.rows(ctx, after, head.size, limit)
	for _, r := range rows {
		if err := r.appendTo(&e); err != nil {
			return out, err
		}
		out.Entries = append(out.Entries, client.AuditEntry{Seq: r.seq, Hashes: r.hashes, Record: r.body})
		out.Next = r.seq
	}
	return out, err
}

// ErrFrom means that a proof is asked for from a checkpoint of more records than the
// log has.
var ErrFrom = errors.New("the log has fewer records than the checkpoint")

// Checkpoint signs the log as it is now. With from, it proves that the log of an
// earlier checkpoint of that many records is its beginning.
func (l *Log) Checkpoint(ctx context.Context, from int64) (client.AuditProof, error) {
	p, _, err := l.checkpoint(ctx, from)
	return p, err
}

func (l *Log) checkpoint(ctx context.Context, from int64) (p client.AuditProof, size int64, err error) {
	c, signed, err := l.sign(ctx)
	if err != nil {
		return p, 0, err
	}
	l.cosign(ctx, c, signed, false)
	p = client.AuditProof{Checkpoint: signed, Key: l.key.verifier, From: from}
	if p.Cosignatures, err = l.cosigned(ctx, c.Size, signed); err != nil {
		return p, 0, err
	}
	switch {
	case from > c.Size:
		return p, 0, fmt.Errorf("%w: it has %d, the checkpoint %d", ErrFrom, c.Size, from)
	case from > 0:
		closed, err := l.closed(ctx)
		if err == nil && from < closed.dropped().last {
			err = ErrDropped
		}
		if err != nil {
			return p, 0, err
		}
		proof, err := tlog.ProveTree(c.Size, from, l.reader(ctx))
		if err != nil {
			return p, 0, err
		}
		p.Consistency = lists(proof)
	}
	return p, c.Size, nil
}

// Subject is what evidence is asked for.
type Subject struct {
	// IDs: all records about one of them belong to it.
	IDs []string
	// Context are ids of what it depends on, such as its merchant: the last records about
	// each belong to it, up to the last one about IDs.
	Context []string
	// Items are items of records that tell of many as one.
	Items []Item
	// Outsider: the file is for somebody else. It has nothing of Context and of the tokens that acted,
	// and of the rest what outsiders see.
	Outsider bool
}

// How many records one proof holds at most, and how many about one id of its context.
const (
	mostEvidence = 5000
	mostContext  = 200
)

// Evidence gives all records about s in order, each with the proof that it is in the
// log. Records about the tokens that acted are among them. It fails with
// db.ErrNotFound if there is no record about s.IDs and no item is in the log.
func (l *Log) Evidence(ctx context.Context, s Subject, from int64) (client.AuditProof, error) {
	p, size, err := l.checkpoint(ctx, from)
	if err != nil {
		return p, err
	}
	found := map[int64]*client.AuditRecord{}
	if err := l.gather(ctx, found, s.IDs, size, size, mostEvidence+1); err != nil {
		return p, err
	}
	for _, item := range s.Items {
		if err := l.gatherItem(ctx, found, item, size); err != nil {
			return p, err
		}
	}
	if len(found) == 0 {
		return p, db.ErrNotFound
	}
	last := slices.Max(slices.Collect(maps.Keys(found)))
	if !s.Outsider {
		if err := l.gather(ctx, found, s.Context, last, size, mostContext); err != nil {
			return p, err
		}
		if err := l.gather(ctx, found, actors(found), last, size, mostContext); err != nil {
			return p, err
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(found)) {
		r := found[seq]
		if s.Outsider {
			r.Record = Withhold(r.Record)
			for i := range r.Items {
				r.Items[i].Item = Withhold(r.Items[i].Item)
			}
		}
		p.Records = append(p.Records, *r)
	}
	return p, nil
}

// gather adds the last records about each of ids up to number until, with their proofs.
func (l *Log) gather(ctx context.Context, found map[int64]*client.AuditRecord, ids []string, until, size int64, most int) error {
	for _, id := range ids {
		seqs, err := l.about(ctx, subjectOf(id), until, most)
		if err != nil {
			return err
		}
		for _, seq := range seqs {
			if _, _, err := l.prove(ctx, found, seq, size); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Log) about(ctx context.Context, subject string, until int64, most int) (seqs []int64, err error) {
	closed, err := l.closed(ctx)
	if err != nil {
		return nil, err
	}
	err = db.Each(ctx, l.lists, subjectSQL, []any{subject, until, most, closed.dropped().last}, func(r db.Rows) error {
		var seq int64
		err := r.Scan(&seq)
		seqs = append(seqs, seq)
		return err
	})
	return seqs, err
}

// ErrLarge means that there are more records about a subject than one proof holds.
var ErrLarge = fmt.Errorf("more than %d records are about it: export the log", mostEvidence)

// prove adds one record with its proof, and gives its leaves.
func (l *Log) prove(ctx context.Context, found map[int64]*client.AuditRecord, seq, size int64) (*client.AuditRecord, []tlog.Hash, error) {
	var of row
	var leaves []byte
	is, err := db.One(ctx, l.lists, recordSQL, []any{seq}, &of.seq, &of.body, &of.hashes, &leaves)
	if err == nil && !is {
		err = fmt.Errorf("%w: record %d is missing", ErrBroken, seq)
	}
	if err != nil {
		return nil, nil, err
	}
	kept, ok := split(leaves)
	if !ok {
		return nil, nil, fmt.Errorf("%w: record %d has not the hashes of its items", ErrBroken, seq)
	}
	if r := found[seq]; r != nil {
		return r, kept, nil
	}
	if len(found) == mostEvidence {
		return nil, nil, ErrLarge
	}
	proof, err := tlog.ProveRecord(size, seq-1, l.reader(ctx))
	if err != nil {
		return nil, nil, err
	}
	r := &client.AuditRecord{Seq: seq, Record: of.body, Proof: lists(proof)}
	found[seq] = r
	return r, kept, nil
}

// gatherItem adds the record that tells of an item, with the proof of the item. An item
// that is older than the log has none.
func (l *Log) gatherItem(ctx context.Context, found map[int64]*client.AuditRecord, item Item, size int64) error {
	seqs, err := l.about(ctx, itemsAt(item.At), size, mostEvidence)
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		apart := map[int64]*client.AuditRecord{} // it may be the record of other items
		if of := found[seq]; of != nil {
			apart[seq] = of
		}
		r, leaves, err := l.prove(ctx, apart, seq, size)
		if err != nil {
			return err
		}
		salt, err := saltOf(r.Record)
		if err != nil {
			return fmt.Errorf("%w: record %d has no salt", ErrBroken, seq)
		}
		b, err := closeItem(item.Item, salt)
		if err != nil {
			return err
		}
		index := slices.Index(leaves, leafOf(b))
		if index < 0 {
			continue
		}
		proof, err := proveItem(leaves, int64(index))
		if err != nil {
			return err
		}
		r.Items = append(r.Items, client.AuditItem{Index: int64(index), Item: b, Proof: lists(proof)})
		found[seq] = r
	}
	return nil
}

// saltOf gives the salt of a record.
func saltOf(record []byte) ([]byte, error) {
	var b struct{ Private hidden }
	err := json.Unmarshal(record, &b)
	if err == nil && len(b.Private.Salt) == 0 {
		err = errors.New("no salt")
	}
	return b.Private.Salt, err
}

// proveItem proves a leaf of a tree that is in memory.
func proveItem(leaves []tlog.Hash, index int64) (tlog.RecordProof, error) {
	var e edge
	var stored []tlog.Hash // in the order of tlog
	for _, h := range leaves {
		stored = append(stored, e.append(h)...)
	}
	return tlog.ProveRecord(int64(len(leaves)), index, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		list := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			list[i] = stored[index]
		}
		return list, nil
	}))
}

// actors are the tokens that made the calls of which the records tell.
func actors(found map[int64]*client.AuditRecord) (ids []string) {
	add := func(id string) {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, r := range found {
		if entry, err := Read(r.Record); err == nil && entry.By != nil {
			add(entry.By.Token)
		}
		for _, item := range r.Items {
			var by struct{ AddedBy string }
			if whole, err := wholeItem(item.Item); err == nil && json.Unmarshal(whole, &by) == nil {
				add(by.AddedBy)
			}
		}
	}
	return ids
}
