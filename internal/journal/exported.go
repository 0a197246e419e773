package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"countersign/client"
	"countersign/internal/db"
)

// ErrGap means that an export does not continue those that were acknowledged before.
var ErrGap = errors.New("records before it were not exported")

// recordExported is the kind of records of acknowledged exports.
const recordExported = "audit.exported"

type exportedRecord struct {
	First  int64  `json:"first"`
	Last   int64  `json:"last"`
	Digest string `json:"digest"` // of its records
}

// exportedRows is guarded: what was exported may be dropped.
var exportedRows = db.Guarded{Name: "audit_exported", Key: "id", Columns: `id, last`}

const acknowledgeSQL = `
INSERT INTO audit_exported (id, last, mac) VALUES (1, $1, $2) ON CONFLICT (id) DO UPDATE SET last = $1, mac = $2`

// exportedUpTo gives the last record of the exports that were acknowledged; 0: none was. What was
// dropped had been.
func exportedUpTo(ctx context.Context, q db.Querier, closed closedLogs, lock string) (upto int64, err error) {
	upto = closed.dropped().last
	rows := exportedRows.Reader(q)
	err = db.Each(ctx, q, exportedRows.Select()+`WHERE id = 1`+lock, nil, func(r db.Rows) error {
		var id, last int64
		genuine, err := rows.Scan(r, &id, &last)
		if genuine {
			upto = max(upto, last)
		}
		return err
	})
	return upto, err
}

// The errors of an export that is acknowledged, beside ErrGap.
var (
	// ErrOther means that its records are not those of the log.
	ErrOther = errors.New("its records are not those of the log")
	// ErrOtherCheckpoint means that its checkpoint is not one of this log, or is of fewer records.
	ErrOtherCheckpoint = errors.New("the log does not continue its checkpoint")
)

// Exported notes that somebody keeps an export, so that the next one may begin after it, once
// it has compared the export with the log. It gives the last record of all such exports. It
// fails with ErrGap, ErrOther or ErrOtherCheckpoint.
func (l *Log) Exported(ctx context.Context, x client.AuditExport, now db.Millis) (upto int64, err error) {
	if err := l.compare(ctx, x); err != nil {
		return 0, err
	}
	err = l.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		closed, err := tree{t, l.key.verifier}.closed(ctx)
		if err != nil {
			return err
		}
		if upto, err = exportedUpTo(ctx, t, closed, "{lock}"); err != nil {
			return err
		}
		switch {
		case x.Last <= upto: // it was acknowledged before
			return nil
		case x.First > upto+1:
			return fmt.Errorf("%w: those up to %d were", ErrGap, upto)
		}
		upto = x.Last
		if _, err := t.Exec(ctx, acknowledgeSQL, upto, exportedRows.MAC(t, int64(1), upto)); err != nil {
			return err
		}
		return Add(ctx, t, Record{Kind: recordExported, At: now, Data: exportedRecord{x.First, x.Last, x.Digest}})
	})
	return upto, err
}

// compare fails if an export does not have the checkpoint and the records of the log.
func (l *Log) compare(ctx context.Context, x client.AuditExport) error {
	c, err := openCheckpoint(x.Checkpoint, l.key.verifier)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOtherCheckpoint, err)
	}
	head, err := readHead(ctx, l.lists, readSizeSQL)
	if err != nil {
		return err
	}
	if c.Size > head.size || c.Size < x.Last {
		return fmt.Errorf("%w: it is of %d records", ErrOtherCheckpoint, c.Size)
	}
	signed, err := l.edgeAt(ctx, c.Size)
	if err != nil {
		return err
	}
	if signed.root() != c.Root {
		return fmt.Errorf("%w: its root is another", ErrOtherCheckpoint)
	}
	e, err := l.edgeAt(ctx, x.First-1)
	if err != nil {
		return err
	}
	digest := sha256.New()
	for e.size < x.Last {
		if err := l.rehash(ctx, &e, x.Last, digest); err != nil {
			return err
		}
	}
	if hex.EncodeToString(digest.Sum(nil)) != x.Digest {
		return ErrOther
	}
	return nil
}

// digestRecord adds a record to the digest of an export.
func digestRecord(digest io.Writer, record []byte) {
	_, _ = digest.Write(record) // a hash never fails
	_, _ = digest.Write([]byte("\n"))
}
