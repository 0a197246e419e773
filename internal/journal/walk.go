package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"countersign/internal/db"
)

// walkStep is how many records Run reads again each minute.
const walkStep = 10_000

// walker reads the whole log again, part by part, and compares it with itself: hashes,
// items, ids, checkpoints. So what was changed is found although nobody asks for it.
type walker struct {
	l *Log
	e edge // up to here
}

const (
	walkRecordsSQL = `
SELECT seq, body, hashes, leaves FROM audit_records WHERE seq > $1 AND seq <= $2 ORDER BY seq`

	hasSubjectSQL = `SELECT 1 FROM audit_subjects WHERE subject = $1 AND seq = $2`

	checkpointsSQL = `SELECT size, at, note FROM audit_checkpoints WHERE size > $1 AND size <= $2 ORDER BY size`
)

// step walks over the next records, at most most of them. At the end of the log it
// begins again and reports so. Its errors wrap ErrBroken, ErrCheckpoint or ErrForeign
// if something was changed.
func (w *walker) step(ctx context.Context, most int64) (ended bool, err error) {
	head, err := readHead(ctx, w.l.lists, readSizeSQL)
	if err != nil {
		return false, err
	}
	closed, err := w.l.closed(ctx)
	if err != nil {
		return false, err
	}
	if gone := closed.dropped(); w.e.size < gone.last {
		w.e = edge{gone.last, slices.Clone(gone.edge.hashes)}
		if err := w.l.checkClosed(ctx, gone); err != nil {
			return false, err
		}
	}
	until := min(w.e.size+most, head.size)
	roots, err := w.checkpoints(ctx, until)
	if err != nil {
		return false, err
	}
	var looks []db.Statement
	var looked []*look
	err = db.Each(ctx, w.l.lists, walkRecordsSQL, []any{w.e.size, until}, func(r db.Rows) error {
		var of row
		var leaves []byte
		if err := r.Scan(&of.seq, &of.body, &of.hashes, &leaves); err != nil {
			return err
		}
		if err := closed.checkBegun(of.seq, of.body, w.e, w.l.key.verifier); err != nil {
			return err
		}
		if err := of.appendTo(&w.e); err != nil {
			return err
		}
		if c, ok := roots[of.seq]; ok && c.Root != w.e.root() {
			return fmt.Errorf("%w: its first %d records have another root than was signed", ErrBroken, of.seq)
		}
		entry, err := Read(of.body)
		if err != nil {
			return fmt.Errorf("%w: record %d is no JSON", ErrBroken, of.seq)
		}
		if err := checkLeaves(of.seq, entry, leaves); err != nil {
			return err
		}
		for _, id := range entry.About {
			one := &look{seq: of.seq, id: id}
			looked = append(looked, one)
			looks = append(looks, db.Statement{SQL: hasSubjectSQL, Args: []any{subjectOf(id), of.seq}, Row: func(r db.Rows) error {
				return r.Scan(&one.found)
			}})
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	if w.e.size < until {
		return false, fmt.Errorf("%w: record %d is missing", ErrBroken, w.e.size+1)
	}
	if err := w.l.lists.Batch(ctx, looks); err != nil {
		return false, err
	}
	for _, one := range looked {
		if one.found == 0 {
			return false, fmt.Errorf("%w: record %d is not found by %q", ErrBroken, one.seq, one.id)
		}
	}
	if w.e.size < head.size {
		return false, nil
	}
	if w.e.root() != head.root() {
		return false, fmt.Errorf("%w: the hashes of its %d records do not give its head", ErrBroken, head.size)
	}
	w.e = edge{}
	return true, nil
}

// look is whether a record is found by an id.
type look struct {
	seq   int64
	id    string
	found int64 // 1: it is
}

// checkLeaves compares the hashes of a record's items with the root that it has.
func checkLeaves(seq int64, entry Entry, kept []byte) error {
	leaves, ok := split(kept)
	var of items
	if len(kept) == 0 && (json.Unmarshal(entry.Data, &of) != nil || of.Items == 0) {
		return nil
	}
	var e edge
	for _, h := range leaves {
		e.append(h)
	}
	if !ok || json.Unmarshal(entry.Data, &of) != nil || e.root() != of.Root || of.Items != len(leaves) {
		return fmt.Errorf("%w: the items of record %d are not those that were added", ErrBroken, seq)
	}
	return nil
}

// checkpoints gives the signed checkpoints of the next records, by size.
func (w *walker) checkpoints(ctx context.Context, until int64) (map[int64]Checkpoint, error) {
	list := map[int64]Checkpoint{}
	err := db.Each(ctx, w.l.lists, checkpointsSQL, []any{w.e.size, until}, func(r db.Rows) error {
		var size, at int64
		var signed string
		if err := r.Scan(&size, &at, &signed); err != nil {
			return err
		}
		c, err := openCheckpoint(signed, w.l.key.verifier)
		if err == nil && (c.Size != size || int64(c.At) != at) {
			err = fmt.Errorf("%w: the checkpoint of %d records is kept as another one", ErrBroken, c.Size)
		}
		list[size] = c
		return err
	})
	return list, err
}
