package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"countersign/client"
	"countersign/internal/db"
)

// At the end of a year the log is closed and a new one begins: the first record of the new one
// names the signed head of the old one. Both are parts of one tree, under one key, so that heads,
// proofs, exports and witnesses go on, and whoever holds a checkpoint of one year sees whether the
// next one continues it. What a tree needs of a part that is behind it are few hashes: a log that
// was closed and exported can be dropped whole.
type closedLog struct {
	year    int64
	last    int64 // its last record
	at      db.Millis
	edge    edge // of the tree of all records up to last
	dropped db.Millis
}

// closedLogs are the logs that were closed, in order.
type closedLogs []closedLog

// closedRows are guarded: records that are missing may be so because of a row alone, and whoever
// writes the database past the program makes none.
var closedRows = db.Guarded{Name: "audit_closed", Key: "last", Columns: `last, year, at, edge, dropped`}

// aboutLogs is the subject of records about logs of years.
const aboutLogs = "logs"

const (
	recordBegun   = "audit.begun"
	recordDropped = "audit.dropped"
)

// begun is the data of the first record of a log.
type begun struct {
	Year       int64  `json:"year"`       // of the log that was closed
	Last       int64  `json:"last"`       // its last record
	Checkpoint string `json:"checkpoint"` // its signed head
}

type droppedRecord struct {
	Year int64 `json:"year"`
	Last int64 `json:"last"` // all records up to there are given up
}

// ErrDropped means that records are asked for that were exported and dropped.
var ErrDropped = errors.New("the log of that time was exported and dropped")

// closed reads the logs that were closed.
func (t tree) closed(ctx context.Context) (list closedLogs, err error) {
	rows := closedRows.Reader(t.q)
	err = db.Each(ctx, t.q, closedRows.Select()+`ORDER BY last`, nil, func(r db.Rows) error {
		var c closedLog
		var kept []byte
		genuine, err := rows.Scan(r, &c.last, &c.year, &c.at, &kept, &c.dropped)
		if err != nil || !genuine {
			return err
		}
		hashes, _ := split(kept)
		if c.edge, err = edgeOf(c.last, hashes); err == nil {
			list = append(list, c)
		}
		return err
	})
	return list, err
}

// checkClosed checks that a log was closed with the head that was signed.
func (t tree) checkClosed(ctx context.Context, c closedLog) error {
	signed, _, err := t.kept(ctx, checkpointSQL, c.last)
	if err == nil && (signed.Size != c.last || signed.Root != c.edge.root()) {
		err = fmt.Errorf("%w: its first %d records were closed with another head than was signed", ErrBroken, c.last)
	}
	return err
}

// dropped is the last log that was dropped, with all before it; the zero closedLog: none was.
func (list closedLogs) dropped() (c closedLog) {
	for _, one := range list {
		if one.dropped != 0 {
			c = one
		}
	}
	return c
}

// at gives the log whose last record is that one; nil if none ends there.
func (list closedLogs) at(last int64) *closedLog {
	i := slices.IndexFunc(list, func(c closedLog) bool { return c.last == last })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// readBegun gives the data of the first record of a log; nil if the record is another one.
func readBegun(record []byte) *begun {
	if !bytes.Contains(record, []byte(`"kind":"`+recordBegun+`"`)) {
		return nil
	}
	var b begun
	if e, err := Read(record); err != nil || e.Kind != recordBegun || json.Unmarshal(e.Data, &b) != nil {
		return nil
	}
	return &b
}

// follows checks that the head that b names is signed and is that of the records before it.
func (b *begun) follows(before edge, key string) error {
	c, err := openCheckpoint(b.Checkpoint, key)
	if err == nil && (b.Last != before.size || c.Size != before.size || c.Root != before.root()) {
		err = fmt.Errorf("it names %d records with another root", c.Size)
	}
	if err != nil {
		return fmt.Errorf("record %d does not name the head of the log before it: %w", before.size+1, err)
	}
	return nil
}

// checkBegun checks that a record is the first of a log if, and only if, this end has closed the
// one before it.
func (list closedLogs) checkBegun(seq int64, record []byte, before edge, key string) error {
	b, c := readBegun(record), list.at(seq-1)
	switch {
	case b == nil && c == nil:
		return nil
	case b == nil:
		return fmt.Errorf("%w: record %d does not say that the log before it was closed", ErrBroken, seq)
	case c == nil:
		return fmt.Errorf("%w: record %d says that a log was closed, and this end has closed none there", ErrBroken, seq)
	}
	err := b.follows(before, key)
	if err == nil && (c.year != b.Year || c.edge.root() != before.root()) {
		err = fmt.Errorf("the log before record %d was closed with another head", seq)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return nil
}

const (
	firstRecordSQL = `SELECT body FROM audit_records WHERE seq = 1`

	closeLogSQL = `INSERT INTO audit_closed (last, year, at, edge, dropped, mac) VALUES ($1, $2, $3, $4, 0, $5)`
)

// began gives the year in which the present log began; 0: it has no record.
func (t tree) began(ctx context.Context) (year int64, err error) {
	closed, err := t.closed(ctx)
	if err != nil {
		return 0, err
	}
	if n := len(closed); n > 0 {
		return int64(closed[n-1].at.Time().Year()), nil
	}
	var record []byte
	found, err := db.One(ctx, t.q, firstRecordSQL, nil, &record)
	if err != nil || !found {
		return 0, err
	}
	e, err := Read(record)
	if err != nil {
		return 0, fmt.Errorf("%w: record 1 is no JSON", ErrBroken)
	}
	return int64(e.At.Time().UTC().Year()), nil
}

// CloseYear closes the present log if it began in a year that has ended, and begins the next one:
// all in one transaction, which holds the head of the log, so that no record is between them and
// one node alone does it.
func (l *Log) CloseYear(ctx context.Context) error {
	now := db.MillisOf(l.c.Now())
	over := func(t tree) (year int64, is bool, err error) {
		year, err = t.began(ctx)
		return year, err == nil && year != 0 && year < int64(now.Time().Year()), err
	}
	if _, is, err := over(l.tree); err != nil || !is {
		return err
	}
	if _, _, err := l.sign(ctx); err != nil { // hashes nearly all, while nobody waits for the head
		return err
	}
	seen := l.Seen()
	var c Checkpoint
	var signed string
	err := l.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		c = Checkpoint{}
		head, err := readHead(ctx, t, lockHeadSQL)
		if err != nil {
			return err
		}
		of := tree{t, l.key.verifier}
		year, is, err := over(of)
		if err != nil || !is { // another node was first
			return err
		}
		last, note, err := of.kept(ctx, lastCheckpointSQL)
		if err != nil {
			return err
		}
		text, err := l.signable(ctx, of, seen, last, head)
		if err == nil && text != "" {
			last, note, err = l.keepCheckpoint(ctx, t, head, text)
		}
		if err != nil {
			return err
		}
		kept := join(head.hashes)
		if _, err := t.Exec(ctx, closeLogSQL, head.size, year, int64(now), kept, closedRows.MAC(t, head.size, year, int64(now), kept, int64(0))); err != nil {
			return err
		}
		r, err := written(ctx, Record{Kind: recordBegun, At: now, About: []string{aboutLogs}, Data: begun{year, head.size, note}}, newSalt(), nil)
		if err != nil {
			return err
		}
		c, signed = last, note
		return Keep(ctx, t, []db.LogRecord{r}) // not with those of others in the transaction: it is the next one
	})
	if err != nil || c.Size == 0 {
		return err
	}
	l.Expect(db.Head{Size: c.Size, Root: c.Root[:]})
	l.c.Log.Info("the audit log of a year was closed", "last", c.Size)
	l.cosign(ctx, c, signed, true)
	return nil
}

// Logs gives the logs of years, the present one last.
func (l *Log) Logs(ctx context.Context) (out client.AuditLogs, err error) {
	head, err := readHead(ctx, l.lists, readSizeSQL)
	if err != nil {
		return out, err
	}
	closed, err := l.closed(ctx)
	if err != nil {
		return out, err
	}
	if out.Exported, err = exportedUpTo(ctx, l.lists, closed, ""); err != nil {
		return out, err
	}
	first := int64(1)
	for _, c := range closed {
		out.Logs = append(out.Logs, client.AuditLog{Year: c.year, First: first, Last: c.last, Closed: client.Time(c.at), Dropped: client.Time(c.dropped), Exported: out.Exported >= c.last})
		first = c.last + 1
	}
	year, err := l.began(ctx)
	out.Logs = append(out.Logs, client.AuditLog{Year: year, First: first, Last: head.size, Exported: out.Exported >= head.size})
	return out, err
}

const (
	lockClosedSQL = `SELECT last FROM audit_closed ORDER BY last{lock}`

	dropLogSQL = `UPDATE audit_closed SET dropped = $2, mac = $3 WHERE last = $1`
)

// ErrNotExported means that a log is to be dropped whose records nobody has said to keep.
var ErrNotExported = errors.New("not all of its records were exported and acknowledged")

// Droppable gives the log that ends with a record, if it can be dropped: it was closed, and all of it
// was exported and acknowledged. Errors: db.ErrNotFound, ErrNotExported.
func (l *Log) Droppable(ctx context.Context, last int64) (client.AuditLog, error) {
	list, err := l.Logs(ctx)
	if err != nil {
		return client.AuditLog{}, err
	}
	for _, one := range list.Logs {
		switch {
		case one.Last != last || one.Closed == 0:
			continue
		case !one.Exported:
			return one, ErrNotExported
		}
		return one, nil
	}
	return client.AuditLog{}, db.ErrNotFound
}

// Drop gives up the records of the log that ends with a record, and of those before it. also runs in
// the same transaction. The records are removed after it, by Run. Errors are those of Droppable.
func (l *Log) Drop(ctx context.Context, last int64, now db.Millis, also func(context.Context, *db.Tx) error) error {
	return l.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if _, err := t.Exec(ctx, lockClosedSQL); err != nil {
			return err
		}
		of := tree{t, l.key.verifier}
		closed, err := of.closed(ctx)
		if err != nil {
			return err
		}
		upto, err := exportedUpTo(ctx, t, closed, "{lock}")
		if err != nil {
			return err
		}
		switch c := closed.at(last); {
		case c == nil:
			return db.ErrNotFound
		case upto < last:
			return ErrNotExported
		case c.dropped == 0:
			err := of.checkClosed(ctx, *c)
			if err == nil {
				err = Add(ctx, t, Record{Kind: recordDropped, At: now, About: []string{aboutLogs}, Data: droppedRecord{c.year, last}})
			}
			if err != nil {
				return err
			}
		}
		for _, c := range closed {
			if c.last > last || c.dropped != 0 {
				continue
			}
			kept := join(c.edge.hashes)
			if _, err := t.Exec(ctx, dropLogSQL, c.last, int64(now), closedRows.MAC(t, c.last, c.year, int64(c.at), kept, int64(now))); err != nil {
				return err
			}
		}
		return also(ctx, t)
	})
}
